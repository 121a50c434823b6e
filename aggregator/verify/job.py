"""One job of a verification: some hub topics and their sources, read once and compared.

What comes back to the driver is counts per source partition, and the first few findings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from aggregator.model import OffsetRange, SourcePartition, TopicPartition
from aggregator.stream.ranges import ORIGIN, read_ranges, to_origins
from aggregator.verify.core import NO_END
from aggregator.verify.core_hub import Accounted, Job, disjoint, expired_below
from aggregator.verify.findings import (
    ABSENT,
    ACCOUNTED,
    EXPIRED,
    FLAGS,
    FOREIGN,
    MISSING,
    NO_SUCH_RECORD,
    PARTS,
    PRESENT,
    SUPERSEDED,
    compare,
    settle,
)
from aggregator.verify.frames import ROW, Numbers, Others, hub_rows, source_rows
from aggregator.verify.report import Finding, HubTopicResult, PartitionResult
from aggregator.verify.small import small_frame

FOREIGN_KINDS = (*FOREIGN.values(), NO_SUCH_RECORD)
ALTERED = " or ".join(PARTS)
PROBLEMS = {
    "missing": f"kind = '{MISSING}'",
    "twice": "twice",
    "altered": ALTERED,
    "out_of_order": "late",
    "foreign": f"kind in {FOREIGN_KINDS}",
}
"""Kind of finding -> the condition that tells it."""
FOREIGN_DETAILS = {
    "no_origin": "has no origin",
    "unknown_source": "its origin is no partition of this config",
    "other_topic": "its origin belongs to another hub topic",
    "no_such_record": "its origin has no such record, or none that is copied",
}


@dataclass(frozen=True, slots=True)
class JobSettings:
    """How the clusters are read, and what is known about the hub.

    `lost` are hub partitions without their beginning, `proven` source offsets from which on nothing
    can have been deleted there. `stamped` hub topics have timestamps of their own. Records that are
    `accounted` for, or lie in the quarantine, need not be where they belong.
    """

    hub_options: Mapping[str, str]
    source_options: Mapping[str, Mapping[str, str]]
    hub_names: Collection[str]
    others: Others = field(default_factory=Others)
    lost: Collection[TopicPartition] = ()
    proven: Mapping[SourcePartition, int] = field(default_factory=dict)
    stamped: Collection[str] = ()
    accounted: Sequence[Accounted] = ()
    quarantine: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    examples: int = 0


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job found."""

    partitions: tuple[PartitionResult, ...]
    hub_topics: tuple[HubTopicResult, ...]
    findings: tuple[Finding, ...]


def run_job(spark: SparkSession, job: Job, settings: JobSettings) -> JobResult:
    """Compare the hub topics of a job with their sources.

    Raises PySparkException or Py4JJavaError when records cannot be read.
    """
    numbers = Numbers(job.windows, tuple(sorted(job.hub.items())))
    # From here on Spark has only the findings to plan with, and nothing is read twice.
    found = _compared(spark, job, numbers, settings).localCheckpoint(
        eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK
    )
    counts = found.groupBy("sid", "hid", "kind", *FLAGS).agg(
        F.sum("origins").alias("origins"),
        F.sum("records").alias("records"),
        F.min("first").alias("first"),
        F.min_by("opening", "first").alias("opening"),
        F.min("lowest").alias("lowest"),
    )
    rows = counts.collect()
    accounted = _accounted(job, settings)
    if accounted or any(row["kind"] == ABSENT or row["late"] for row in rows):
        limits = _limits(rows, numbers, settings)
        found = settle(found, limits, accounted, _set_aside(spark, job, settings))
        sums = (F.sum("origins").alias("origins"), F.sum("records").alias("records"))
        rows = found.groupBy("sid", "hid", "kind", *FLAGS).agg(*sums).collect()
    return JobResult(
        _partitions(numbers, rows),
        _hub_topics(job, numbers, rows),
        _examples(found, numbers, rows, settings.examples),
    )


def _compared(spark: SparkSession, job: Job, numbers: Numbers, settings: JobSettings) -> DataFrame:
    rows = []
    for cluster, ranges in job.sources.items():
        records = read_ranges(spark, ranges, settings.source_options[cluster])
        rows.append(source_rows(records, cluster, numbers, settings.hub_names))
    if job.hub:
        records = read_ranges(spark, job.hub, settings.hub_options)
        rows.append(hub_rows(records, numbers, settings.others, settings.stamped))
    superseding = any(window.superseding for window in job.windows)
    return compare(rows or [small_frame(spark, [], ROW)], superseding=superseding)


def _accounted(job: Job, settings: JobSettings) -> list[tuple[int, Accounted]]:
    sids = {window.partition: sid for sid, window in enumerate(job.windows)}
    ranges = disjoint(settings.accounted)
    return [(sids[it.partition], it) for it in ranges if it.partition in sids]


def _set_aside(spark: SparkSession, job: Job, settings: JobSettings) -> DataFrame | None:
    """The records of this job's partitions that the quarantine topic holds: sid, at."""
    if not settings.quarantine:
        return None
    sids = small_frame(
        spark,
        [(*window.partition, sid) for sid, window in enumerate(job.windows)],
        "cluster string, topic string, partition int, sid int",
    )
    origins = to_origins(read_ranges(spark, settings.quarantine, settings.hub_options))
    return origins.join(sids, [*ORIGIN]).select("sid", F.col("offset").alias("at"))


