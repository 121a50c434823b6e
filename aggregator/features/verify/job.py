"""One job of a verification: some hub topics and their sources, read once and compared.

What comes back to the driver is counts per source partition, and the first few findings. Its
progress is reported, and it is cancelled when asked to stop.
"""

import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from aggregator.datapath.spark.headers import origin_columns, origin_texts
from aggregator.datapath.spark.ranges import NOTHING, ORIGIN, Holes, read_exactly
from aggregator.features.verify.audit_report import Finding, HubTopicResult, PartitionResult
from aggregator.features.verify.audit_scope import NO_END
from aggregator.features.verify.compact_frames import Numbers, Others, hub_rows, source_rows
from aggregator.features.verify.counts import (
    Pairs,
    examples_of,
    examples_of_ids,
    hub_topics_of,
    pair_of,
    partitions_of,
)
from aggregator.features.verify.equal_batches import EqualBatches, equal_batches
from aggregator.features.verify.findings import (
    ABSENT,
    ALIKE,
    ALONE_THERE,
    NO_SUCH_RECORD,
    compare,
    settle,
)
from aggregator.features.verify.hub_ranges import (
    Accounted,
    Job,
    ReasonBelow,
    disjoint,
    expired_below,
)
from aggregator.features.verify.small import small_frame
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition

LOOK_SECONDS = 0.5
REPORT_SECONDS = 10.0


