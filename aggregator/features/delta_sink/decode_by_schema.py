"""Decodes values that name a registry's schema by it, and all others as JSON.

A registry that is away holds the topic back. That a schema is not there, or is of a kind that
nothing here decodes, is a reason in the record's row.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from aggregator.config.schema import Config
from aggregator.datapath.spark.headers import origin_columns, origin_texts
from aggregator.features.delta_sink.decoders import (
    SURPRISE,
    TEXT,
    Decoder,
    JsonDecoder,
    NewFields,
    Read,
    fields_of,
    is_object,
    json_columns,
    raise_surprise,
    surprised,
    text_of,
    with_parsed,
)
from aggregator.features.delta_sink.landing_rows import DECODED, ERROR
from aggregator.features.delta_sink.value_columns import EMPTY, Columns, Struct, plan_columns
from aggregator.kafka.registry import Schema
from aggregator.kafka.registry.avro_columns import avro_rows, columns_of
from aggregator.kafka.registry.placement import is_translated
from aggregator.kafka.registry.schemas_of_frame import (
    Written,
    as_written,
    header_of,
    payload,
    schema_key,
    schema_name,
    schema_of,
)
from aggregator.model.errors import RegistryError

MOST_UNKNOWN = 200
OF_ONE_SCHEMA = (404, 410, 422)
"""How a registry refuses one schema; what it would say of each is no matter of a record."""
AGAIN_SECONDS = 60.0
"""How often the registry is asked again for a schema that it did not have."""
TEXTS, ORIGIN, HEADER, NAME, AVRO = "texts", "named_by", "id_header", "named", "by_avro"


@dataclass(slots=True)
class _Known:
    """What records of the topic were so far: the schemas that they name, and whether some are JSON.

    `types` are those of what Avro's schemas write, `failed` reasons why one decodes nothing.
    `full`: with this many unknown ids values are hardly in the wire format; no more are requested.
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
        # Without any registry no header names a schema.
        self._by_header = own or bool(config.hub.schemas.registry)
        self._known = _Known()
        self._fields = NewFields()
        self._planned: tuple[Struct, int, Columns] = (EMPTY, 0, Columns(EMPTY))

    def columns(self, read: Read, have: Struct) -> Columns:
        """What the records have behind what the table has.

        Raises RegistryError while a registry is away. Records that name the schemas of earlier
        ones are not looked at before they are appended, unless there is JSON among them.
        """
        is_due = self._known.failed and time.monotonic() - self._known.asked_at > AGAIN_SECONDS
        if not self._known.looked or (is_due and self._known.full):
            self._look(read)
        known = self._known
        if is_due and not known.full:
            known.asked_at, records = time.monotonic(), read(False)
            for written in known.failed.copy():
                del known.failed[written]
                self._ask(records, known, written)
        of_avro = self._avro_columns(have)
        found, left_out = of_avro.struct, list(of_avro.left_out)
        if known.json or known.text:
            added = self._fields.plan(lambda: self._json_fields(read), found)
            found, left_out = added.struct, [*left_out, *added.left_out]
        return Columns(found, tuple(dict.fromkeys(left_out)))

    def decode(self, rows: DataFrame, struct: Struct) -> DataFrame:
        """Rows by what their values name; a record that names another schema fails the append."""
        known, own = self._known, rows.columns
        found = self._named(rows)
        here = F.col(NAME).isNotNull() & ~self._is_text()
        parts = (F.col(ORIGIN), F.col(NAME), _payload())
        read = avro_rows(rows.sparkSession, _known_to_java(known, struct), parts)
        found = found.withColumn(AVRO, F.when(here, read))
        value, error = F.col(AVRO)["value"], F.col(AVRO)["error"]
        error = F.when(error == SURPRISE, raise_surprise()).otherwise(error)
        if known.json or known.text:
            found = with_parsed(found, self._text(), struct)
            of_json, why = json_columns(struct)
            text = F.col(TEXT).cast("binary")
            is_new = self._fields.surprise(rows.sparkSession, text, struct)
            if is_new is not None:
                why = F.when(is_new, raise_surprise()).otherwise(why)
        else:
            of_json = F.lit(None).cast(StructType.fromJson(struct))
            plain = F.lit("names no schema of a registry, and is not JSON")
            why = F.when(is_object(text_of(F.col("value"))), raise_surprise()).otherwise(plain)
        error = F.when(F.col("value").isNotNull(), F.when(here, error).otherwise(why)).alias(ERROR)
        decoded = F.when(here, value).otherwise(of_json).alias(DECODED)
        return found.select(*own, error, *([decoded] if struct["fields"] else []))

    def is_unexpected(self, error: Exception) -> bool:
        """Whether a record names a schema that none has named before, or has another field."""
        if surprised(error):
            self._known.looked = False
            self._fields.want()
        return surprised(error)

    def _avro_columns(self, have: Struct) -> Columns:
        """What Avro's schemas add; found once, as of a thousand schemas it takes seconds."""
        types = self._known.types
        before, count, planned = self._planned
        if (before, count) == (have, len(types)):
            return planned
        found, left_out = have, list[str]()
        for written in sorted(types, key=lambda it: it.order):
            added = plan_columns(found, types[written])
            found, left_out = added.struct, [*left_out, *added.left_out]
        planned = Columns(found, tuple(left_out))
        self._planned = (have, len(types), planned)
        return planned

    def _json_fields(self, read: Read) -> Struct:
        return fields_of(self._named(read(self._by_header)), self._text())

    def _look(self, read: Read) -> None:
        """Which schemas the records name, and whether some are JSON. Runs a job."""
        records = self._named(read(self._by_header))
        is_json = F.col(NAME).isNull() & is_object(text_of(F.col("value")))
        named = F.when(F.col(NAME).isNotNull(), F.struct(ORIGIN, NAME))
        seen = records.agg(F.collect_set(named).alias("named"), F.count_if(is_json).alias("json"))
        (row,) = seen.collect()
        wanted = {as_written(*it) for it in row["named"]} | self._known.written
        before = self._known
        known = _Known(
            json=before.json or row["json"] > 0,
            text=before.text,
            avro=before.avro,
            types=before.types,
            looked=True,
        )
        for one in sorted(wanted - before.text - before.avro.keys(), key=lambda it: it.order):
            if len(known.failed) >= MOST_UNKNOWN:
                known.full = True
                break
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
            if schema.kind == "AVRO":
                known.types[written] = columns_of(records.sparkSession, schema.text)
        except RegistryError as error:
            if error.away or (error.code and error.code not in OF_ONE_SCHEMA):
                raise
            known.failed[written] = str(error)
            return
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            # What a registry holds may be anything; the records of other schemas land.
            reason = str(error) or type(error).__name__
            known.failed[written] = f"schema {written.schema} cannot be read: {reason}"
            return
        if schema.kind == "JSON":
            known.text.add(written)
        elif schema.kind == "AVRO":
            known.avro[written] = schema
        else:
            known.failed[written] = f"schema {written.schema} is of type {schema.kind}: not decoded"

    def _is_text(self) -> Column:
        """Whether a value names a schema of JSON."""
        named = [schema_key(it) for it in self._known.text]
        key = F.concat(F.coalesce(F.col(ORIGIN), F.lit("")), F.lit("/"), F.col(NAME))
        return key.isin(named) if named else F.lit(False)

    def _text(self) -> Column:
        framed = F.when(self._is_text(), text_of(_payload()))
        return F.when(F.col(NAME).isNull(), text_of(F.col("value"))).otherwise(framed)


def decoder_of(config: Config, topic: str) -> Decoder | None:
    """What `tee.decode` says, for one topic."""
    if config.tee.decode == "off":
        return None
    return JsonDecoder() if config.tee.decode == "json" else AutoDecoder(config, topic)


def _payload() -> Column:
    return payload("value", F.col(HEADER))


def _known_to_java(known: _Known, struct: Struct) -> dict[str, Any]:
    """What `AvroRows.java` reads values by."""
    texts = list(dict.fromkeys(it.text for it in known.avro.values()))
    places = {text: at for at, text in enumerate(texts)}
    many = f"names a schema that is not known, as more than {MOST_UNKNOWN} that values here name"
    return {
        "struct": struct,
        "texts": texts,
        "avro": {
            schema_key(it): {"text": places[schema.text], "called": str(it.schema)}
            for it, schema in known.avro.items()
        },
        "failed": {schema_key(it): reason for it, reason in known.failed.items()},
        "other": many if known.full else SURPRISE,
    }
