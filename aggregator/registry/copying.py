"""Takes a schema from one registry to another: with what it refers to, and how it may change.

Registering a schema that is there already changes nothing and gives its id, so all of it may be
done again after a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from aggregator.errors import RegistryError
from aggregator.registry.client import Registry

NOT_FOUND = 404
MOST_DEEP = 20


class Reference(NamedTuple):
    """How a schema names another one: by a version of a subject."""

    name: str
    subject: str
    version: int


class Definition(NamedTuple):
    """A schema as it is registered, without what it refers to."""

    kind: str
    text: str
    references: tuple[Reference, ...]


def read_definition(source: Registry, number: int) -> Definition | None:
    """The schema with an id; None when there is none. RegistryError when it is not told."""
    try:
        return _definition(_object(source.call("GET", f"/schemas/ids/{number}")))
    except RegistryError as error:
        if error.code != NOT_FOUND:
            raise
        return None


def copy_schema(
    source: Registry,
    hub: Registry,
    number: int,
    definition: Definition,
    choose: Callable[[Collection[str]], str],
) -> int:
    """Register the schema with this id of `source` at `hub`; returns its id there.

    `choose` is given the subjects that it has at the source, and tells that of the hub. Subjects
    that it refers to keep their names. A subject that is new at the hub gets the compatibility
    setting of the source. RegistryError as the two registries refuse or do not answer.
    """
    subjects = _subjects(source, number)
    subject = choose(subjects)
    _copy_references(source, hub, definition, 0)
    level = next((it for each in subjects if (it := _level(source, each))), None)
    return _register(hub, subject, definition, level)


def _definition(told: Mapping[str, Any]) -> Definition:
    references = tuple(
        Reference(str(it["name"]), str(it["subject"]), int(it["version"]))
        for it in told.get("references") or ()
    )
    return Definition(str(told.get("schemaType") or "AVRO"), str(told["schema"]), references)


def _subjects(registry: Registry, number: int) -> tuple[str, ...]:
    try:
        found = registry.call("GET", f"/schemas/ids/{number}/versions")
    except RegistryError as error:
        if error.code != NOT_FOUND:
            raise
        return ()
    return tuple(dict.fromkeys(str(it["subject"]) for it in found))


def _copy_references(source: Registry, hub: Registry, own: Definition, deep: int) -> None:
    """Register what a schema refers to, the deepest first, in versions that may differ."""
    if deep > MOST_DEEP:
        raise RegistryError(f"{source.url}: schemas refer to each other, or deeper than is read")
    for reference in own.references:
        path = f"{_path(reference.subject)}/versions/{reference.version}"
        referred = _definition(_object(source.call("GET", path)))
        _copy_references(source, hub, referred, deep + 1)
        _register(hub, reference.subject, referred, _level(source, reference.subject))


def _register(hub: Registry, subject: str, own: Definition, level: str | None) -> int:
    body = {
        "schemaType": own.kind,
        "schema": own.text,
        "references": [_at_hub(hub, it)._asdict() for it in own.references],
    }
    is_new = not _exists(hub, subject)
    found = _object(hub.call("POST", f"{_path(subject)}/versions", body))
    if is_new and level is not None:
        hub.call("PUT", f"/config/{quote(subject, safe='')}", {"compatibility": level})
    return int(found["id"])


def _exists(hub: Registry, subject: str) -> bool:
    try:
        hub.call("GET", f"{_path(subject)}/versions")
    except RegistryError as error:
        if error.code != NOT_FOUND:
            raise
        return False
    return True


def _at_hub(hub: Registry, reference: Reference) -> Reference:
    """The same, in the version that the hub has: they are registered in another order there."""
    found = hub.call("GET", f"{_path(reference.subject)}/versions/latest")
    return reference._replace(version=int(_object(found)["version"]))


def _level(registry: Registry, subject: str) -> str | None:
    """The compatibility setting that a subject has of its own."""
    path = f"/config/{quote(subject, safe='')}?defaultToGlobal=false"
    try:
        told = _object(registry.call("GET", path))
    except RegistryError as error:
        if error.away:
            raise
        return None
    level = told.get("compatibilityLevel") or told.get("compatibility")
    return str(level) if level else None


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _object(told: Any) -> Mapping[str, Any]:
    if not isinstance(told, dict):
        raise RegistryError(f"a schema registry answers with no object: {str(told)[:200]}")
    return told
