"""A cluster's schema registry goes in; the schema of an id comes out, whole."""

from aggregator.registry.client import Registry, open_registry
from aggregator.registry.core import ID_HEADERS, Schema, SchemaId, SchemaKind, framed, id_header
from aggregator.registry.where import Place, place_of, translated_topics

__all__ = [
    "ID_HEADERS",
    "Place",
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
