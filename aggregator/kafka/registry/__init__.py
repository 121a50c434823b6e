"""Finds the whole schema of an id in a cluster's schema registry."""

from aggregator.kafka.registry.client import Registry, open_registry
from aggregator.kafka.registry.placement import place_of, translated_topics
from aggregator.kafka.registry.wire_format import (
    ID_HEADERS,
    Schema,
    SchemaId,
    SchemaKind,
    framed,
    id_header,
)

__all__ = [
    "ID_HEADERS",
    "Registry",
    "Schema",
    "SchemaId",
    "SchemaKind",
    "framed",
    "id_header",
    "open_registry",
    "place_of",
    "translated_topics",
]