def _limits(
    counts: Sequence[Row], numbers: Numbers, settings: JobSettings
) -> dict[int, tuple[int, int]]:
    """By sid: where the copy began at most; below what an absent record may have expired."""
    firsts: dict[int, dict[TopicPartition, int]] = defaultdict(dict)
    lowest: dict[int, int] = {}
    # The first place comes last, and stays.
    there = [row for row in counts if row["sid"] >= 0 and row["first"] is not None]
    for row in sorted(there, key=lambda row: row["first"], reverse=True):
        firsts[row["sid"]][numbers.hub[row["hid"]][0]] = row["opening"]
        lowest[row["sid"]] = min(row["lowest"], lowest.get(row["sid"], NO_END))
    limits = {}
    backfilled = {it.partition for it in settings.accounted if it.backfilled}
    for sid, window in enumerate(numbers.windows):
        lost = [tp for tp in settings.lost if tp.topic == window.hub_topic]
        limits[sid] = (
            min(window.sure_from, lowest.get(sid, NO_END)),
            expired_below(
                lost,
                # Older records stand behind newer ones: what was deleted may be of any age.
                {} if window.partition in backfilled else firsts[sid],
                settings.proven.get(window.partition),
            ),
        )
    return limits


def _partitions(numbers: Numbers, counts: Sequence[Row]) -> tuple[PartitionResult, ...]:
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in counts:
        sums = found[row["sid"]]
        for kind in (PRESENT, MISSING, EXPIRED, SUPERSEDED, ACCOUNTED):
            sums[kind] += row["origins"] if row["kind"] == kind else 0
        sums["foreign"] += row["records"] if row["kind"] == NO_SUCH_RECORD else 0
        sums["twice"] += row["records"] - row["origins"] if row["twice"] else 0
        sums["out_of_order"] += row["origins"] if row["late"] else 0
        sums["altered"] += row["origins"] if any(row[part] for part in PARTS) else 0
        for part in PARTS:
            sums[f"altered_{part}"] += row["origins"] if row[part] else 0
    results = []
    for sid, window in enumerate(numbers.windows):
        sums = found[sid]
        expected = sum(sums[kind] for kind in (PRESENT, MISSING, EXPIRED, SUPERSEDED, ACCOUNTED))
        results.append(
            PartitionResult(
                **window.partition._asdict(),
                hub_topic=window.hub_topic,
                standing=window.standing,
                reason=window.reason,
                from_offset=window.read.earliest,
                to_offset=window.read.latest,
                transformed=window.loose,
                expected=expected,
                **sums,
            )
        )
    return tuple(results)


def _hub_topics(job: Job, numbers: Numbers, counts: Sequence[Row]) -> tuple[HubTopicResult, ...]:
    found: dict[str, dict[str, int]] = {topic: defaultdict(int) for topic in numbers.tids}
    for tp, log in job.hub.items():
        found[tp.topic]["offsets"] += log.latest - log.earliest
    for row in counts:
        if row["kind"] in FOREIGN_KINDS:
            sid = row["sid"]
            own = numbers.windows[sid].hub_topic if sid >= 0 else numbers.hub[-1 - sid][0].topic
            found[own][row["kind"]] += row["records"]
    return tuple(HubTopicResult(topic=topic, **sums) for topic, sums in found.items())


def _examples(
    found: DataFrame, numbers: Numbers, counts: Sequence[Row], most: int
) -> tuple[Finding, ...]:
    """The first few of each kind, by source partition and offset."""
    kinds = [kind for kind in PROBLEMS if most and any(_is(kind, row) for row in counts)]
    return tuple(
        _finding(kind, row, numbers)
        for kind in kinds
        for row in found.filter(PROBLEMS[kind]).orderBy("sid", "at").limit(most).collect()
    )


def _is(kind: str, row: Row) -> bool:
    """Whether `PROBLEMS` would let a row pass."""
    match kind:
        case "twice":
            return bool(row["twice"])
        case "altered":
            return any(row[part] for part in PARTS)
        case "out_of_order":
            return bool(row["late"])
        case "foreign":
            return bool(row["kind"] in FOREIGN_KINDS)
    return bool(row["kind"] == MISSING)


def _finding(kind: str, row: Row, numbers: Numbers) -> Finding:
    place: dict[str, str | int] = {}
    if row["first"] is not None:
        tp, offset = numbers.place(row["first"])
        place = {"hub_topic": tp.topic, "hub_partition": tp.partition, "hub_offset": offset}
    origin: dict[str, str | int] = {}
    if row["sid"] >= 0:
        window = numbers.windows[row["sid"]]
        origin = {**window.partition._asdict(), "offset": row["at"]}
        place = place or {"hub_topic": window.hub_topic}
    return Finding(kind=kind, detail=_detail(kind, row, numbers), **origin, **place)


def _detail(kind: str, row: Row, numbers: Numbers) -> str:
    match kind:
        case "foreign":
            return FOREIGN_DETAILS[row["kind"]]
        case "twice":
            tp, offset = numbers.place(row["last"])
            return f"{row['records']} times, the last at {tp} offset {offset}"
        case "altered":
            return ", ".join(part for part in PARTS if row[part])
        case "out_of_order":
            return "behind a record of a higher offset"
    return ""
