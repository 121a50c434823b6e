"""Source and hub records as small rows of numbers that can be compared by their origin.

A row frame has the columns of `ROW`. Of a record it carries hashes (xxhash64) only, so that little
is shuffled; where schema ids are translated, these as well. No action is run here.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from aggregator.datapath.spark.headers import (
    filter_not_from_hub,
    headers_before_origin,
    is_one_header,
    origin_columns,
    origin_texts,
)
from aggregator.datapath.spark.ranges import ORIGIN
from aggregator.features.verify.audit_scope import Standing
from aggregator.features.verify.audit_scope import Window as SourceWindow
from aggregator.features.verify.small import Value, small_frame
from aggregator.kafka.registry import ID_HEADERS
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition

ROW = (
    "sid int, offset bigint, place bigint, zone int, must boolean, "
    "k bigint, v bigint, h bigint, t bigint, s bigint, tombstone boolean, tid int"
)
IDS = "ids string"
"""`sid` numbers the source partition, `offset` is the origin's. A hub row has a `place`, a source
row has none. `k`, `v`, `h`, `t` stand for key, value, own headers and timestamp; they are null
where they are not compared. `s` is the timestamp of a hub record whose origin does not say it, in
the place of `t`. `must`: the hub has to have it. `tid` numbers the hub topic. Where the schema ids
of any topic are translated there is a column `IDS` more: those of the key and the value, in hex."""

UNASKED, BEFORE, ALONE, OWN, BEYOND, EQUAL = -1, 0, 1, 2, 3, 4
"""Zones of a hub record by its origin: not asked for; below what the source has; compared, and the
source may have forgotten it; compared, and the source has to have it; beyond everything the source
has; the last of a batch that is equal at the source."""
WEIGHT = "weight bigint"
"""A column more where batches were compared: how many records a row is, null for one."""
UNREQUESTED = -(2**31)
"""The `sid` of hub records that are read only because they may have replaced others. Their `offset`
is that of the hub."""
NO_ORIGIN, UNKNOWN_SOURCE, OTHER_TOPIC = 10, 11, 12
"""Zones of a foreign record. Its `sid` is -1 minus the number of its hub partition, and its
`offset` the one at the hub, so that each is on its own."""

ID_BYTES, GUID_BYTES = 5, 17
"""A schema's id is a zero byte and four more, a GUID a one and sixteen: see `SchemaPatch.java`."""

PLACE_BITS = 45
"""A place is (hub partition's number, offsets behind the first that is read, late) in one number,
so that the smallest is the first. Late: behind a record of a higher origin."""


@dataclass(frozen=True)
class Numbers:
    """What the numbers in the rows of one job stand for."""

    windows: tuple[SourceWindow, ...]
    hub: tuple[tuple[TopicPartition, OffsetRange], ...]

    @cached_property
    def tids(self) -> dict[str, int]:
        """Hub topic -> `tid`."""
        return {name: tid for tid, name in enumerate(sorted({w.hub_topic for w in self.windows}))}

    @cached_property
    def translated(self) -> bool:
        """Whether the schema ids of any are others at the hub."""
        return any(window.translated for window in self.windows)

    @property
    def row(self) -> str:
        """The columns of the row frames."""
        return f"{ROW}, {IDS}" if self.translated else ROW

    def place(self, packed: int) -> tuple[TopicPartition, int]:
        """The hub partition and offset of a place."""
        tp, log = self.hub[packed >> PLACE_BITS]
        return tp, log.earliest + ((packed & ((1 << PLACE_BITS) - 1)) >> 1)


@dataclass(frozen=True, slots=True)
class Others:
    """Whose records may be in the hub though they are not compared in this job.

    Those of `known` may be anywhere, as may all of the sources in `unreachable`; those of
    `elsewhere` belong to hub topics of other jobs.
    """

    known: Collection[SourcePartition] = ()
    elsewhere: Collection[SourcePartition] = ()
    unreachable: Collection[str] = ()


