"""Finds the hub's id of a schema, in the registries of a source and of the hub."""

from typing import NamedTuple
from uuid import UUID

from aggregator.config.schemas import SchemasConfig
from aggregator.features.schemas.subjects import (
    Named,
    NoSchema,
    Question,
    plan_source_subject,
    plan_subject,
    refusal,
)
from aggregator.kafka.registry import Registry, open_registry
from aggregator.kafka.registry.copying import (
    Definition,
    Owed,
    Subjects,
    copy_schema,
    read_definition,
    settle,
)
from aggregator.model.errors import RegistryError
from aggregator.model.values import Route


class CopiedSchema(NamedTuple):
    """A schema as the source's registry has it, and the hub's under this id."""

    definition: Definition
    number: int
    at_hub: Definition


class SchemaAnswer(NamedTuple):
    """An answer, and its basis: nothing where it cannot become wrong."""

    answer: Named | NoSchema
    copied: CopiedSchema | None = None
    owed: tuple[Owed, ...] = ()


class Registries(NamedTuple):
    """The settings of a source's registry and of the hub's: answers are worth something by both.

    RegistryError of each method: one of the two does not say, or the hub's refuses a schema.
    """

    alias: str
    source: SchemasConfig
    hub: SchemasConfig

    def answer(self, route: Route | None, asked: Question) -> SchemaAnswer:
        """What an id is at the hub, registered there if need be; or that there is none."""
        source = _opened(self.source, f"sources.{self.alias}")
        definition = read_definition(source, asked.schema)
        if definition is None:
            return SchemaAnswer(refusal(asked.schema))
        if route is None:
            raise RegistryError(f"topics.schemas is pass for {asked.topic} by now")
        if route.schemas == "check":
            return SchemaAnswer(asked.schema)
        hub = _opened(self.hub, "hub")
        copied = copy_schema(
            source,
            hub,
            asked.schema,
            definition,
            lambda found: Subjects(
                plan_source_subject(found, route.topic, asked.side),
                plan_subject(found, route.topic, route.hub_topic, asked.side),
            ),
        )
        at_hub = read_definition(hub, copied.number)
        if at_hub is None:
            raise RegistryError(f"{hub.url} has no schema {copied.number}, which it has just given")
        answer: Named = copied.number
        # A registry without GUIDs has ids, and a header may hold one of these just as well.
        if isinstance(asked.schema, UUID) and copied.guid is not None:
            answer = copied.guid
        return SchemaAnswer(answer, CopiedSchema(definition, copied.number, at_hub), copied.owed)

    def holds(self, asked: Question, copied: CopiedSchema) -> bool:
        """Whether both registries still give the basis of an answer.

        A source's registry that has the id no more leaves the answer what it was.
        """
        source = _opened(self.source, f"sources.{self.alias}")
        if read_definition(source, asked.schema) not in (None, copied.definition):
            return False
        return read_definition(_opened(self.hub, "hub"), copied.number) == copied.at_hub

    def settle(self, owed: Owed) -> Owed | None:
        """Set what a subject of the hub is owed; returns what still is."""
        return settle(_opened(self.hub, "hub"), owed)


def _opened(settings: SchemasConfig, path: str) -> Registry:
    registry = open_registry(settings)
    if registry is None:
        raise RegistryError(f"{path}.schemas.registry is not set any more")
    return registry
