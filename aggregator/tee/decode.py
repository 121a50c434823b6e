"""How values are decoded: a decoder for each way, which finds the columns and fills them.

A decoder never drops a record. What it cannot decode has a reason, and its value is in the row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from aggregator.config.tee import Decode
from aggregator.tee.core_columns import Columns, Struct, plan_columns
from aggregator.tee.frames import DECODED, ERROR

CORRUPT = "__corrupt"
CASE = "spark.sql.caseSensitive"


class Decoder(Protocol):
    """A way to decode values."""

    def columns(self, topic: str, records: DataFrame, have: Struct, /) -> Columns:
        """The columns for these records (`value` binary) of a table that has some. Runs a job."""

    def decode(self, topic: str, rows: DataFrame, struct: Struct, /) -> DataFrame:
        """Rows with `decode_error`, and with `decoded`, of this struct, if that has a field.

        Of `value` (binary). Runs no job, and drops no row.
        """


class JsonDecoder:
    """Values that are JSON objects. Whole numbers are bigint, others double, all else text."""

    def columns(self, _topic: str, records: DataFrame, have: Struct) -> Columns:
        """What the objects among the records have, behind what the table has."""
        texts = records.select(_text().alias("text")).filter(F.ltrim("text").startswith("{"))
        reader = records.sparkSession.read.options(
            columnNameOfCorruptRecord=CORRUPT,
            # A field that was only null so far would be text for ever.
            dropFieldIfAllNull=True,
        )
        # Fields that differ in case alone are found, and then not taken; Spark would refuse both.
        conf = records.sparkSession.conf
        conf.set(CASE, "true")
        try:
            seen = json.loads(reader.json(texts).schema.json())
        finally:
            conf.unset(CASE)
        fields = [field for field in seen["fields"] if field["name"] != CORRUPT]
        return plan_columns(have, {"type": "struct", "fields": fields})

    def decode(self, _topic: str, rows: DataFrame, struct: Struct) -> DataFrame:
        """Fields of an object; the reason where a value is none, or one does not fit its column."""
        whole = StructType.fromJson(struct)
        known = StructType([*whole.fields, StructField(CORRUPT, StringType())])
        how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
        is_object = F.ltrim("text").startswith("{")
        well = is_object & F.col("parsed")[CORRUPT].isNull()
        # Parsed once more only where something is wrong.
        is_json = F.try_parse_json("text").isNotNull()
        error = (
            F.when(F.col("value").isNull() | well, None)
            .when(~is_json, F.lit("not JSON"))
            .when(~is_object, F.lit("JSON, but no object"))
            .otherwise(F.lit("a field is of another type than its column"))
        )
        own = F.struct(*(F.col("parsed")[name].alias(name) for name in whole.names))
        decoded = F.when(well | (is_object & is_json), own).alias(DECODED)
        # Columns of their own: so a value is parsed once, however often they are named.
        return (
            rows.withColumn("text", _text())
            .withColumn("parsed", F.from_json("text", known, how))
            .select(*rows.columns, error.alias(ERROR), *([decoded] if whole.fields else []))
        )


DECODERS: Mapping[Decode, Decoder | None] = {"off": None, "json": JsonDecoder()}
"""Each way that `tee.decode` names."""


def _text() -> Column:
    return F.col("value").cast("string")