def source_rows(
    records: DataFrame, cluster: str, numbers: Numbers, hub_names: Collection[str]
) -> DataFrame:
    """The row frame of one source's records: those of the windows that would be copied."""
    table = small_frame(
        records.sparkSession,
        [
            (*it.partition[1:], sid, it.loose, it.translated, numbers.tids[it.hub_topic])
            for sid, it in enumerate(numbers.windows)
            if it.compared and it.partition.cluster == cluster
        ],
        "topic string, partition int, sid int, loose boolean, translated boolean, tid int",
    )
    kept = filter_not_from_hub(records, hub_names).join(table, ["topic", "partition"])
    digests = _digests(numbers, F.col("headers"), F.col("timestamp_ms"))
    return kept.select(
        "sid",
        "offset",
        F.lit(None).cast("bigint").alias("place"),
        F.lit(None).cast("int").alias("zone"),
        (~F.col("loose")).alias("must"),
        *(F.when(~F.col("loose"), it).alias(name) for name, it in digests.items()),
        F.lit(None).cast("bigint").alias("s"),
        F.col("value").isNull().alias("tombstone"),
        "tid",
    )


def hub_rows(
    records: DataFrame,
    numbers: Numbers,
    others: Others,
    stamped: Collection[str],
    *,
    superseding: bool = False,
    equal: DataFrame | None = None,
) -> DataFrame:
    """The row frame of hub records; irrelevant ones outside the request are left out.

    The hub topics in `stamped` have timestamps of their own (LogAppendTime). With `superseding`
    none is left out: any may have replaced one that is judged. `equal` are batches that are not
    among the records (`EqualBatches.batches`): each is one row of its `WEIGHT`.
    """
    spark = records.sparkSession
    placed = (
        _with_origin(records)
        .join(_places(spark, numbers, stamped), ["hub_topic", "hub_partition"])
        .join(_origins(spark, numbers, others), ["cluster", "topic", "partition"], "left")
    )
    foreign, own = F.col("zone") >= NO_ORIGIN, F.coalesce("sid", F.lit(UNREQUESTED))
    loose = F.coalesce("loose", F.lit(False))
    digests = _digests(numbers, headers_before_origin(), _said())
    # By its key it may have replaced others, whatever a transform has made of it.
    whole = {name: it if name == "k" else F.when(~loose, it) for name, it in digests.items()}
    rows = (
        placed.withColumn("zone", _zone(others.unreachable, superseding=superseding))
        .filter("zone is not null")
        .select(
            F.when(foreign, -1 - F.col("hid")).otherwise(own).alias("sid"),
            F.when(foreign | (own == UNREQUESTED), F.col("hub_offset"))
            .otherwise(F.col("offset"))
            .alias("offset"),
            "hid",
            (F.col("hub_offset") - F.col("start")).alias("nth"),
            "zone",
            *(it.alias(name) for name, it in whole.items()),
            F.when(~loose, _unsaid()).alias("s"),
            "tid",
        )
    )
    weight = []
    if equal is not None:
        weight = ["weight"]
        batches = equal.withColumn("zone", F.lit(EQUAL))
        rows = rows.unionByName(batches, allowMissingColumns=True)
    return rows.select(
        "sid",
        "offset",
        "zone",
        *whole,
        "s",
        "tid",
        *weight,
        _place().alias("place"),
        F.lit(None).cast("boolean").alias("must"),
        F.lit(None).cast("boolean").alias("tombstone"),
    )


def _with_origin(records: DataFrame) -> DataFrame:
    parts = origin_columns("texts")
    return records.withColumn("texts", origin_texts()).select(
        "key",
        "value",
        "headers",
        "timestamp_ms",
        F.col("topic").alias("hub_topic"),
        F.col("partition").alias("hub_partition"),
        F.col("offset").alias("hub_offset"),
        *(parts[name].alias(name) for name in (*ORIGIN, "offset")),
        parts["timestamp"].alias("said"),
    )


