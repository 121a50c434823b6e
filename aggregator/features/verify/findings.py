"""Row frames compared by origin: what is missing, twice, altered, late or foreign.

The findings are few: whatever is well is one row per source and hub partition, and only what is
not well keeps a row of its own, with its offset in `at`.
"""

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from aggregator.features.verify.compact_frames import (
    BEFORE,
    BEYOND,
    EQUAL,
    NO_ORIGIN,
    OTHER_TOPIC,
    OWN,
    PLACE_BITS,
    UNASKED,
    UNKNOWN_SOURCE,
)
from aggregator.features.verify.hub_ranges import Accounted, ReasonBelow
from aggregator.features.verify.small import small_frame

PRESENT, ABSENT, DROPPED = "present", "absent", "dropped"
ALONE_THERE, BEFORE_THERE, UNASKED_THERE = "alone", "before", "unasked"
FOREIGN = {
    NO_ORIGIN: "no_origin",
    UNKNOWN_SOURCE: "unknown_source",
    OTHER_TOPIC: "other_topic",
}
NO_SUCH_RECORD = "no_such_record"
MISSING, EXPIRED, SUPERSEDED, ACCOUNTED = "missing", "expired", "superseded", "accounted"
NOT_BEGUN = "not_begun"
PARTS = ("key", "value", "headers", "timestamp")
FLAGS = ("twice", "late", *PARTS)
IDS = ("theirs", "ours")
ALIKE = ("sid", "hid", "kind", *FLAGS, "excused", *IDS)
"""What is counted together."""


