"""Translates a connector's config into a source, in the form of the YAML. Pure.

Nothing is dropped silently: what has no effect is a note, and what would change the records and
is not understood is a problem.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aggregator.config.groups import AclSelection, GroupSelection
from aggregator.config.jaas import parse_jaas
from aggregator.config.keys import nearest
from aggregator.config.mask import MASK, hide_passwords, is_secret
from aggregator.config.node import ALIAS_PATTERN
from aggregator.config.overlay import read_value
from aggregator.config.schema import SourceConfig
from aggregator.config.schemas import SchemasConfig
from aggregator.features.connectors import config_keys as words
from aggregator.features.connectors.mirror_maker_source import ADDRESS, Mirrored, Version, mirrored
from aggregator.model.errors import Problem

REFERENCE = re.compile(r"\$\{[^}]*\}")
TYPO = 0.86
MOST_RULES = 10_000
"""Rules are read as YAML, which takes its time."""


@dataclass(frozen=True, slots=True)
class Translated:
    """`source` is what would stand at `sources.<alias>`; `notes` say what has no effect, by key.

    Those among `decide` have one that is lost; `unknown` are keys that do not exist. `keys`
    leads from a path in the source to the key of the connector that it is from.
    """

    source: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    decide: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()

    def key_of(self, path: str) -> str:
        """The key that a problem at this path below the source is about; "" if none is."""
        found = [it for it in self.keys if path == it or path.startswith((f"{it}.", f"{it}["))]
        return self.keys[max(found, key=len)] if found else ""


def translate(
    name: str,
    config: Mapping[str, str],
    *,
    kept: bool = True,
    version: Version | None = None,
) -> Translated:
    """A connector of this name as a source. `problems` has all that is wrong, each with its key.

    The values of the source itself are checked when the whole config is. One that is not `kept` as
    it is given may hold secrets. `version` is that of MirrorMaker 2, None where it is not known.
    """
    reading = _Reading(name, config)
    if class_of(config.get("connector.class", "")) == words.MIRROR_CLASS:
        reading.mirror = mirrored(config, version)
    reading.read(kept=kept)
    decide = frozenset(reading.mirror.decide if reading.mirror is not None else ())
    problems = tuple(reading.problems)
    unknown = frozenset(reading.unknown)
    return Translated(reading.source, reading.notes, decide, problems, reading.keys, unknown)


def literal_secrets(config: Mapping[str, str]) -> list[str]:
    """Keys whose value is or contains a literal secret, not a `${...}` reference.

    Such a config is not kept: it would be in a table, and in answers to anyone.
    """
    return [key for key, value in config.items() if _is_literal(key, value)]


def _is_literal(key: str, value: str) -> bool:
    if not is_secret(key):
        text = _without_references(value)
        return hide_passwords(text) != text
    texts = [value]
    if "jaas" in key.lower() and value != MASK:
        # A login line is no secret as a whole; what is none might hold one anywhere.
        with suppress(ValueError):
            options = parse_jaas(value).options
            texts = [text for name, text in options.items() if is_secret(name)]
    return any(_without_references(text).strip() for text in texts)


def _without_references(text: str) -> str:
    # What is not closed is left: at each of many it would be looked for up to the end.
    end = text.rfind("}") + 1
    return REFERENCE.sub("", text[:end]) + text[end:]


class _Reading:
    """One config under translation. Each key is taken once; a note names what is left."""

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        self.source: dict[str, Any] = {}
        self.notes: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.keys: dict[str, str] = {}
        self.unknown: set[str] = set()
        self.mirror: Mirrored | None = None
        self._name = name
        self._left = {key: value for key, value in config.items() if key != "name"}
        self._given_name = config.get("name", name)

    def read(self, *, kept: bool) -> None:
        self._check_name()
        self._check_class()
        if kept:
            self._check_secrets()
        self._check_meaning()
        if self.mirror is not None:
            self._take_mirrored(self.mirror)
        self._take_topics()
        self._take_names()
        self._take_address()
        self._take_tasks()
        self._take_settings()
        self._take_own()
        self._note_others()

    def _take(self, keys: Iterable[str]) -> dict[str, str]:
        """The value of these keys; an empty value is none."""
        found = {key: self._left.pop(key).strip() for key in keys if key in self._left}
        return {key: value for key, value in found.items() if value}

    def _take_first(self, keys: Iterable[str], path: str = "") -> str:
        """The value of the first of these keys that has one; the others have no effect."""
        found = self._take(keys)
        first = next(iter(found), "")
        self.notes |= {key: f"{first} is given" for key in found if key != first}
        if path and first:
            self.keys[path] = first
        return found.get(first, "")

    def _check_name(self) -> None:
        if self._given_name != self._name:
            words_ = f"is {self._given_name}, and the connector is called {self._name}"
            self.problems.append(Problem("name", words_, "give both the same name"))
        if not ALIAS_PATTERN.fullmatch(self._name):
            reason = f"'{self._name}' cannot be the alias of a source"
            self.problems.append(Problem("name", reason, "use letters, digits, '_' and '-'"))

    def _check_class(self) -> None:
        given = self._left.pop("connector.class", words.OWN_CLASS).strip()
        if class_of(given) is None:
            hint = f"connectors that are understood: {', '.join(words.CLASSES)}"
            reason = f"no connector is called {given}"
            self.problems.append(Problem("connector.class", reason, hint))

    def _check_secrets(self) -> None:
        for key in literal_secrets(self._left):
            hint = "give it as ${env:NAME}, ${file:PATH} or ${file:PATH:KEY}"
            self.problems.append(Problem(key, "holds a secret, and is kept as it is given", hint))

    def _check_meaning(self) -> None:
        for key, value in self._take(words.CONVERTERS).items():
            if value.rpartition(".")[2] != words.BYTES:
                reason = f"{value} would change records; they are copied as bytes"
                hint = f"org.apache.kafka.connect.converters.{words.BYTES}, or leave it out"
                self.problems.append(Problem(key, reason, hint))
        for key in list(self._left):
            for word, reason in words.REFUSED.items():
                if key == word or key.startswith(f"{word}."):
                    if self._left.pop(key).strip():
                        self.problems.append(Problem(key, reason, "leave it out"))
                    break

    def _take_mirrored(self, found: Mirrored) -> None:
        """Take what MirrorMaker 2 reads in a way of its own."""
        others = {*words.INCLUDE_NAMES, "topic.regex", "topics.regex", "topic.blacklist"}
        if not others & self._left.keys():
            self.source["topics"] = {"include": found.include, "exclude": found.exclude}
            if not found.exclude:
                del self.source["topics"]["exclude"]
        if found.rename is not None:
            self.source["rename"] = found.rename
        elif found.unknown_policy:
            reason = f"{found.unknown_policy} names topics in a way of its own"
            hint = "say in topics.rename what it does; here topics keep their names"
            self.problems.append(Problem(words.POLICY, reason, hint))
        if found.address:
            self.source["bootstrap_servers"] = found.address
        if found.start:
            self.source["start"] = found.start
        for part, settings in (("kafka", found.kafka), ("consumer", found.consumer)):
            for name, value in settings.items():
                if reason := _reason_without(name, value):
                    self.notes[found.keys[f"{part}.{name}"]] = reason
                else:
                    self.source.setdefault(part, {})[name] = value
        self.keys |= found.keys
        self.notes |= {**found.notes, **found.decide}
        for key in found.used:
            if "topics" in self.source or key not in words.INCLUDE_PATTERNS:
                self._left.pop(key, None)

    def _take_topics(self) -> None:
        if "topics" in self.source:
            if not self.source["topics"]["include"]:
                reason = "names no topic, so nothing is copied"
                self.problems.append(Problem("topics", reason, "such as topics=.*"))
            return
        names, patterns = self._take(words.INCLUDE_NAMES), self._take(words.INCLUDE_PATTERNS)
        include = [*_literal(names.values()), *patterns.values()]
        less, others = self._take(words.EXCLUDE_NAMES), self._take(words.EXCLUDE_PATTERNS)
        exclude = [*_literal(less.values()), *others.values()]
        if not include:
            reason, hint = "no topic is named", "give topic.whitelist, topic.regex or topics"
            self.problems.append(Problem("topic.whitelist", reason, hint))
        topics: dict[str, Any] = {"include": include}
        if exclude:
            topics["exclude"] = exclude
        self.source["topics"] = topics
        self.keys["topics.include"] = next(iter({**names, **patterns}), "topic.whitelist")
        self.keys["topics.exclude"] = next(iter({**less, **others}), "topic.blacklist")

    def _take_names(self) -> None:
        rename = self._take_first([words.RENAME], "rename")
        policy = self._take_first([words.POLICY]).rpartition(".")[2]
        separator = self._take_first([words.SEPARATOR]) or "."
        alias = self._take_first([words.ALIAS])
        if rename:
            self.source["rename"] = rename
        elif self.mirror is not None:
            return
        elif policy == words.DEFAULT_POLICY or (alias and not policy):
            self.source["rename"] = f"{alias or self._name}{separator}${{topic}}"
        elif policy == words.IDENTITY_POLICY:
            self.source["rename"] = "${topic}"
        elif policy:
            reason = f"{policy} names topics in a way of its own"
            hint = f"use {words.RENAME}, e.g. ${{topic}}.replica"
            self.problems.append(Problem(words.POLICY, reason, hint))

    def _take_address(self) -> None:
        address = self._take_first(words.ADDRESS, "bootstrap_servers")
        if address:
            self.source["bootstrap_servers"] = address
        elif "bootstrap_servers" not in self.source:
            reason, hint = "the address of the source is not given", "host:port, or several"
            self.problems.append(Problem(words.ADDRESS[0], reason, hint))

    def _take_tasks(self) -> None:
        value = self._take_first([words.TASKS], "tasks")
        if value and not re.fullmatch(r"0*[1-9][0-9]{0,8}", value):
            self.problems.append(Problem(words.TASKS, f"'{value}' is no number above 0"))
        elif value and int(value) > 1:
            self.source["tasks"] = int(value)

    def _take_settings(self) -> None:
        for part, prefixes in (("kafka", words.CLIENTS), ("consumer", words.CONSUMERS)):
            settings = self.source.get(part, {})
            for key in list(self._left):
                prefix = next((it for it in prefixes if key.startswith(it)), None)
                if prefix is None:
                    continue
                name, value = key.removeprefix(prefix), self._left.pop(key)
                if name == words.OFFSET_RESET:
                    self.source.setdefault("start", value.strip())
                    self.keys.setdefault("start", key)
                elif reason := _reason_without(name, value):
                    self.notes[key] = reason
                elif name == ADDRESS:
                    # Connectors have one of their own for consumers; a source has one for all.
                    self.notes[key] = f"{self.keys.get('bootstrap_servers', ADDRESS)} is given"
                else:
                    settings[name] = value
                    self.keys[f"{part}.{name}"] = key
            if settings:
                self.source[part] = settings

    def _take_own(self) -> None:
        for key in [it for it in self._left if it.startswith(words.OWN)]:
            name = key.removeprefix(words.OWN)
            value = self._left.pop(key)
            if name == "rename" and len(value) > MOST_RULES:
                self.problems.append(Problem(key, f"is longer than {MOST_RULES:,} characters"))
            elif name in OWN_KEYS:
                part, _, key_in_part = name.partition(".")
                into = self.source.setdefault(part, {}) if key_in_part else self.source
                # Rules are no text: they are given as JSON.
                into[key_in_part or name] = read_value(value) if name == "rename" else value
                self.keys[name] = key
            else:
                close = nearest(name, OWN_KEYS, TYPO)
                hint = f"did you mean {words.OWN}{close}?" if close else ""
                self.problems.append(Problem(key, "is no key of a source", hint))

    def _note_others(self) -> None:
        for key in self._left:
            why = words.no_effect(key)
            if not why:
                close = nearest(key, KNOWN, TYPO)
                why = "is not known" + (f"; did you mean {close}?" if close else "")
                self.unknown.add(key)
            self.notes[key] = why


OWN_KEYS = (
    *(
        it
        for it in SourceConfig.model_fields
        if it not in ("topics", "groups", "acls", "schemas", "kafka", "consumer")
    ),
    *(f"groups.{it}" for it in GroupSelection.model_fields),
    *(f"acls.{it}" for it in AclSelection.model_fields),
    *(f"schemas.{it}" for it in SchemasConfig.model_fields),
)
"""Keys of a source that can be given as one value."""
WITHOUT: Mapping[str, str] = {
    "group.id": "no consumer group is used",
    "enable.auto.commit": "positions are in the checkpoint",
    "key.deserializer": "records are copied as bytes",
    "value.deserializer": "records are copied as bytes",
    "security.providers": "not used",
}
"""Settings of consumers that people give and that have no place here."""
KNOWN = (
    *words.ADDRESS,
    *words.INCLUDE_NAMES,
    *words.INCLUDE_PATTERNS,
    *words.EXCLUDE_NAMES,
    *words.EXCLUDE_PATTERNS,
    *words.CONVERTERS,
    *(words.RENAME, words.TASKS, words.POLICY, words.SEPARATOR, words.ALIAS, "connector.class"),
)


def _reason_without(name: str, value: str) -> str:
    """Why a setting of a client has no place here; "" when it has one."""
    return WITHOUT.get(name, "") or words.of_confluent(name, value)


def class_of(given: str) -> str | None:
    """The whole name of a connector's class, which may be given without its package."""
    if given in words.CLASSES:
        return given
    short = {name.rpartition(".")[2]: name for name in words.CLASSES}
    return short.get(given.rpartition(".")[2])


def _literal(values: Iterable[str]) -> list[str]:
    """Names of topics, comma separated, as patterns that mean nothing but them."""
    names = [name.strip() for value in values for name in value.split(",")]
    return [name.replace(".", "[.]") for name in names if name]