def _place() -> Column:
    """`hid` and `nth` in one number, with whether a record of a higher origin came before."""
    before = (
        Window.partitionBy("sid", "hid").orderBy("nth").rowsBetween(Window.unboundedPreceding, -1)
    )
    late = F.coalesce(F.max("offset").over(before) > F.col("offset"), F.lit(False))
    return (
        F.shiftleft(F.col("hid").cast("bigint"), PLACE_BITS)
        + F.shiftleft("nth", 1)
        + late.cast("bigint")
    )


def _zone(unreachable: Collection[str], *, superseding: bool) -> Column:
    whole = F.col("cluster").isNotNull() & F.col("topic").isNotNull()
    whole = whole & F.col("partition").isNotNull() & (F.col("offset") >= 0)
    silent = F.col("cluster").isin(sorted(unreachable)) if unreachable else F.lit(False)
    dropped = F.lit(UNASKED if superseding else None).cast("int")
    return (
        F.when(~F.coalesce(whole, F.lit(False)), NO_ORIGIN)
        .when(F.col("known").isNull(), F.when(~silent, UNKNOWN_SOURCE).otherwise(dropped))
        .when(F.col("route_tid") != F.col("tid"), OTHER_TOPIC)
        .when(F.col("sid").isNull(), dropped)
        .when(F.col("offset") >= F.col("beyond"), BEYOND)
        .when(F.col("offset") >= F.col("upto"), dropped)
        .when(F.col("offset") < F.least("asked", "first"), UNASKED)
        .when(F.col("offset") < F.col("first"), BEFORE)
        .when(F.col("strict"), OWN)
        .otherwise(ALONE)
    )


def _digests(numbers: Numbers, headers: Column, timestamp: Column) -> dict[str, Column]:
    """k, v, h, t, and ids where any are translated; these are left out of the others then."""
    if not numbers.translated:
        return {
            "k": _whole("key"),
            "v": _whole("value"),
            "h": _hashed(headers),
            "t": timestamp.cast("bigint"),
        }
    translated = F.coalesce("translated", F.lit(False))
    ids = [F.coalesce(_schema_id(side, headers), F.lit("")) for side in ID_HEADERS]
    return {
        "k": F.when(translated, _payload("key", headers)).otherwise(_whole("key")),
        "v": F.when(translated, _payload("value", headers)).otherwise(_whole("value")),
        "h": F.when(translated, _hashed(_without_ids(headers))).otherwise(_hashed(headers)),
        "t": timestamp.cast("bigint"),
        "ids": F.when(translated, F.nullif(F.concat_ws("/", *ids), F.lit("/"))),
    }


def _whole(content: str) -> Column:
    return F.xxhash64(F.col(content).isNull(), content)


def _hashed(headers: Column) -> Column:
    # Most records have no headers: then nothing is hashed. A hash passes over nulls, which the text
    # shows; and no lambda, as Spark interprets those, at a high price.
    hashed = F.when(F.size(headers) > 0, F.xxhash64(headers, headers.cast("string")))
    return F.coalesce(hashed, F.lit(0).cast("bigint"))


def _payload(side: str, headers: Column) -> Column:
    """A hash of a key or value without its schema's id; another one than of any that has none."""
    framed = _is_framed(F.col(side)) & _id_header(side, headers).isNull()
    payload = F.xxhash64(F.lit("framed"), F.substr(F.col(side), F.lit(ID_BYTES + 1)))
    return F.when(F.coalesce(framed, F.lit(False)), payload).otherwise(_whole(side))


def _schema_id(side: str, headers: Column) -> Column:
    """In hex: the id that names the schema of a key or value, in its header or in itself."""
    header = _id_header(side, headers)
    named = F.when(_is_framed(header), F.substr(header, F.lit(1), F.lit(ID_BYTES))).when(
        _is_guid(header), F.substr(header, F.lit(1), F.lit(GUID_BYTES))
    )
    content = F.when(_is_framed(F.col(side)), F.substr(F.col(side), F.lit(1), F.lit(ID_BYTES)))
    return F.hex(F.when(header.isNull(), content).otherwise(named))


