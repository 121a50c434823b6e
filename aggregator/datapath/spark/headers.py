"""Column functions that read the origin of a record, and fields of JSON objects.

The origin is in the last headers, in either form. Whether an object has fields that a struct has
not says `JsonFields.java`, and whether it can be read `JsonEnds.java`. The only module that reaches
through py4j for it: Spark registers a class of Java by its name, and the first one needs what is
known.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.model.record_rules import ANY_ORIGIN
from aggregator.model.values import ORIGIN_CLUSTER, ORIGIN_HEADER, ORIGIN_HEADERS, ORIGIN_TEXT

# Not `$`, which also matches before a line's end.
BEYOND_MS = 253_402_214_400_000
"""The last day of the year 9999 begins, UTC: so a moment before is in that year in each zone."""
WHOLE_TEXT = rf"^{ORIGIN_TEXT}\z"


def filter_not_from_hub(frame: DataFrame, hub_names: Collection[str]) -> DataFrame:
    """Drop records whose origin chain already names this hub: nothing goes round in circles.

    In and out: a frame with `headers`. `hub_names` are the names under which this hub is a source
    elsewhere; with ANY_ORIGIN every record goes that has a whole origin. One without headers stays.
    """
    names = sorted(set(hub_names))
    if not names:
        return frame

    def names_hub(header: Column) -> Column:
        text = header["value"].cast("string")
        cluster = F.when(header["key"] == ORIGIN_CLUSTER, text).when(
            _is_whole_text(header), F.substring_index(text, "/", 1)
        )
        return F.coalesce(cluster.isin(*names), F.lit(False))

    came_back = F.exists("headers", names_hub)
    if ANY_ORIGIN in names:
        came_back = came_back | F.exists("headers", _is_whole_text) | _has_five()
    return frame.filter(~F.coalesce(came_back, F.lit(False)))


def origin_texts() -> Column:
    """The origin of a record with `headers`, as an array of text, in the order of ORIGIN_HEADERS.

    Null, or with nulls in it, for one that has no whole origin. One header says no timestamp: then
    there are four. For `origin_columns`, in a column of its own, so that it is made once.
    """
    # By place, not by a search: ours are the last ones of a record, always in this order.
    last = F.try_element_at("headers", F.lit(-1))
    text = F.when(_is_whole_text(last), last["value"].cast("string"))
    return F.when(is_one_header(), F.split(text, "/")).otherwise(
        F.array(*map(_at_its_place, ORIGIN_HEADERS))
    )


def origin_columns(texts: str) -> Mapping[str, Column]:
    """The parts of an origin by their names, out of a column of `origin_texts`.

    cluster string, topic string, partition int, offset bigint, timestamp bigint; null what is not
    there, or is no number.
    """
    cluster, topic, partition, offset, timestamp = (F.get(texts, F.lit(at)) for at in range(5))
    return {
        "cluster": cluster,
        "topic": topic,
        "partition": partition.try_cast("int"),
        "offset": offset.try_cast("bigint"),
        "timestamp": timestamp.try_cast("bigint"),
    }


def moment(millis: Column) -> Column:
    """A timestamp out of Kafka's milliseconds; null where a record has none, or none that is a
    time.

    Null below 0 (-1 says that there is none), and beyond the year 9999, where Python, pandas and
    others who read what Spark writes have no times: what is meant as micro- or nanoseconds. As
    `Columns.java` has it.
    """
    # Outside a condition of its own the sum would be made of what is too large as well.
    return F.timestamp_millis(F.when((millis >= 0) & (millis < BEYOND_MS), millis))


def timestamp_ms(frame: DataFrame) -> Column:
    """The exact timestamp of a Kafka frame's records, by Spark's source or by `read_exactly`."""
    has = "timestamp_ms" in frame.columns
    return F.col("timestamp_ms") if has else F.unix_millis("timestamp")


def is_of_origin(header: Column) -> Column:
    """Whether a header is of an origin: that of the last hop, or an earlier one."""
    return header["key"].isin(*ORIGIN_HEADERS) | F.coalesce(_is_whole_text(header), F.lit(False))


def is_one_header() -> Column:
    """Whether a record with `headers` has its origin, if any, in the one header."""
    last = F.try_element_at("headers", F.lit(-1))
    return F.coalesce(last["key"] == ORIGIN_HEADER, F.lit(False))


def headers_before_origin() -> Column:
    """The headers of a record with an origin, without those; null when there are none."""
    origin = F.when(is_one_header(), 1).otherwise(len(ORIGIN_HEADERS))
    count = F.size("headers") - origin
    return F.when(count > 0, F.slice("headers", F.lit(1), F.greatest(count, F.lit(0))))


def _has_five() -> Column:
    """Whether the five headers follow each other anywhere among those of a record."""
    keys = F.transform("headers", lambda header: header["key"])
    last = F.size("headers") - len(ORIGIN_HEADERS) + 1
    places = F.sequence(F.lit(1), F.greatest(last, F.lit(1)))
    wanted = F.array(*map(F.lit, ORIGIN_HEADERS))
    return F.exists(places, lambda at: F.slice(keys, at, F.lit(len(ORIGIN_HEADERS))) == wanted)


def _is_whole_text(header: Column) -> Column:
    """Whether a header is an origin in one; null when it has no value."""
    return (header["key"] == ORIGIN_HEADER) & header["value"].cast("string").rlike(WHOLE_TEXT)


def _at_its_place(key: str) -> Column:
    """The value of one of the five headers, null when it is not where we put it."""
    place = F.lit(ORIGIN_HEADERS.index(key) - len(ORIGIN_HEADERS))
    header = F.try_element_at("headers", place)
    return F.when(header["key"] == key, header["value"].cast("string"))


NAME = "aggregator_has_new_field"
ENDS = "aggregator_json_ends"
CASE = "spark.sql.caseSensitive"


def has_new_field(
    spark: SparkSession, value: Column, struct: str, left_out: Sequence[str]
) -> Column:
    """Whether the object in a value (binary) has a field, with a type, that is not known.

    `struct` is `StructType.json()`, `left_out` are paths, as a.b, of fields not to
    know of. One struct for a session at a time.
    """
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    paths = gateway.new_array(jvm.java.lang.String, len(left_out))
    for at, path in enumerate(left_out):
        paths[at] = path
    _register(spark, NAME, jvm.aggregator.connector.JsonFields(struct, paths), "BooleanType")
    return F.call_function(NAME, value)


def why_no_object(spark: SparkSession, value: Column) -> Column:
    """Why the object that a value (binary) begins with cannot be read; null where it can.

    Something but white space is behind it, or it is nested too deep. Only its brackets are read.
    """
    jvm: Any = spark.sparkContext._jvm
    _register(spark, ENDS, jvm.aggregator.connector.JsonEnds(), "StringType")
    return F.call_function(ENDS, value)


@contextmanager
def by_case(spark: SparkSession) -> Iterator[None]:
    """Names that differ in case alone are of two fields meanwhile."""
    before = spark.conf.get(CASE)
    spark.conf.set(CASE, "true")
    try:
        yield
    finally:
        spark.conf.set(CASE, str(before))


def _register(spark: SparkSession, name: str, function: Any, kind: str) -> None:
    jvm: Any = spark.sparkContext._jvm
    registry: Any = spark._jsparkSession.udf()
    registry.register(name, function, getattr(jvm.org.apache.spark.sql.types.DataTypes, kind))
