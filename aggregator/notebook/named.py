"""The schemas that values of a frame name, in Confluent's wire format: collected, and asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from aggregator.config.schema import Config
from aggregator.errors import AggregatorError, RegistryError
from aggregator.registry import Schema, SchemaKind, translated_topics
from aggregator.wire.named import Written, names, payload, schema_number, schema_of

MOST_SCHEMAS = 200
KINDS: dict[SchemaKind, str] = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}


class Named(NamedTuple):
    """What the values of one column name.

    `origin` and `number` are those of a row, `schemas` what was found, `reasons` why some cannot be
    had. `heads` are the beginnings of the payloads, where they were asked for.
    """

    column: str
    origin: Column
    number: Column
    schemas: dict[Written, Schema]
    reasons: dict[Written, str]
    heads: tuple[tuple[Written, bytes], ...]

    @property
    def payload(self) -> Column:
        """What the schema describes."""
        return payload(self.column)

    def by(self, written: Written) -> Column:
        """Whether a row's value names this schema."""
        return names(written, self.origin, self.number)

    def by_any(self, several: Iterable[Written]) -> Column:
        """Whether a row's value names one of these."""
        found = F.lit(False)
        for written in several:
            found = found | F.coalesce(self.by(written), F.lit(False))
        return found

    def problem(self, otherwise: Mapping[Written, str | Column]) -> Column:
        """Why a value is not decoded: what is known of its schema, else what `otherwise` says."""
        problem = F.when(
            self.number.isNull(), F.lit("is not in the wire format: no zero byte and an id")
        )
        for written, reason in self.reasons.items():
            problem = problem.when(self.by(written), F.lit(reason))
        for written, told in otherwise.items():
            problem = problem.when(self.by(written), F.lit(told))
        late = F.lit("names a schema that no value named when the ids were collected")
        return problem.otherwise(late)


def named_by(
    frame: DataFrame,
    config: Config,
    column: str,
    kind: SchemaKind,
    source: str | None,
    head: Column | None = None,
) -> Named:
    """The schemas of this kind that the values name; a pass over the frame.

    They are asked for at the registry of each record's source; `source` is where a frame without
    origin columns lies. With `head` these bytes are collected, too.
    """
    if frame.isStreaming:
        raise AggregatorError("which schemas a live frame will name is not known: give a schema")
    origin = F.col("origin_cluster") if "origin_cluster" in frame.columns else F.lit(source)
    if source is None and "topic" in frame.columns:
        default, others = translated_topics(config)
        is_other = F.col("topic").isin(*others) if others else F.lit(False)
        # Their ids are the hub's, wherever they came from.
        origin = F.when(is_other != F.lit(default), F.lit(None)).otherwise(origin)
    number = schema_number(column)
    begun = F.lit(None).cast("binary") if head is None else head
    named = frame.select(origin.alias("origin"), number.alias("number"), begun.alias("head"))
    rows = named.where("number is not null").distinct().limit(MOST_SCHEMAS + 1).collect()
    if len(rows) > MOST_SCHEMAS:
        raise AggregatorError(
            f"values name more than {MOST_SCHEMAS} schemas, so these are hardly in the wire "
            "format; else decode a part of the frame at a time"
        )
    heads = tuple((Written(row.origin, row.number), bytes(row.head or b"")) for row in rows)
    schemas: dict[Written, Schema] = {}
    reasons: dict[Written, str] = {}
    for written in sorted({it for it, _ in heads}, key=lambda it: (it.number, str(it))):
        try:
            schemas[written] = _asked(config, source, written, kind)
        except RegistryError as error:
            reasons[written] = str(error)
    return Named(column, origin, number, schemas, reasons, heads)


def _asked(config: Config, source: str | None, written: Written, kind: SchemaKind) -> Schema:
    schema = schema_of(config, written, source)
    if schema.kind != kind:
        known = KINDS[schema.kind]
        raise RegistryError(f"schema {written.number} is of type {known}, not {KINDS[kind]}")
    return schema
