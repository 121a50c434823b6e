"""Measures at the sources what a lag needs: log ends, and the size of waiting records.

Reads with a plain consumer by assignment: no group is joined, nothing is committed. Each source
has its own thread and deadline.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

from confluent_kafka import Message

from aggregator.config.schema import Config
from aggregator.kafka.admin import ClusterAdmin, PartitionOffsets, by_partition, each_cluster
from aggregator.kafka.admin.parallel import LATE_SECONDS, ask_all
from aggregator.kafka.credentials import reader_settings
from aggregator.kafka.reader import AssignedReader, open_consumer
from aggregator.model.values import SourcePartition, TopicPartition
from aggregator.status.lag import LagReport, LagRow, Sample, measured, with_bytes

RECORDS = 20
"""Records read of a partition: enough for a mean size, and cheap."""
PARTITIONS = 64
"""Partitions read of a source, those with the largest lag; the others take their topic's mean."""
SAMPLE_SECONDS = 5.0


def measure(config: Config, report: LagReport, *, sizes: bool = True) -> LagReport:
    """The report with live log ends and, with `sizes`, the bytes of the lag.

    A source that does not answer leaves its rows unknown, with the reason; nothing is raised.
    """
    report = _live_ends(config, report)
    return with_bytes(report, _samples(config, report)) if sizes else report


def sample_source(
    config: Config, alias: str, positions: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Sample]:
    """Read up to RECORDS of each partition from its position, for SAMPLE_SECONDS at most.

    A partition of which nothing came is absent, unless its end was reached: then it is `empty`.
    Raises ClusterError when the source refuses.
    """
    settings = {
        **reader_settings(config.sources[alias], "aggregator-lag"),
        "fetch.message.max.bytes": 65_536,
        "queued.max.messages.kbytes": 4_096,
    }
    sizes: dict[TopicPartition, list[int]] = {tp: [] for tp in positions}
    ended: set[TopicPartition] = set()
    with closing(open_consumer(alias, settings)) as consumer:
        reader = AssignedReader(consumer, positions)
        end = time.monotonic() + SAMPLE_SECONDS
        while reader.left and time.monotonic() < end:
            polled = reader.poll(RECORDS * 5)
            for tp, message in polled.records:
                if len(sizes[tp]) < RECORDS:
                    sizes[tp].append(size_of(message))
            ended |= polled.ends.keys()
            polled.check(alias)
            for tp in [it for it in reader.left if it in ended or len(sizes[it]) >= RECORDS]:
                reader.finish(tp)
    return {
        tp: Sample(sum(found) / len(found)) if found else Sample(empty=True)
        for tp, found in sizes.items()
        if found or tp in ended
    }


def size_of(message: Message) -> int:
    """Bytes of a record's key, value and headers."""
    headers = message.headers() or []
    pairs = headers.items() if isinstance(headers, dict) else headers
    return (
        len(message.key() or b"")
        + len(message.value() or b"")
        + sum(len(name.encode()) + len(value or b"") for name, value in pairs)
    )


def _live_ends(config: Config, report: LagReport) -> LagReport:
    timeout = config.supervision.connect_timeout
    groups = _by_cluster(report.rows)

    def ask(admin: ClusterAdmin) -> PartitionOffsets:
        rows = groups[admin.alias]
        return admin.offsets([row.source_partition.topic_partition for row in rows], timeout)

    replies = each_cluster(config, groups, ask)
    failures = {
        row.source_partition: str(why)
        for alias, why in replies.failed.items()
        for row in groups[alias]
    } | by_partition({alias: it.failed for alias, it in replies.ok.items()})
    ends = by_partition({alias: it.ranges for alias, it in replies.ok.items()})
    return measured(report, ends, failures, datetime.now(UTC))


def _samples(config: Config, report: LagReport) -> dict[SourcePartition, Sample]:
    behind = _by_cluster([row for row in report.rows if row.lag])

    def job(alias: str) -> dict[TopicPartition, Sample]:
        largest = sorted(behind[alias], key=lambda row: row.lag or 0, reverse=True)[:PARTITIONS]
        wanted = {row.source_partition.topic_partition: row.position or 0 for row in largest}
        return sample_source(config, alias, wanted)

    jobs = {alias: partial(job, alias) for alias in behind}
    # Without an answer the bytes are unknown, and shown so: a lag in offsets is still there.
    return by_partition(ask_all(jobs, SAMPLE_SECONDS + LATE_SECONDS).ok)


def _by_cluster(rows: Sequence[LagRow]) -> dict[str, list[LagRow]]:
    groups: dict[str, list[LagRow]] = {}
    for row in rows:
        groups.setdefault(row.cluster, []).append(row)
    return groups
