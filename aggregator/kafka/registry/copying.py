"""Copies a schema from one registry to another, with its references and compatibility.

Registering a schema that is there already changes nothing and gives its id, so all of it may be
done again after a failure.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote
from uuid import UUID

from aggregator.kafka.registry.client import MOST_DEEP, NOT_FOUND, Registry, kind_of
from aggregator.kafka.registry.contexts import unqualified
from aggregator.kafka.registry.differences import differences, in_words
from aggregator.kafka.registry.wire_format import SchemaId
from aggregator.model.errors import RegistryError

CONFLICT = 409
Found = TypeVar("Found")


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

    def body(self) -> dict[str, Any]:
        """The same as a registry takes it."""
        references = [it._asdict() for it in self.references]
        return {"schemaType": self.kind, "schema": self.text, "references": references}


class Subjects(NamedTuple):
    """The subject of a schema at its source, if that is known, and at the hub."""

    source: str | None
    hub: str


class Owed(NamedTuple):
    """A compatibility setting that a new subject did not get, and why.

    `default` is what the registry says of a subject without one, where it does not say that.
    """

    subject: str
    level: str
    why: str
    default: str | None = None


class Registered(NamedTuple):
    """What a schema is called at a registry: by number, and by GUID where it has such.

    `owed` are settings that it was registered without.
    """

    number: int
    guid: UUID | None = None
    owed: tuple[Owed, ...] = ()


def read_definition(source: Registry, schema: SchemaId) -> Definition | None:
    """The schema with an id or a GUID; None when there is none. RegistryError without an answer."""
    return _if_there(lambda: _definition(source.definition(schema)))


def copy_schema(
    source: Registry,
    hub: Registry,
    schema: SchemaId,
    definition: Definition,
    choose: Callable[[Collection[str]], Subjects],
) -> Registered:
    """Register the schema with this id of `source` at `hub`; returns what it is called there.

    `choose` gets its subjects at the source, and returns which of them is meant, and that of the
    hub. Subjects that it refers to keep their names, without a context. A subject that is new at
    the hub gets the compatibility setting of the one at the source; where the hub refuses that, it
    is `owed`.

    RegistryError as the two registries refuse or do not answer; of a schema that does not fit those
    of the hub, with the fields that differ.
    """
    subjects = choose(_subjects(source, schema))
    copy = _Copy(source, hub)
    own = copy.with_references(definition, 0)
    level = None if subjects.source is None else _level(source, subjects.source)
    found = copy.register(subjects.hub, own, level, wants_guid=isinstance(schema, UUID))
    return found._replace(owed=tuple(copy.owed))


def settle(hub: Registry, owed: Owed) -> Owed | None:
    """Set what a subject is owed, unless it has a setting by now; returns what is still owed."""
    try:
        has_one = _level(hub, owed.subject) not in (None, owed.default)
    except RegistryError as error:
        return owed._replace(why=str(error))
    return None if has_one else _set(hub, owed)


def newest(registry: Registry, subject: str) -> Mapping[str, Any] | None:
    """A registry's entry of the newest version of a subject; None where there is none."""
    return _if_there(lambda: _object(registry.call("GET", f"{_path(subject)}/versions/latest")))


def would_fit(hub: Registry, subject: str, kind: str, text: str) -> bool | None:
    """Whether a registry would take a schema as a new version; None when it does not say.

    It changes nothing there. `text` is whole: it refers to no other schema.
    """
    path = f"/compatibility{_path(subject)}/versions/latest"
    try:
        answer = hub.call("POST", path, {"schemaType": kind, "schema": text})
    except RegistryError as error:
        if error.away:
            raise
        return None
    found = _object(answer).get("is_compatible")
    return found if isinstance(found, bool) else None


def _definition(entry: Mapping[str, Any]) -> Definition:
    references = tuple(
        Reference(str(it["name"]), str(it["subject"]), int(it["version"]))
        for it in entry.get("references") or ()
    )
    return Definition(str(kind_of(entry)), str(entry["schema"]), references)


def _subjects(registry: Registry, schema: SchemaId) -> tuple[str, ...]:
    """Its subjects, as the registry names them: Confluent's with their context."""
    try:
        asked = f"/schemas/ids/{schema}/versions"
        if isinstance(schema, UUID):
            known = registry.call("GET", f"/schemas/guids/{schema}/ids")
            if not known:
                return ()
            # Each context has numbers of its own.
            one = next((it for it in known if it.get("context") == registry.context), known[0])
            context = one.get("context") or registry.context
            other = "" if context == registry.context else f"?subject={quote(f':{context}:')}"
            asked = f"/schemas/ids/{one['id']}/versions{other}"
        found = registry.call("GET", asked)
    except RegistryError as error:
        if error.code != NOT_FOUND:
            raise
        return ()
    return tuple(dict.fromkeys(str(it["subject"]) for it in found))


