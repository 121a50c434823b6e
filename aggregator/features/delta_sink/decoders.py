"""How values are decoded: a decoder for each way, which finds the columns and fills them.

A decoder never drops a record. What it cannot decode has a reason, and its value is in the row.
"""

import json
from collections.abc import Callable
from typing import Protocol
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from aggregator.datapath.spark.headers import by_case, has_new_field, why_no_object
from aggregator.features.delta_sink.landing_rows import DECODED, ERROR
from aggregator.features.delta_sink.value_columns import (
    EMPTY,
    TOO_MANY,
    Columns,
    Struct,
    plan_columns,
)

CORRUPT = f"aggregator: what is not as its columns {uuid4().hex}"
"""Where Spark puts the text of a record that it cannot read. No field of a record is called so, or
Spark would read none of the batch."""
TEXT, PARSED, BROKEN = "text", "parsed", "broken"
BEFORE = "\ufeff \t\r\n"
"""What may be in front of JSON: white space, and the mark that some editors write."""
SURPRISE = "aggregator: this record is not as those before"
MISFIT = "a field is of another type than its column"

Read = Callable[[bool], DataFrame]
"""The records of a batch, with headers or without: to make these of a record costs more than to
look at its value."""


class Decoder(Protocol):
    """A way to decode the values of one topic."""

    def columns(self, read: Read, have: Struct, /) -> Columns:
        """The columns for these records of a table that has some. Runs a job where it has to."""

    def decode(self, rows: DataFrame, struct: Struct, /) -> DataFrame:
        """Rows with `decode_error`, and with `decoded`, of this struct, if that has a field.

        Of `value` (binary). Runs no job, and drops no row.
        """

    def is_unexpected(self, error: Exception, /) -> bool:
        """Whether an append failed as a record was not as those before; `columns` looks then."""


class NewFields:
    """Looks for fields of JSON, and knows when it need not.

    Where a table has columns, records are appended without reading all of them before: one with a
    field that is not known fails the append, which is then repeated after reading them.
    """

    def __init__(self) -> None:
        self._left_out: tuple[str, ...] = ()
        self._wanted = False
        self._looked = False

    def want(self) -> None:
        """Look at the next batch."""
        self._wanted = True

    def plan(self, read: Callable[[], Struct], have: Struct) -> Columns:
        """The columns behind what the table has; `read` runs a job."""
        self._looked = self._wanted or not have["fields"]
        self._wanted = False
        if not self._looked:
            return Columns(have)
        found = plan_columns(have, read())
        self._left_out = found.left_out
        return found

    def surprise(self, spark: SparkSession, value: Column, struct: Struct) -> Column | None:
        """Whether a record has a field that is not known; None where that cannot be."""
        reasons = [it.rpartition(": ") for it in self._left_out]
        if self._looked or any(reason == TOO_MANY for _, _, reason in reasons):
            return None
        paths = [path for path, _, _ in reasons]
        return has_new_field(spark, value, json.dumps(struct), paths)


def surprised(error: Exception) -> bool:
    """Whether an append failed as one of the records was not as those before."""
    return SURPRISE in str(error)


def raise_surprise() -> Column:
    """Fails the append that reads it."""
    return F.raise_error(F.lit(SURPRISE)).cast("string")


class JsonDecoder:
    """Values that are JSON objects. Whole numbers are bigint, others double, all else text."""

    def __init__(self) -> None:
        self._fields = NewFields()

    def columns(self, read: Read, have: Struct) -> Columns:
        """What the objects among the records have, behind what the table has."""
        return self._fields.plan(lambda: fields_of(read(False), text_of(F.col("value"))), have)

    def decode(self, rows: DataFrame, struct: Struct) -> DataFrame:
        """Fields of an object; the reason where a value is none, or one does not fit its column."""
        names = rows.columns
        decoded, why = json_columns(struct)
        error = F.when(F.col("value").isNull(), None)
        is_new = self._fields.surprise(rows.sparkSession, F.col("value"), struct)
        if is_new is not None:
            error = error.when(is_new, raise_surprise())
        error = error.otherwise(why).alias(ERROR)
        found = with_parsed(rows, text_of(F.col("value")), struct)
        return found.select(*names, error, *([decoded.alias(DECODED)] if struct["fields"] else []))

    def is_unexpected(self, error: Exception) -> bool:
        """Whether a record has a field that none had before."""
        if surprised(error):
            self._fields.want()
        return surprised(error)


def fields_of(records: DataFrame, text: Column) -> Struct:
    """The fields that the JSON objects among some texts have. Runs a job."""
    broken = why_no_object(records.sparkSession, F.col(TEXT).cast("binary"))
    objects = records.select(text.alias(TEXT)).filter(is_object(F.col(TEXT)) & broken.isNull())
    reader = records.sparkSession.read.options(
        columnNameOfCorruptRecord=CORRUPT,
        # A field that was only null so far would be text for ever.
        dropFieldIfAllNull=True,
    )
    # Fields that differ in case alone are found, and then not taken; Spark would refuse both.
    with by_case(records.sparkSession):
        seen = json.loads(reader.json(objects).schema.json())
    fields = [field for field in seen["fields"] if field["name"] != CORRUPT]
    return {**EMPTY, "fields": fields}


def with_parsed(rows: DataFrame, text: Column, struct: Struct) -> DataFrame:
    """Rows with what `json_columns` looks at: so a value is parsed once, however often named."""
    known = StructType([*StructType.fromJson(struct).fields, StructField(CORRUPT, StringType())])
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    broken = why_no_object(rows.sparkSession, F.col(TEXT).cast("binary"))
    with_text = rows.withColumn(TEXT, text).withColumn(BROKEN, broken)
    readable = F.when(F.col(BROKEN).isNull(), F.col(TEXT))
    return with_text.withColumn(PARSED, F.from_json(readable, known, how))


def json_columns(struct: Struct) -> tuple[Column, Column]:
    """What a text says, and why it does not; both null where there is no text."""
    well = is_object(F.col(TEXT)) & F.col(PARSED)[CORRUPT].isNull() & F.col(BROKEN).isNull()
    # Parsed once more only where something is wrong. Spark reads one value, and passes over more.
    is_json = F.try_parse_json(TEXT).isNotNull() & F.col(BROKEN).isNull()
    error = (
        F.when(F.col(TEXT).isNull() | well, None)
        .when(is_object(F.col(TEXT)) & F.col(BROKEN).isNotNull(), F.col(BROKEN))
        .when(F.try_parse_json(TEXT).isNull(), F.lit("not JSON"))
        .when(~is_object(F.col(TEXT)), F.lit("JSON, but no object"))
        .otherwise(F.lit(MISFIT))
    )
    names = StructType.fromJson(struct).names
    own = F.struct(*(F.col(PARSED)[name].alias(name) for name in names)) if names else F.lit(None)
    return F.when(well | (is_object(F.col(TEXT)) & is_json), own), error


def text_of(value: Column) -> Column:
    """A value as text, without what may be in front of JSON."""
    return F.ltrim(value.cast("string"), F.lit(BEFORE))


def is_object(text: Column) -> Column:
    """Whether a text begins as an object of JSON does."""
    return text.startswith("{")
