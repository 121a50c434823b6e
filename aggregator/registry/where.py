"""Which registry knows the schema ids in a record."""

from __future__ import annotations

from typing import NamedTuple

from aggregator.config.schema import Config
from aggregator.config.schemas import SchemasConfig


class Place(NamedTuple):
    """A cluster's `schemas`, and where in the config they stand."""

    path: str
    schemas: SchemasConfig


def place_of(config: Config, source: str | None, topic: str, origin: str | None = None) -> Place:
    """The registry for a record of a topic at a source, or with None at the hub.

    Where ids are not translated, those in a hub record are of its source's registry: `origin` is
    where it came from. A source without a registry of its own shares the hub's.
    """
    if source is None and config.topics.rules_for(topic).schemas == "translate":
        origin = None
    alias = source if source is not None else origin
    if alias is not None and alias in config.sources:
        own = config.sources[alias].schemas
        if own.registry is not None:
            return Place(f"sources.{alias}.schemas", own)
    return Place("hub.schemas", config.hub.schemas)
