"""Collects the schemas that values of a frame name by id or GUID, and fetches them."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from aggregator.config.schema import Config
from aggregator.kafka.registry import Schema, SchemaKind, translated_topics
from aggregator.kafka.registry.schemas_of_frame import (
    Written,
    as_written,
    header_of,
    names,
    payload,
    schema_name,
    schema_number,
    schema_of,
)
from aggregator.model.errors import AggregatorError, RegistryError

MOST_SCHEMAS = 200
KINDS: dict[SchemaKind, str] = {"AVRO": "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}


class Named(NamedTuple):
    """What the values of one column name.

    `origin` and `name` are those of a row, and `payload` what the schema describes. `schemas` is
    what was found, `reasons` why some cannot be had. `heads` are the beginnings of the payloads,
    where they were asked for.
    """

    origin: Column
    name: Column
    payload: Column
    schemas: dict[Written, Schema]
    reasons: dict[Written, str]
    heads: tuple[tuple[Written, bytes], ...]

    @property
    def number(self) -> Column:
        """The schema's id, as a column; null where a GUID names it."""
        return schema_number(self.name)

    def by(self, written: Written) -> Column:
        """Whether a row's value names this schema."""
        return names(written, self.origin, self.name)

    def by_any(self, several: Iterable[Written]) -> Column:
        """Whether a row's value names one of these."""
        found = F.lit(False)
        for written in several:
            found = found | F.coalesce(self.by(written), F.lit(False))
        return found

    def problem(self, otherwise: Mapping[Written, str | Column]) -> Column:
        """Why a value is not decoded: what is known of its schema, else what `otherwise` says."""
        problem = F.when(
            self.name.isNull(), F.lit("names no schema: no zero byte and an id, nor a header")
        )
        for written, reason in self.reasons.items():
            problem = problem.when(self.by(written), F.lit(reason))
        for written, words in otherwise.items():
            problem = problem.when(self.by(written), F.lit(words))
        late = F.lit("names a schema that no value named when the ids were collected")
        return problem.otherwise(late)


def named_by(
    frame: DataFrame,
    config: Config,
    column: str,
    kind: SchemaKind,
    source: str | None,
    head: Callable[[Column], Column] | None = None,
) -> Named:
    """The schemas of this kind that the values name; a pass over the frame.

    They are asked for at the registry of each record's source; `source` is where a frame without
    origin columns lies. With `head` these bytes of the payloads are collected, too.
    """
    if frame.isStreaming:
        raise AggregatorError("which schemas a live frame will name is not known: give a schema")
    origin = F.col("origin_cluster") if "origin_cluster" in frame.columns else F.lit(source)
    if source is None and "topic" in frame.columns:
        default, others = translated_topics(config)
        is_other = F.col("topic").isin(*others) if others else F.lit(False)
        # Their ids are the hub's, wherever they came from.
        origin = F.when(is_other != F.lit(default), F.lit(None)).otherwise(origin)
    header = header_of(frame, column)
    name, content = schema_name(column, header), payload(column, header)
    begun = F.lit(None).cast("binary") if head is None else head(content)
    named = frame.select(origin.alias("origin"), name.alias("name"), begun.alias("head"))
    rows = named.where("name is not null").distinct().limit(MOST_SCHEMAS + 1).collect()
    if len(rows) > MOST_SCHEMAS:
        raise AggregatorError(
            f"values name more than {MOST_SCHEMAS} schemas, so these are hardly in the wire "
            "format; else decode a part of the frame at a time"
        )
    heads = tuple((as_written(row.origin, row["name"]), bytes(row.head or b"")) for row in rows)
    schemas: dict[Written, Schema] = {}
    reasons: dict[Written, str] = {}
    for one in sorted({it for it, _ in heads}, key=lambda it: it.order):
        try:
            schemas[one] = _asked(config, source, one, kind)
        except RegistryError as error:
            reasons[one] = str(error)
    return Named(origin, name, content, schemas, reasons, heads)


def _asked(config: Config, source: str | None, written: Written, kind: SchemaKind) -> Schema:
    schema = schema_of(config, written, source)
    if schema.kind != kind:
        known = KINDS[schema.kind]
        raise RegistryError(f"schema {written.schema} is of type {known}, not {KINDS[kind]}")
    return schema
