"""Whether the schema ids of hub records mean what those at their sources do, by the registries."""

from uuid import UUID

from aggregator.config.schema import Config
from aggregator.kafka.registry import Registry, SchemaId, open_registry
from aggregator.kafka.registry.client import NOT_FOUND
from aggregator.kafka.registry.differences import differences
from aggregator.model.errors import RegistryError

MOST_ASKED = 1_000
"""At most as many pairs of ids are asked for in one verification: a topic has some, and a great
number only where its content is no wire format."""


class SchemaPairs:
    """Asks the registries of a config. For one thread; each answer is kept."""

    def __init__(self, config: Config) -> None:
        self._hub = open_registry(config.hub.schemas)
        self._sources = {
            alias: open_registry(source.schemas) for alias, source in config.sources.items()
        }
        self._known: dict[tuple[str, str, str], bool | None] = {}

    def same(self, alias: str, theirs: str, ours: str) -> bool | None:
        """Whether the ids of a key and a value (hex, with a slash between) mean the same schemas.

        None when a registry does not answer. An id that the hub's registry does not know means
        nothing to a reader there, so it is not the same.
        """
        pair = (alias, theirs, ours)
        if pair not in self._known:
            source, hub = self._sources.get(alias), self._hub
            if source is None or hub is None or len(self._known) >= MOST_ASKED:
                return None
            sides = zip(theirs.split("/"), ours.split("/"), strict=False)
            answers = [_same(source, hub, a, b) for a, b in sides if a and b]
            self._known[pair] = False if False in answers else None if None in answers else True
        return self._known[pair]


def _same(source: Registry, hub: Registry, theirs: str, ours: str) -> bool | None:
    try:
        meant = source.schema(schema_id(theirs))
    except RegistryError:
        return None
    try:
        found = hub.schema(schema_id(ours))
    except RegistryError as error:
        return False if error.code == NOT_FOUND else None
    return not differences((meant.kind, found.kind), (meant.text, found.text))


def schema_id(text: str) -> SchemaId:
    """The id or GUID in these bytes, in hex, as the wire format and its headers have it."""
    content = bytes.fromhex(text)
    return UUID(bytes=content[1:]) if content[0] else int.from_bytes(content[1:], "big")
