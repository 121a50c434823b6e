"""Which schemas the values of a frame name, and the schemas themselves, by their registries."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from aggregator.config.schema import Config
from aggregator.errors import RegistryError
from aggregator.registry import Schema, open_registry, place_of

HEAD = 5
"""Bytes before the payload in Confluent's wire format: a zero, and the schema's id."""


class Written(NamedTuple):
    """A schema that values of a frame name: by the registry of which cluster, under which id."""

    origin: str | None
    number: int


def schema_number(column: str) -> Column:
    """The schema's id of a value in the wire format, else null."""
    head = F.expr(f"hex(substring({column}, 1, {HEAD}))")
    is_framed = F.expr(f"length({column}) >= {HEAD}") & head.startswith("00")
    return F.when(is_framed, F.conv(F.substring(head, 3, 8), 16, 10).cast("bigint"))


def payload(column: str) -> Column:
    """What stands behind the schema's id."""
    return F.expr(f"substring({column}, {HEAD + 1})")


def names(written: Written, origin: Column, number: Column) -> Column:
    """Whether a value names this schema."""
    return (number == written.number) & origin.eqNullSafe(F.lit(written.origin))


def schema_of(config: Config, written: Written, source: str | None = None) -> Schema:
    """The schema, by the registry of where it came from, else of `source`, else of the hub.

    Raises RegistryError when there is no registry, or none such in it, or it is away.
    """
    place = place_of(config, source, None, written.origin)
    registry = open_registry(place.schemas)
    if registry is None:
        raise RegistryError(f"names schema {written.number}: set {place.path}.registry")
    return registry.schema(written.number)
