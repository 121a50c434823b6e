"""A cluster's schema registry goes in; the schema of an id comes out, whole. Only reads."""

from aggregator.registry.client import Registry, open_registry
from aggregator.registry.core import Schema, SchemaKind, framed
from aggregator.registry.where import Place, place_of

__all__ = ["Place", "Registry", "Schema", "SchemaKind", "framed", "open_registry", "place_of"]