def compare(
    rows: Iterable[DataFrame], *, superseding: bool, translated: bool, weighted: bool = False
) -> DataFrame:
    """The findings of row frames.

    Columns: sid, hid (hub partition of the first copy), kind, the flags of `FLAGS`, superseded,
    excused (see `settle`), theirs and ours (schema ids at the source and at the hub, of records
    that are present; null without `translated`), at (null for what is well), origins and records
    (how many), first and last (places), lowest (origin offset), opening (origin offset of the first
    in that hub partition). With `superseding` a record of a compacted hub topic that another one
    may have replaced is marked. With `weighted` rows of the hub may be whole batches.
    """
    union = reduce(lambda one, more: one.unionByName(more, weighted), rows)
    origins = _by_origin(union, translated=translated, weighted=weighted)
    origins = (
        with_superseded(origins) if superseding else origins.withColumn("superseded", F.lit(False))
    )
    source, hub = F.col("source") > 0, F.col("copies") > 0
    kind = (
        F.when(source & hub, PRESENT)
        .when(source, F.when(F.col("must"), ABSENT).otherwise(DROPPED))
        .when(F.col("zone").isin(OWN, BEYOND), NO_SUCH_RECORD)
        .when(F.col("zone") == BEFORE, BEFORE_THERE)
        .when(F.col("zone") == UNASKED, UNASKED_THERE)
        .when(F.col("zone") == EQUAL, PRESENT)
        .otherwise(ALONE_THERE)
    )
    for zone, name in FOREIGN.items():
        kind = F.when(F.col("zone") == zone, name).otherwise(kind)
    judged = F.col("kind").isin(PRESENT, ALONE_THERE)
    both = source & hub & F.col("must")
    flags = {
        "twice": judged & (F.col("copies") > 1),
        "late": judged & (F.col("first").bitwiseAND(1) == 1),
        **{part: both & F.coalesce(F.col(part), F.lit(False)) for part in PARTS},
        **{name: F.when(both, F.col(name)) for name in IDS},
    }
    marked = origins.withColumn("kind", kind).withColumns(flags)
    troubled = reduce(Column.__or__, (F.col(flag) for flag in FLAGS))
    well = (PRESENT, DROPPED, ALONE_THERE, BEFORE_THERE, UNASKED_THERE)
    troubled = troubled | ~F.col("kind").isin(*well)
    return (
        marked.withColumn("at", F.when(troubled, F.col("offset")))
        .withColumn("hid", F.shiftright("first", PLACE_BITS).cast("int"))
        .withColumn("excused", F.lit(False))
        .groupBy(*ALIKE, "superseded", "at")
        .agg(
            F.sum("weight").alias("origins"),
            F.sum(F.col("copies") * F.col("weight")).alias("records"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.min(_lowest()).alias("lowest"),
            F.min_by(_lowest(), "first").alias("opening"),
        )
    )


def _lowest() -> Column:
    """The offset of the first record that a row is."""
    return F.col("offset") - F.col("weight") + 1


def _by_origin(rows: DataFrame, *, translated: bool, weighted: bool) -> DataFrame:
    """One row per origin. A part differs when any two of its records differ in it."""
    one = F.lit(1).cast("bigint")
    ids = F.col("ids") if translated else F.lit(None).cast("string")
    at_source = F.col("place").isNull()
    return rows.groupBy("sid", "offset").agg(
        F.count_if(F.col("place").isNull()).alias("source"),
        F.count("place").alias("copies"),
        F.min("place").alias("first"),
        F.max("place").alias("last"),
        F.max("zone").alias("zone"),
        F.max("must").alias("must"),
        *(
            (F.min(column) != F.max(column)).alias(part)
            for column, part in zip("kvh", PARTS[:3], strict=True)
        ),
        _timestamps_differ().alias(PARTS[3]),
        F.min("k").alias("k"),
        F.max("tombstone").alias("tombstone"),
        F.max("tid").alias("tid"),
        F.min(F.when(at_source, ids)).alias("theirs"),
        F.min(F.when(~at_source, ids)).alias("ours"),
        (F.coalesce(F.max("weight"), one) if weighted else F.max(one)).alias("weight"),
    )


def _timestamps_differ() -> Column:
    """Whether the records of one origin say different times, or a copy has another one itself.

    A source record without a timestamp (-1) gets that of its writing, which may be any.
    """
    said = F.min("t")
    own = (F.min("s") != said) | (F.max("s") != said)
    return (said != F.max("t")) | ((said >= 0) & own)


def with_superseded(origins: DataFrame) -> DataFrame:
    """Mark the absent records of a compacted hub topic that may have been replaced there.

    By a later record of the same key and source partition that is in the hub; by any record of that
    key from elsewhere, as it is unknown which came first; or by a tombstone of either kind, which
    goes away itself.
    None was while an earlier record of the key and its source partition is still there, in the hub
    partition of what would have replaced it: compaction takes the older one first.
    """
    same_key = Window.partitionBy("tid", "k")
    same_source = Window.partitionBy("tid", "k", "sid")
    hub = F.col("copies") > 0
    hid = F.when(hub, F.shiftright("first", PLACE_BITS))
    gone = F.coalesce(F.col("tombstone"), F.lit(False))
    earlier = F.min(F.when(hub, F.col("offset"))).over(same_source) < F.col("offset")
    # A hub topic that has grown may hold a key in several partitions: then it is no proof.
    earlier_there = earlier & (F.min(hid).over(same_source) == F.max(hid).over(same_source))
    earlier_here = earlier & (F.min(hid).over(same_key) == F.max(hid).over(same_key))
    later = F.max(F.when(hub | gone, F.col("offset"))).over(same_source) >= F.col("offset")
    lowest = F.min(F.when(hub | gone, F.col("sid"))).over(same_key)
    highest = F.max(F.when(hub | gone, F.col("sid"))).over(same_key)
    elsewhere = (lowest != F.col("sid")) | (highest != F.col("sid"))
    no = F.lit(False)
    replaced = (F.coalesce(later, no) & ~F.coalesce(earlier_there, no)) | (
        F.coalesce(elsewhere, no) & ~F.coalesce(earlier_here, no)
    )
    return origins.withColumn("superseded", ~hub & replaced)


def settle(
    findings: DataFrame,
    limits: Mapping[int, ReasonBelow],
    accounted: Iterable[tuple[int, Accounted]],
    aside: DataFrame | None = None,
) -> DataFrame:
    """The findings with a reason for every absent record, in `kind`, and without what is excused.

    `limits` are by sid. `accounted` ranges, with their sid, must not overlap. `aside` has the
    columns sid and at of records that were set aside. What is not held against the hub, though it
    would be elsewhere, is `excused`.
    """
    joined = _with_ranges(findings, accounted).join(
        _bounds(findings.sparkSession, limits), "sid", "left"
    )
    backfilled = F.coalesce(F.col("backfilled"), F.lit(False))
    known = F.col("reused").isNotNull() & ~backfilled
    if aside is not None:
        marked = aside.select("sid", "at").distinct().withColumn("aside", F.lit(True))
        joined = joined.join(marked, ["sid", "at"], "left")
        known = known | F.col("aside").isNotNull()
    absent = (
        F.when(known, ACCOUNTED)
        .when(F.col("superseded"), SUPERSEDED)
        .when(F.col("at") < F.col("begun"), NOT_BEGUN)
        .when(F.col("at") < F.col("expired"), EXPIRED)
        .otherwise(MISSING)
    )
    excused = F.coalesce(F.col("reused"), F.lit(False))
    kind = (
        F.when(F.col("kind") == ABSENT, absent)
        .when(excused & (F.col("kind") == NO_SUCH_RECORD), ALONE_THERE)
        .otherwise(F.col("kind"))
    )
    # What was set aside and brought in later is out of order for a known reason; or backfilled.
    flags = {flag: F.col(flag) & ~excused for flag in FLAGS}
    once_aside = F.coalesce(F.col("at") < F.col("unsure"), F.lit(False))
    late = F.col("late") & ~known & ~backfilled & ~once_aside
    let_off = reduce(Column.__or__, (F.col(flag) for flag in FLAGS)) & excused
    let_off = let_off | (excused & (F.col("kind") == NO_SUCH_RECORD)) | (F.col("late") & ~late)
    return joined.withColumns({**flags, "late": late, "kind": kind, "excused": let_off})


def _bounds(spark: SparkSession, limits: Mapping[int, ReasonBelow]) -> DataFrame:
    rows = [
        (sid, it.begun, max(it.expired, it.set_aside), it.set_aside) for sid, it in limits.items()
    ]
    return small_frame(spark, rows, "sid int, begun bigint, expired bigint, unsure bigint")


def _with_ranges(findings: DataFrame, accounted: Iterable[tuple[int, Accounted]]) -> DataFrame:
    """The findings, each with the accounted range that it is in, if any."""
    ranges = small_frame(
        findings.sparkSession,
        [
            (sid, it.offsets.earliest, it.offsets.latest, it.reused, it.backfilled)
            for sid, it in accounted
        ],
        "sid int, start bigint, end bigint, reused boolean, backfilled boolean",
    )
    inside = [
        findings["sid"] == ranges["sid"],
        findings["at"] >= ranges["start"],
        findings["at"] < ranges["end"],
    ]
    return findings.join(ranges, inside, "left").drop(ranges["sid"])
