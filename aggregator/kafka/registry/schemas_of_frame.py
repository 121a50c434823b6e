"""Which schemas the values of a frame name, and the schemas themselves, by their registries.

A key or a value names its schema in its own first bytes, or in a header.
"""

from typing import NamedTuple
from uuid import UUID

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType

from aggregator.config.schema import Config
from aggregator.kafka.registry import ID_HEADERS, Schema, SchemaId, open_registry, place_of
from aggregator.model.errors import RegistryError

HEAD = 5
"""Bytes before the payload in Confluent's wire format: a zero, and the schema's id."""
GUID_HEAD = 17
"""Bytes of a header that names a schema by its GUID: a one, and that."""
GUID_DIGITS = 32


class Written(NamedTuple):
    """A schema that values of a frame name: by the registry of which cluster, under which id."""

    origin: str | None
    schema: SchemaId

    @property
    def order(self) -> tuple[str, str]:
        """Sorts them by their ids; GUIDs have no order that means something."""
        return str(self.schema).zfill(GUID_DIGITS), str(self.origin)


def as_written(origin: str | None, name: str) -> Written:
    """What a row names by the text that `schema_name` made of it."""
    return Written(origin, UUID(name) if len(name) == GUID_DIGITS else int(name))


def header_of(frame: DataFrame, column: str) -> Column:
    """The header that names the schema of a frame's key or value; null without such a one.

    Headers are as Spark reads them, and the last of a name counts; or a map.
    """
    kind = frame.schema["headers"].dataType if "headers" in frame.columns else None
    headers, name = F.col("headers"), ID_HEADERS.get(column)
    if name is not None and isinstance(kind, MapType):
        return F.try_element_at(headers, F.lit(name))
    if name is not None and isinstance(kind, ArrayType):
        # No lambda: Spark interprets those, record by record.
        keys, values = (F.reverse(headers[it]) for it in ("key", "value"))
        return F.get(values, (F.array_position(keys, name) - 1).cast("int"))
    return F.lit(None).cast("binary")


def schema_name(column: str, header: Column) -> Column:
    """The schema that a value names, as text: an id, or the digits of a GUID; null for none."""
    content = F.col(column)
    is_guid = (F.length(header) >= GUID_HEAD) & F.hex(F.substring(header, 1, 1)).eqNullSafe("01")
    by_header = F.when(_has_id(header), _id(header)).when(
        is_guid, F.hex(F.substring(header, 2, GUID_HEAD - 1))
    )
    by_itself = F.when(_has_id(content), _id(content))
    name = F.when(header.isNull(), by_itself).otherwise(by_header)
    return F.when(content.isNotNull(), name)


def schema_number(name: Column) -> Column:
    """The id that a name is; null for a GUID."""
    # A GUID may have nothing but the digits of a number.
    return F.when(F.length(name) < GUID_DIGITS, name.cast("bigint"))


def payload(column: str, header: Column) -> Column:
    """What the schema describes: the bytes after its id, or the value if a header names the id.

    The index of the Protobuf message follows the id in a header, as it otherwise does in the value.
    """
    behind = F.when(_has_id(header), HEAD + 1).otherwise(GUID_HEAD + 1)
    by_header = F.concat(F.substr(header, behind), F.col(column))
    by_itself = F.substr(F.col(column), F.lit(HEAD + 1))
    return F.when(header.isNull(), by_itself).otherwise(by_header)


def names(written: Written, origin: Column, name: Column) -> Column:
    """Whether a value names this schema."""
    return (name == _text(written.schema)) & origin.eqNullSafe(F.lit(written.origin))


def schema_key(written: Written) -> str:
    """This schema as one text: the origin, a slash, and what `schema_name` makes of its id."""
    return f"{written.origin or ''}/{_text(written.schema)}"


def schema_of(config: Config, written: Written, source: str | None = None) -> Schema:
    """The schema, by the registry of where it came from, else of `source`, else of the hub.

    Raises RegistryError when there is no registry, or none such in it, or it is away.
    """
    place = place_of(config, source, None, written.origin)
    registry = open_registry(place.schemas)
    if registry is None:
        raise RegistryError(f"names schema {written.schema}: set {place.path}.registry")
    return registry.schema(written.schema)


def _has_id(content: Column) -> Column:
    return (F.length(content) >= HEAD) & F.hex(F.substring(content, 1, 1)).eqNullSafe("00")


def _id(content: Column) -> Column:
    return F.conv(F.hex(F.substring(content, 2, HEAD - 1)), 16, 10)


def _text(schema: SchemaId) -> str:
    return schema.hex.upper() if isinstance(schema, UUID) else str(schema)
