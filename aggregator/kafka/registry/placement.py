"""Which registry knows the schema ids in a record."""

from typing import NamedTuple

from aggregator.config.schema import Config
from aggregator.config.schemas import SchemasConfig
from aggregator.model.errors import RegistryError


class Place(NamedTuple):
    """A cluster's `schemas`, and where in the config they stand."""

    path: str
    schemas: SchemasConfig


def place_of(
    config: Config, source: str | None, topic: str | None, origin: str | None = None
) -> Place:
    """The registry for a record of a topic at a source, or with None at the hub.

    Where ids are not translated, those in a hub record are of its source's registry: `origin` is
    where it came from. With a `topic` of None the caller has looked whether they are. A source
    without a registry of its own shares the hub's. Raises RegistryError for a record of a source
    that the config does not have, where some have a registry of their own: another schema of that
    number would decode it into wrong values.
    """
    if source is None and topic is not None and is_translated(config, topic):
        origin = None
    alias = source if source is not None else origin
    if alias is not None and alias in config.sources:
        own = config.sources[alias].schemas
        if own.registry is not None:
            return Place(f"sources.{alias}.schemas", own)
    elif alias is not None and any(it.schemas.registry for it in config.sources.values()):
        raise RegistryError(
            f"came from {alias}, which is no source of this config: whose registry knows its "
            f"schemas is not known (add sources.{alias} with its schemas)"
        )
    return Place("hub.schemas", config.hub.schemas)


def is_translated(config: Config, hub_topic: str) -> bool:
    """Whether the schema ids in records of a hub topic are those of the hub's registry."""
    return config.topics.rules_for(hub_topic).schemas == "translate"


def translated_topics(config: Config) -> tuple[bool, frozenset[str]]:
    """Whether ids are translated by default, and the hub topics for which it is the other way."""
    topics = config.topics
    default = topics.schemas == "translate"
    names = {topics.renamed.get(name, name) for name in topics.overrides}
    return default, frozenset(it for it in names if is_translated(config, it) != default)
