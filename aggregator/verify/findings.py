"""Row frames compared by origin: what is missing, twice, altered, late or foreign.

The findings are few: whatever is well is one row per source and hub partition, and only what is
not well keeps a row of its own, with its offset in `at`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from aggregator.verify.core_hub import Accounted
from aggregator.verify.frames import (
    BEFORE,
    BEYOND,
    NO_ORIGIN,
    OTHER_TOPIC,
    OWN,
    PLACE_BITS,
    UNKNOWN_SOURCE,
)
from aggregator.verify.small import small_frame

PRESENT, ABSENT = "present", "absent"
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


def compare(rows: Iterable[DataFrame], *, superseding: bool) -> DataFrame:
    """The findings of row frames.

    Columns: sid, hid (hub partition of the first copy), kind, the flags of `FLAGS`, superseded, at
    (null for what is well), origins and records (how many), first and last (places), lowest (origin
    offset), opening (origin offset of the first in that hub partition). With `superseding` a record
    of a compacted hub topic that another one may have replaced is marked.
    """
    origins = _by_origin(reduce(DataFrame.unionByName, rows))
    origins = (
        with_superseded(origins) if superseding else origins.withColumn("superseded", F.lit(False))
    )
    source, hub = F.col("source") > 0, F.col("copies") > 0
    kind = (
        F.when(source & hub, PRESENT)
        .when(source, F.when(F.col("must"), ABSENT))
        .when(F.col("zone").isin(OWN, BEYOND), NO_SUCH_RECORD)
        .when(F.col("zone") == BEFORE, "before")
        .otherwise("alone")
    )
    for zone, name in FOREIGN.items():
        kind = F.when(F.col("zone") == zone, name).otherwise(kind)
    judged = F.col("kind").isin(PRESENT, "alone")
    flags = {
        "twice": judged & (F.col("copies") > 1),
        "late": judged & (F.col("first").bitwiseAND(1) == 1),
        **{part: source & hub & F.coalesce(F.col(part), F.lit(False)) for part in PARTS},
    }
    marked = origins.withColumn("kind", kind).filter("kind is not null").withColumns(flags)
    troubled = reduce(Column.__or__, (F.col(flag) for flag in FLAGS))
    troubled = troubled | ~F.col("kind").isin(PRESENT, "alone", "before")
    return (
        marked.withColumn("at", F.when(troubled, F.col("offset")))
        .withColumn("hid", F.shiftright("first", PLACE_BITS).cast("int"))
        .groupBy("sid", "hid", "kind", *FLAGS, "superseded", "at")
        .agg(
            F.count("*").alias("origins"),
            F.sum("copies").alias("records"),
            F.min("first").alias("first"),
            F.max("last").alias("last"),
            F.min("offset").alias("lowest"),
            F.min_by("offset", "first").alias("opening"),
        )
    )


def _by_origin(rows: DataFrame) -> DataFrame:
    """One row per origin. A part differs when any two of its records differ in it."""
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
    key from elsewhere, as nobody knows which came first; or by a tombstone, which goes away itself.
    """
    same_key = Window.partitionBy("tid", "k")
    same_source = Window.partitionBy("tid", "k", "sid")
    hub = F.col("copies") > 0
    gone = F.coalesce(F.col("tombstone"), F.lit(False))
    later = F.max(F.when(hub | gone, F.col("offset"))).over(same_source) >= F.col("offset")
    lowest = F.min(F.when(hub, F.col("sid"))).over(same_key)
    highest = F.max(F.when(hub, F.col("sid"))).over(same_key)
    elsewhere = (lowest != F.col("sid")) | (highest != F.col("sid"))
    replaced = F.coalesce(later, F.lit(False)) | F.coalesce(elsewhere, F.lit(False))
    return origins.withColumn("superseded", ~hub & replaced)


def settle(
    findings: DataFrame,
    limits: Mapping[int, tuple[int, int]],
    accounted: Iterable[tuple[int, Accounted]],
    aside: DataFrame | None = None,
) -> DataFrame:
    """The findings with a reason for every absent record, in `kind`, and without what is excused.

    `limits` is sid -> (the copy began at or above this offset, what is below that one may have
    expired). `accounted` ranges, with their sid, must not overlap. `aside` has the columns sid and
    at of records that were set aside.
    """
    spark = findings.sparkSession
    bounds = small_frame(
        spark,
        [(sid, *pair) for sid, pair in limits.items()],
        "sid int, begun bigint, expired bigint",
    )
    ranges = small_frame(
        spark,
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
    joined = findings.join(ranges, inside, "left").drop(ranges["sid"])
    joined = joined.join(bounds, "sid", "left")
    backfilled = F.coalesce(F.col("backfilled"), F.lit(False))
    known = F.col("reused").isNotNull() & ~backfilled
    if aside is not None:
        marked = aside.distinct().withColumn("aside", F.lit(True))
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
        .when(excused & (F.col("kind") == NO_SUCH_RECORD), "alone")
        .otherwise(F.col("kind"))
    )
    # What was set aside and brought in later is out of order for a known reason; or backfilled.
    flags = {flag: F.col(flag) & ~excused for flag in FLAGS}
    late = F.col("late") & ~known & ~backfilled
    return joined.withColumns({**flags, "late": late, "kind": kind})
