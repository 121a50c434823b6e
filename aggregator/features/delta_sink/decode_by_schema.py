"""Decodes what names a schema of a registry by that, and all else as JSON.

A registry that is away holds the topic back. That a schema is not there, or is of a kind that
nothing here decodes, is a reason in the record's row.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from aggregator.config.schema import Config
from aggregator.datapath.spark.headers import origin_columns, origin_texts
from aggregator.datapath.spark.reading_session import add_jars
from aggregator.features.delta_sink.decoders import (
    MISFIT,
    TEXT,
    Decoder,
    JsonDecoder,
    NewFields,
    Read,
    fields_of,
    json_columns,
    raise_surprise,
    surprised,
    text_of,
    with_parsed,
)
from aggregator.features.delta_sink.fit_to_column import fitted, misfits, struct_type, widened
from aggregator.features.delta_sink.landing_rows import DECODED, ERROR
from aggregator.features.delta_sink.value_columns import Columns, Struct, plan_columns
from aggregator.kafka.registry import Schema
from aggregator.kafka.registry.avro_columns import avro_value
from aggregator.kafka.registry.placement import is_translated
from aggregator.kafka.registry.schemas_of_frame import (
    Written,
    as_written,
    header_of,
    names,
    payload,
    schema_name,
    schema_of,
)
from aggregator.model.errors import RegistryError

MOST_SCHEMAS = 200
NOT_FOUND = 404
AGAIN_SECONDS = 60.0
"""So often it is asked again for a schema that the registry had not."""
TEXTS, ORIGIN, HEADER, NAME, AVRO = "texts", "named_by", "id_header", "named", "avro_"


@dataclass(slots=True)
class _Known:
    """What records of the topic were so far: the schemas that they name, and whether some are JSON.

    `types` are those of what Avro's schemas write, `failed` reasons why one decodes nothing.
    `full`: so many are named that values are hardly in the wire format; no more are asked for.
    """

    json: bool = False
    text: set[Written] = field(default_factory=set)
    avro: dict[Written, Schema] = field(default_factory=dict)
    types: dict[Written, Struct] = field(default_factory=dict)
    failed: dict[Written, str] = field(default_factory=dict)
    looked: bool = False
    full: bool = False
    asked_at: float = field(default_factory=time.monotonic)

    @property
    def written(self) -> set[Written]:
        """All schemas that were named."""
        return {*self.text, *self.avro, *self.failed}


class AutoDecoder:
    """One topic's values: Avro and JSON Schema by their registries, and JSON."""

    def __init__(self, config: Config, topic: str) -> None:
        self._config = config
        # Without a registry of its own a source's ids are the hub's.
        own = any(source.schemas.registry for source in config.sources.values())
        self._by_source = own and not is_translated(config, topic)
        self._by_header = wants_avro(config)
        self._known = _Known()
        self._fields = NewFields()

    def columns(self, read: Read, have: Struct) -> Columns:
        """What the records have behind what the table has.

        Raises RegistryError while a registry is away. Records that name the schemas of earlier
        ones are not looked at before they are appended, unless there is JSON among them.
        """
        if not self._known.looked:
            self._look(read)
        known = self._known
        if known.failed and time.monotonic() - known.asked_at > AGAIN_SECONDS:
            known.asked_at = time.monotonic()
            for written in known.failed.copy():
                del known.failed[written]
                self._ask(read(False), known, written)
        found, left_out = have, list[str]()
        for written in sorted(known.types, key=str):
            added = plan_columns(found, widened(known.types[written]))
            found, left_out = added.struct, [*left_out, *added.left_out]
        if known.json or known.text:
            added = self._fields.plan(lambda: self._json_fields(read), found)
            found, left_out = added.struct, [*left_out, *added.left_out]
        return Columns(found, tuple(dict.fromkeys(left_out)))

    def decode(self, rows: DataFrame, struct: Struct) -> DataFrame:
        """Rows by what their values name; a record that names another schema fails the append."""
        known, own = self._known, rows.columns
        found = self._named(rows)
        avro = {written: f"{AVRO}{at}" for at, written in enumerate(sorted(known.avro, key=str))}
        for written, column in avro.items():
            one = avro_value(_payload(), known.avro[written].text)
            found = found.withColumn(column, F.when(_is(written), _as_struct(one, known, written)))
        parts: list[tuple[Column, Column, Column]] = []
        if known.json or known.text:
            found = with_parsed(found, self._text(), struct)
            here = F.col(NAME).isNull() | _any(_is(it) for it in known.text)
            value, why = json_columns(struct)
            text = F.col(TEXT).cast("binary")
            is_new = self._fields.surprise(rows.sparkSession, text, struct)
            if is_new is not None:
                why = F.when(is_new, raise_surprise()).otherwise(why)
            parts.append((here, value, why))
        for written, column in avro.items():
            parts.append((_is(written), *_of_avro(column, known.types[written], struct, written)))
        decoded = _first([(here, value) for here, value, _ in parts], struct)
        error = F.when(F.col("value").isNull(), None)
        for here, _, why in parts:
            error = error.when(here, why)
        for written, reason in known.failed.items():
            error = error.when(_is(written), F.lit(reason))
        if not known.json:
            plain = F.lit("names no schema of a registry, and is not JSON")
            is_object = text_of(F.col("value")).startswith("{")
            error = error.when(F.col(NAME).isNull() & ~is_object, plain)
        if known.full:
            many = F.lit(f"names a schema, of more than {MOST_SCHEMAS} that values here name")
            error = error.when(F.col(NAME).isNotNull(), many)
        columns = [error.otherwise(raise_surprise()).alias(ERROR)]
        return found.select(*own, *columns, *([decoded.alias(DECODED)] if struct["fields"] else []))

    def is_surprised(self, error: Exception) -> bool:
        """Whether a record names a schema that none has named before, or has another field."""
        if surprised(error):
            self._known.looked = False
            self._fields.want()
        return surprised(error)

    def _json_fields(self, read: Read) -> Struct:
        return fields_of(self._named(read(self._by_header)), self._text())

    def _look(self, read: Read) -> None:
        """Which schemas the records name, and whether some are JSON. Runs a job."""
        records = self._named(read(self._by_header))
        is_json = F.col(NAME).isNull() & text_of(F.col("value")).startswith("{")
        named = F.when(F.col(NAME).isNotNull(), F.struct(ORIGIN, NAME))
        seen = records.agg(F.collect_set(named).alias("named"), F.count_if(is_json).alias("json"))
        (row,) = seen.collect()
        wanted = {as_written(*it) for it in row["named"]} | self._known.written
        known = _Known(json=self._known.json or row["json"] > 0, looked=True)
        known.full = len(wanted) > MOST_SCHEMAS
        for one in sorted(wanted, key=lambda it: it.order)[:MOST_SCHEMAS]:
            self._ask(records, known, one)
        self._known = known

    def _named(self, records: DataFrame) -> DataFrame:
        """Records with the schema that they name, and by whose registry."""
        if not self._by_source:
            named = records.withColumn(ORIGIN, F.lit(None).cast("string"))
        elif "origin_cluster" in records.columns:
            named = records.withColumn(ORIGIN, F.col("origin_cluster"))
        else:
            texts = records.withColumn(TEXTS, origin_texts())
            named = texts.withColumn(ORIGIN, origin_columns(TEXTS)["cluster"])
        header = header_of(records, "value") if self._by_header else F.lit(None).cast("binary")
        named = named.withColumn(HEADER, header)
        return named.withColumn(NAME, schema_name("value", F.col(HEADER)))

    def _ask(self, records: DataFrame, known: _Known, written: Written) -> None:
        try:
            schema = schema_of(self._config, written)
        except RegistryError as error:
            # What would be told of every schema is no matter of this record.
            if error.away or (error.code and error.code != NOT_FOUND):
                raise
            known.failed[written] = str(error)
            return
        if schema.kind == "JSON":
            known.text.add(written)
        elif schema.kind == "AVRO":
            if not known.avro:
                add_jars(records.sparkSession, self._config, ("avro",))
            known.avro[written] = schema
            known.types[written] = _type_of(records, schema)
        else:
            known.failed[written] = f"schema {written.schema} is of type {schema.kind}: not decoded"

    def _text(self) -> Column:
        framed = _any(_is(it) for it in self._known.text)
        return F.when(F.col(NAME).isNull(), text_of(F.col("value"))).when(
            framed, text_of(_payload())
        )