def _id_header(side: str, headers: Column) -> Column:
    """The header that names the schema: of several the last one, as the connector takes it."""
    own = F.filter(headers, lambda header: header["key"] == ID_HEADERS[side])
    # Few records have any.
    return F.when(F.size(headers) > 0, F.try_element_at(own, F.lit(-1))["value"])


def _without_ids(headers: Column) -> Column:
    """The headers, and of those that name a schema only what follows its id."""
    named = list(ID_HEADERS.values())

    def without(header: Column) -> Column:
        value = header["value"]
        rest = F.when(_is_framed(value), F.substr(value, F.lit(ID_BYTES + 1))).when(
            _is_guid(value), F.substr(value, F.lit(GUID_BYTES + 1))
        )
        is_id = header["key"].isin(*named) & rest.isNotNull()
        key = F.concat(header["key"], F.lit(" of a schema"))
        left = F.struct(key.alias("key"), rest.alias("value"))
        return F.when(F.coalesce(is_id, F.lit(False)), left).otherwise(header)

    return F.when(F.size(headers) > 0, F.transform(headers, without))


def _is_framed(content: Column) -> Column:
    return (F.octet_length(content) >= ID_BYTES) & (_first_byte(content) == "00")


def _is_guid(content: Column) -> Column:
    return (F.octet_length(content) >= GUID_BYTES) & (_first_byte(content) == "01")


def _first_byte(content: Column) -> Column:
    return F.hex(F.substr(content, F.lit(1), F.lit(1)))


def _said() -> Column:
    """What the origin says, when the record's own agrees; else a number that no timestamp is.

    A source record without a timestamp (-1) gets that of its writing. Null for an origin that says
    none.
    """
    said, own = F.col("said"), F.col("timestamp_ms")
    differs = ~F.col("stamped") & (said >= 0) & (said != own)
    compared = F.when(said.isNull(), -2).when(differs, -3).otherwise(said)
    return F.when(~is_one_header(), compared)


def _unsaid() -> Column:
    """The record's own timestamp, where nothing else gives that of its source."""
    return F.when(is_one_header() & ~F.col("stamped"), F.col("timestamp_ms"))


def _places(spark: SparkSession, numbers: Numbers, stamped: Collection[str]) -> DataFrame:
    rows = [
        (*tp, hid, log.earliest, numbers.tids[tp.topic], tp.topic in stamped)
        for hid, (tp, log) in enumerate(numbers.hub)
    ]
    return small_frame(
        spark,
        rows,
        "hub_topic string, hub_partition int, hid int, start bigint, tid int, stamped boolean",
    )


def _origins(spark: SparkSession, numbers: Numbers, others: Others) -> DataFrame:
    """The partitions whose records may be in the hub; `sid` is null for those not compared.

    `route_tid` is their hub topic, -1 for one of another job, and null where it may be any.
    """
    rows: dict[SourcePartition, tuple[Value, ...]] = dict.fromkeys(others.known, (None,) * 9)
    rows |= dict.fromkeys(others.elsewhere, (None, -1, *(None,) * 7))
    for sid, it in enumerate(numbers.windows):
        tid = numbers.tids[it.hub_topic]
        compared = it.standing is not Standing.CONFLICT
        strict = it.compared and not it.sparse
        bounds = (it.asked, it.read.earliest, it.read.latest, it.beyond)
        how = (strict, it.loose, it.translated)
        rows[it.partition] = (sid if compared else None, tid, *bounds, *how)
    return small_frame(
        spark,
        [(*sp, True, *row) for sp, row in rows.items()],
        "cluster string, topic string, partition int, known boolean, sid int, route_tid int, "
        "asked bigint, first bigint, upto bigint, beyond bigint, "
        "strict boolean, loose boolean, translated boolean",
    )