class _Copy:
    """One schema on its way, and the settings that its subjects are owed."""

    def __init__(self, source: Registry, hub: Registry) -> None:
        self.owed: list[Owed] = []
        self._source = source
        self._hub = hub

    def with_references(self, own: Definition, deep: int) -> Definition:
        """The same with all that it refers to registered, in the versions that these have there."""
        source, hub = self._source, self._hub
        if deep > MOST_DEEP:
            raise RegistryError(
                f"{source.url}: schemas refer to each other, or deeper than is read"
            )
        found = []
        for reference in own.references:
            path = f"{_path(reference.subject)}/versions/{reference.version}"
            definition = _definition(_object(source.call("GET", path)))
            referred = self.with_references(definition, deep + 1)
            subject = unqualified(reference.subject)
            self.register(subject, referred, _level(source, reference.subject))
            # Not the newest one: the hub may have later versions than the one that is meant.
            there = _object(hub.call("POST", _path(subject), referred.body()))
            found.append(reference._replace(subject=subject, version=int(there["version"])))
        return own._replace(references=tuple(found))

    def register(
        self, subject: str, own: Definition, level: str | None, *, wants_guid: bool = False
    ) -> Registered:
        hub = self._hub
        still: Owed | None = None
        versions = f"{_path(subject)}/versions"
        if level is not None and _if_there(lambda: hub.call("GET", versions)) is None:
            # Before the schema: killed in between, the next try finds no subject that is new.
            still = _set(hub, Owed(subject, level, ""))
        try:
            found = _object(hub.call("POST", versions, own.body()))
        except RegistryError as error:
            if error.code != CONFLICT:
                raise
            raise _conflict(hub, subject, own, error) from error
        if still is not None and (still := _set(hub, still)) is not None:
            # A registry may take settings only of subjects that it has.
            self.owed.append(still._replace(default=_default(hub, subject)))
        guid = found.get("guid")
        if wants_guid and guid is None:
            guid = _object(hub.call("POST", _path(subject), own.body())).get("guid")
        return Registered(int(found["id"]), UUID(str(guid)) if guid else None)


def _default(hub: Registry, subject: str) -> str | None:
    try:
        return _level(hub, subject)
    except RegistryError:
        # Not known: whatever level is read later counts as the subject's own.
        return None


def _set(hub: Registry, owed: Owed) -> Owed | None:
    try:
        hub.call("PUT", _config(owed.subject), {"compatibility": owed.level})
    except RegistryError as error:
        return owed._replace(why=str(error))
    return None


def _conflict(hub: Registry, subject: str, own: Definition, why: RegistryError) -> RegistryError:
    """A refusal as incompatible, with the fields that differ from the newest version."""
    words = f"{hub.url} refuses it as incompatible under {subject}"
    try:
        if (there := newest(hub, subject)) is not None:
            kinds = (str(kind_of(there)), own.kind)
            ours = {"schema": own.text, "references": [it._asdict() for it in own.references]}
            texts = (hub.whole(there), hub.whole({**ours, "schemaType": own.kind}))
            if found := differences(kinds, texts):
                words += f", whose version {there['version']} differs: "
                words += in_words(found, "at the hub", "at the source")
    except RegistryError:
        words = str(why)
    return RegistryError(words, code=CONFLICT, detail=why.detail)


def _if_there(ask: Callable[[], Found]) -> Found | None:
    """What a registry has; None where it says that there is no such thing."""
    try:
        return ask()
    except RegistryError as error:
        if error.code != NOT_FOUND:
            raise
        return None


def _level(registry: Registry, subject: str) -> str | None:
    """The compatibility setting that a subject has of its own."""
    try:
        answer = _object(registry.call("GET", f"{_config(subject)}?defaultToGlobal=false"))
    except RegistryError as error:
        if error.away:
            raise
        return None
    level = answer.get("compatibilityLevel") or answer.get("compatibility")
    return str(level) if level else None


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"


def _config(subject: str) -> str:
    return f"/config/{quote(subject, safe='')}"


def _object(answer: Any) -> Mapping[str, Any]:
    if not isinstance(answer, dict):
        raise RegistryError(f"a schema registry answers with no object: {str(answer)[:200]}")
    return answer