@contextmanager
def watched(
    spark: SparkSession, what: str, stop: threading.Event, progress: Callable[[str], None]
) -> Iterator[None]:
    """While the block runs Spark jobs from this thread, report their progress every ten seconds.

    When `stop` is set they are cancelled: the block then gets the error of a failed job.
    """
    context = spark.sparkContext
    group = f"verify-{uuid.uuid4().hex}"
    context.setJobGroup(group, what, interruptOnCancel=True)
    over = threading.Event()

    def watch() -> None:
        report_at = time.monotonic() + REPORT_SECONDS
        while not over.wait(LOOK_SECONDS):
            try:
                if stop.is_set():
                    # Again and again: one job may begin while another is cancelled.
                    context.cancelJobGroup(group)
                elif time.monotonic() >= report_at:
                    report_at = time.monotonic() + REPORT_SECONDS
                    progress(f"{what}: {_tasks(spark, group)}")
            except Py4JError:
                # A signal to the whole process group has ended the session. The block gets an
                # error for that, so nothing is left to cancel or to report.
                return

    thread = threading.Thread(target=watch, name="verify-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _tasks(spark: SparkSession, group: str) -> str:
    tracker = spark.sparkContext.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            found = tracker.getStageInfo(stage)
            if found is not None:
                done, total = done + found.numCompletedTasks, total + found.numTasks
    return f"{done} of {total} tasks are done"


Read = Callable[
    [SparkSession, Mapping[TopicPartition, OffsetRange], Mapping[str, str], Holes], DataFrame
]
"""Reads ranges of one cluster, by its options and without what lies in the holes, with the columns
of `read_exactly`."""
SameIds = Callable[[str, str, str], bool | None]
"""Whether schema ids of a source (alias) and of the hub mean the same; None when unknown."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How the clusters are read, and what is known about the hub.

    `lost` are hub partitions without their beginning, `proven` source offsets from which on nothing
    can have been deleted there; `set_aside` is the same for the topics of the quarantine, by hub
    partition. Records of partitions that were `put_back` have no order. `stamped` hub topics
    have timestamps of their own. Records that are `accounted` for, or lie in the quarantine, need
    not be where they belong.
    """

    hub_options: Mapping[str, str]
    source_options: Mapping[str, Mapping[str, str]]
    hub_names: Collection[str]
    others: Others = field(default_factory=Others)
    lost: Collection[TopicPartition] = ()
    proven: Mapping[SourcePartition, int] = field(default_factory=dict)
    set_aside: Mapping[TopicPartition, Mapping[SourcePartition, int]] = field(default_factory=dict)
    put_back: Collection[SourcePartition] = ()
    stamped: Collection[str] = ()
    accounted: Sequence[Accounted] = ()
    quarantine: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    unread: Mapping[str, int] = field(default_factory=dict)
    same_ids: SameIds = lambda _alias, _theirs, _ours: None
    examples: int = 0


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job found."""

    partitions: tuple[PartitionResult, ...]
    hub_topics: tuple[HubTopicResult, ...]
    findings: tuple[Finding, ...]
    by_batches: int = 0
    """How many of the records that are present were compared by the hash of their batch."""


def run_job(
    spark: SparkSession, job: Job, settings: JobSettings, read: Read = read_exactly
) -> JobResult:
    """Compare the hub topics of a job with their sources.

    Raises PySparkException or Py4JError when records cannot be read.
    """
    numbers = Numbers(job.windows, tuple(sorted(job.hub.items())))
    equal = equal_batches(spark, numbers, settings.source_options, settings.hub_options)
    # From here on Spark has only the findings to plan with, and nothing is read twice.
    found = _kept(_compared(spark, job, numbers, settings, read, equal))
    rows = _counted(found)
    if equal is not None and any(_is_doubtful(row, equal) for row in rows):
        equal = None
        found = _kept(_compared(spark, job, numbers, settings, read, equal))
        rows = _counted(found)
    accounted = _accounted(job, settings)
    if accounted or any(row["kind"] == ABSENT or row["late"] for row in rows):
        aside = _set_aside(spark, job, settings, read)
        limits = _limits(rows, numbers, settings, _openings(aside, settings))
        found = settle(found, limits, accounted, aside)
        rows = _counted(found)
    same = _ids(rows, numbers, settings)
    return JobResult(
        partitions_of(numbers, rows, same),
        hub_topics_of(job, numbers, rows, settings.unread),
        (
            *examples_of(found, numbers, rows, settings.examples),
            *examples_of_ids(rows, numbers, same)[: settings.examples],
        ),
        equal.records if equal is not None else 0,
    )


def _is_doubtful(row: Row, equal: EqualBatches) -> bool:
    """Whether a finding may be about a record of an equal batch: it may have a second copy."""
    alone = row["kind"] in (NO_SUCH_RECORD, ALONE_THERE)
    return row["sid"] in equal.sids and (alone or row["twice"] or row["late"])


def _kept(frame: DataFrame) -> DataFrame:
    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)


def _counted(found: DataFrame) -> list[Row]:
    counts = found.groupBy(*ALIKE).agg(
        F.sum("origins").alias("origins"),
        F.sum("records").alias("records"),
        F.min("first").alias("first"),
        F.min_by("opening", "first").alias("opening"),
        F.min("lowest").alias("lowest"),
    )
    return counts.collect()


def _compared(
    spark: SparkSession,
    job: Job,
    numbers: Numbers,
    settings: JobSettings,
    read: Read,
    equal: EqualBatches | None,
) -> DataFrame:
    superseding = any(window.superseding for window in job.windows)
    rows = []
    for cluster, ranges in job.sources.items():
        known = equal.sources.get(cluster, NOTHING) if equal is not None else NOTHING
        records = read(spark, ranges, settings.source_options[cluster], known)
        rows.append(source_rows(records, cluster, numbers, settings.hub_names))
    if job.hub:
        known = equal.hub if equal is not None else NOTHING
        records = read(spark, job.hub, settings.hub_options, known)
        rows.append(
            hub_rows(
                records,
                numbers,
                settings.others,
                settings.stamped,
                superseding=superseding,
                equal=equal.batches if equal is not None else None,
            )
        )
    return compare(
        rows or [small_frame(spark, [], numbers.row)],
        superseding=superseding,
        translated=numbers.translated,
        weighted=equal is not None,
    )


def _accounted(job: Job, settings: JobSettings) -> list[tuple[int, Accounted]]:
    sids = {window.partition: sid for sid, window in enumerate(job.windows)}
    ranges = disjoint(settings.accounted)
    return [(sids[it.partition], it) for it in ranges if it.partition in sids]


def _set_aside(
    spark: SparkSession, job: Job, settings: JobSettings, read: Read
) -> DataFrame | None:
    """The records of this job's partitions that the topics of the quarantine hold.

    Columns: sid, at, and where it lies: aside_topic, aside_partition, aside_offset.
    """
    if not settings.quarantine:
        return None
    sids = small_frame(
        spark,
        [(*window.partition, sid) for sid, window in enumerate(job.windows)],
        "cluster string, topic string, partition int, sid int",
    )
    records = read(spark, settings.quarantine, settings.hub_options, NOTHING)
    lies = {name: F.col(name).alias(f"aside_{name}") for name in ("topic", "partition", "offset")}
    parts = origin_columns("texts")
    origins = records.select(origin_texts().alias("texts"), *lies.values()).select(
        *(parts[name].alias(name) for name in ORIGIN),
        parts["offset"].alias("at"),
        *(f"aside_{name}" for name in lies),
    )
    found = origins.join(sids, [*ORIGIN]).select("sid", "at", *(f"aside_{it}" for it in lies))
    return _kept(found) if settings.set_aside else found


def _openings(
    aside: DataFrame | None, settings: JobSettings
) -> dict[int, dict[TopicPartition, int]]:
    """By sid: the origin offset of the first record in each partition of what lies aside.

    Only asked for where any of these has lost its beginning.
    """
    found: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    if aside is not None and settings.set_aside:
        first = F.min_by("at", "aside_offset").alias("at")
        for row in aside.groupBy("sid", "aside_topic", "aside_partition").agg(first).collect():
            tp = TopicPartition(row["aside_topic"], row["aside_partition"])
            found[row["sid"]][tp] = row["at"]
    return found


def _limits(
    counts: Sequence[Row],
    numbers: Numbers,
    settings: JobSettings,
    openings: Mapping[int, Mapping[TopicPartition, int]],
) -> dict[int, ReasonBelow]:
    firsts: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    lowest: dict[int, int] = {}
    # The first place comes last, and stays.
    there = [row for row in counts if row["sid"] >= 0 and row["first"] is not None]
    for row in sorted(there, key=lambda row: row["first"], reverse=True):
        firsts[row["sid"]][numbers.hub[row["hid"]][0]] = row["opening"]
        lowest[row["sid"]] = min(row["lowest"], lowest.get(row["sid"], NO_END))
    limits = {}
    # Older records follow newer ones: what was deleted may be of any age.
    unordered = {it.partition for it in settings.accounted if it.backfilled}
    unordered |= set(settings.put_back)
    for sid, window in enumerate(numbers.windows):
        sp, ordered = window.partition, window.partition not in unordered
        lost = [tp for tp in settings.lost if tp.topic == window.hub_topic]
        limits[sid] = ReasonBelow(
            min(window.sure_from, lowest.get(sid, NO_END)),
            expired_below(lost, firsts[sid] if ordered else {}, settings.proven.get(sp)),
            max(
                (
                    expired_below([tp], openings.get(sid, {}) if ordered else {}, proven.get(sp))
                    for tp, proven in settings.set_aside.items()
                    if tp.topic in window.asides
                ),
                default=0,
            ),
        )
    return limits


def _ids(rows: Sequence[Row], numbers: Numbers, settings: JobSettings) -> Pairs:
    """By source, and what schema ids are there and at the hub: whether these mean the same."""
    pairs = {pair_of(row, numbers) for row in rows if row["theirs"] is not None}
    return {pair: settings.same_ids(*pair) for pair in sorted(pairs)}
