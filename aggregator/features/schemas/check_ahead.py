"""Checks before a run the schemas that would meet at the hub. It changes nothing anywhere."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.config.schema import Config
from aggregator.features.schemas.conflicts import (
    AT_HUB,
    Conflict,
    SeenSchema,
    SubjectPair,
    plan_conflicts,
    plan_wanted,
)
from aggregator.kafka.admin.parallel import ask_all
from aggregator.kafka.registry import Registry, open_registry
from aggregator.kafka.registry.client import kind_of
from aggregator.kafka.registry.copying import newest, would_fit
from aggregator.model.errors import RegistryError
from aggregator.model.values import Route

LOOK_SECONDS = 10.0
"""For all sources at once, and then for the hub: the longest wait for a registry."""


@dataclass(frozen=True, slots=True)
class SchemasAhead:
    """What does not fit together; and why a registry's part of it is not known, by its place.

    `new` are subjects that the hub's registry does not have: nothing was translated by them yet.
    """

    conflicts: tuple[Conflict, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    new: tuple[SubjectPair, ...] = ()


def translated(routes: Iterable[Route]) -> dict[str, list[Route]]:
    """The routes whose schemas are registered at the hub, by source."""
    found: dict[str, list[Route]] = {}
    for route in routes:
        if route.schemas == "translate":
            found.setdefault(route.cluster, []).append(route)
    return found


def look_at_schemas(
    config: Config, routes: Iterable[Route], seconds: float = LOOK_SECONDS
) -> SchemasAhead:
    """Compare the newest schemas of the sources with each other and with those of the hub.

    A registry that does not answer costs no more than `seconds`, and its part is not known.
    """
    found: list[SeenSchema] = []

    def source(alias: str, own: list[Route]) -> Callable[[], None]:
        return lambda: _read(open_registry(config.sources[alias].schemas), alias, own, found)

    jobs = {alias: source(alias, own) for alias, own in translated(routes).items()}
    failed = ask_all(jobs, seconds).failed
    read = tuple(found)
    at_hub: dict[str, SeenSchema] = {}
    fits: dict[SeenSchema, bool | None] = {}
    if read:
        hub = open_registry(config.hub.schemas)
        failed |= ask_all({AT_HUB: lambda: _compare(hub, read, at_hub, fits)}, seconds).failed
    unknown = {place: str(error) for place, error in failed.items()}
    known = AT_HUB not in unknown
    new = {it.wanted for it in read if known and it.wanted.hub_subject not in at_hub}
    return SchemasAhead(plan_conflicts(dict(at_hub), read, dict(fits)), unknown, tuple(sorted(new)))


def _read(
    registry: Registry | None, alias: str, routes: list[Route], found: list[SeenSchema]
) -> None:
    """Add what a source has; what was read before a failure stays."""
    if registry is None:
        raise RegistryError(f"sources.{alias}.schemas.registry is not set")
    subjects = registry.subjects()
    for route in routes:
        for wanted in plan_wanted(subjects, route.topic, route.hub_topic):
            if (one := _found(registry, alias, wanted.subject, wanted)) is not None:
                found.append(one)


def _compare(
    hub: Registry | None,
    read: Iterable[SeenSchema],
    at_hub: dict[str, SeenSchema],
    fits: dict[SeenSchema, bool | None],
) -> None:
    """What the hub has of the same subjects, and whether it would take these."""
    if hub is None:
        raise RegistryError("hub.schemas.registry is not set")
    for each in read:
        subject = each.wanted.hub_subject
        if subject not in at_hub:
            there = _found(hub, AT_HUB, subject, each.wanted._replace(subject=subject))
            if there is None:
                continue
            at_hub[subject] = there
        fits[each] = would_fit(hub, subject, each.kind, each.text)


def _found(registry: Registry, place: str, subject: str, wanted: SubjectPair) -> SeenSchema | None:
    answer = newest(registry, subject)
    if answer is None:
        return None
    kind = str(kind_of(answer))
    return SeenSchema(place, int(answer["version"]), wanted, kind, registry.whole(answer))