def decoder_of(config: Config, topic: str) -> Decoder | None:
    """What `tee.decode` says, for one topic."""
    if config.tee.decode == "off":
        return None
    return JsonDecoder() if config.tee.decode == "json" else AutoDecoder(config, topic)


def wants_avro(config: Config) -> bool:
    """Whether a session has to be able to read Avro."""
    registries = [config.hub.schemas, *(it.schemas for it in config.sources.values())]
    return config.tee.decode == "auto" and any(it.registry for it in registries)


def _payload() -> Column:
    return payload("value", F.col(HEADER))


def _is(written: Written) -> Column:
    return names(written, F.col(ORIGIN), F.col(NAME))


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(or_, conditions, F.lit(False))


def _type_of(records: DataFrame, schema: Schema) -> Struct:
    """The struct that values of an Avro schema become. Runs no job."""
    one = records.select(avro_value(F.col("value"), schema.text).alias("value"))
    found = json.loads(one.schema.json())["fields"][0]["type"]
    if isinstance(found, dict) and found.get("type") == "struct":
        return dict(found)
    # A schema of one value that is no record: the table's column is a struct.
    alone = {"name": "value", "type": found, "nullable": True, "metadata": {}}
    return {"type": "struct", "fields": [alone]}


def _as_struct(value: Column, known: _Known, written: Written) -> Column:
    return (
        value
        if _is_record(known.avro[written])
        else F.when(value.isNotNull(), F.struct(value.alias("value")))
    )


def _is_record(schema: Schema) -> bool:
    plain = json.loads(schema.text)
    return isinstance(plain, dict) and plain.get("type") in ("record", "error")


def _of_avro(column: str, seen: Struct, struct: Struct, written: Written) -> tuple[Column, Column]:
    value = F.col(column)
    shaped = fitted(value, seen, struct) if struct["fields"] else F.lit(None)
    wrong = [*misfits(value, seen, struct)]
    error = F.when(value.isNull(), F.lit(f"is not what schema {written.schema} says"))
    return shaped, error.when(_any(wrong), F.lit(MISFIT)) if wrong else error


def _first(parts: list[tuple[Column, Column]], struct: Struct) -> Column:
    nothing = F.lit(None).cast(struct_type(struct))
    found: Column | None = None
    for here, value in parts:
        found = F.when(here, value) if found is None else found.when(here, value)
    return nothing if found is None else found
