"""Column functions that read the origin of a record: its last headers, in either form."""

from collections.abc import Collection, Mapping

from pyspark.sql import Column, DataFrame
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
