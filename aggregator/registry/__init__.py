"""A cluster's schema registry goes in; the schema of an id comes out, whole."""

from aggregator.registry.client import Registry, open_registry
from aggregator.registry.core import Schema, SchemaKind, framed
from aggregator.registry.where import Place, place_of, translated_topics

__all__ = [
    "Place",
    "Registry",
    "Schema",
    "SchemaKind",
    "framed",
    "open_registry",
    "place_of",
    "translated_topics",
]
