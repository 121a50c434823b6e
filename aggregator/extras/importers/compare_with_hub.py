"""Compares the hub's last records with those that the other tool has read last at a source."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from aggregator.config.schema import Config
from aggregator.extras.importers.hub_ahead import (
    Beyond,
    Copy,
    hub_partition_of,
    records_beyond,
    summed,
)
from aggregator.kafka.admin import HUB, open_admin
from aggregator.kafka.reader import RangeReader
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, Raw, SourcePartition, TopicPartition

MOST_PARTITIONS = 200
MOST_RECORDS = 5_000
"""Beyond the position that was stored; who flushes every minute and wrote more stays unknown."""
MARKERS = 10
"""The end of a log may be markers of transactions, which are no records."""


def beyond(config: Config, positions: Mapping[SourcePartition, int]) -> Beyond:
    """Compare each partition, as far as the hub's end shows it. Raises nothing."""
    places = {sp: tp for sp in positions if (tp := hub_partition_of(config, sp)) is not None}
    chosen = dict(sorted(places.items())[:MOST_PARTITIONS])
    found: list[tuple[SourcePartition, int | None]] = [
        (sp, None) for sp in positions if sp not in chosen
    ]
    timeout = config.supervision.connect_timeout
    try:
        with open_admin(config, HUB) as admin:
            counts = admin.partition_counts(timeout) if chosen else {}
            there = [tp for tp in chosen.values() if tp.partition < counts.get(tp.topic, 0)]
            logs = admin.offsets(there, timeout).ranges if there else {}
        with RangeReader(config) as reader:
            for sp, tp in chosen.items():
                log = logs.get(tp)
                count = None
                if log is not None:
                    count = _of_one(reader, sp, positions[sp], tp, log)
                found.append((sp, count))
    except ClusterError:
        # It is for information only; what matters was read from the clusters before.
        found = [(sp, None) for sp in positions]
    return summed(found)


def _of_one(
    reader: RangeReader,
    sp: SourcePartition,
    position: int,
    hub: TopicPartition,
    log: OffsetRange,
) -> int | None:
    end = OffsetRange(max(log.earliest, log.latest - MARKERS), log.latest)
    last = deque(reader.read_range(HUB, hub, end), maxlen=1)
    span = OffsetRange(max(0, position - MARKERS), position + MOST_RECORDS)
    records = reader.read_range(sp.cluster, sp.topic_partition, span)
    return records_beyond(
        _content(last[0]) if last else None,
        [(raw.offset, _content(raw)) for raw in records],
        position,
    )


def _content(raw: Raw) -> Copy:
    return Copy(raw.key, raw.value, raw.at_ms)
