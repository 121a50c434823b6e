"""The result of an import: a config for each hub, and what was not taken over, and why. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple

from aggregator.config.node import ALIAS_PATTERN
from aggregator.features.connectors.mirror_maker_source import Version
from aggregator.model.errors import Problem

COMMAND_LINE = "command line"
"""The file of what was given as an option."""

Path = tuple[str, ...]


class SettingPlace(NamedTuple):
    """Where a setting of the old tool stood."""

    file: str
    key: str

    def __str__(self) -> str:
        return self.key if self.file == COMMAND_LINE else f"{self.file}: {self.key}"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one file, or of a command line."""

    file: str
    values: Mapping[str, str]

    def where(self, key: str) -> SettingPlace:
        """The place of one of its keys."""
        return SettingPlace(self.file, key)


class Posted(NamedTuple):
    """A connector: its name and settings, and the worker and version where these are known.

    A `doubt` has to be decided.
    """

    name: str
    settings: Settings
    worker: Settings | None = None
    version: Version | None = None
    doubt: str = ""


class UnsupportedSetting(NamedTuple):
    """A setting that has no counterpart, and why. With `decide` something is lost without it.

    One that is `taken` over has something to be said about it all the same.
    """

    where: SettingPlace
    reason: str
    decide: bool = False
    taken: bool = False


class Shared(NamedTuple):
    """What a source says of the whole hub. Without `where` it relies on its tool's default."""

    alias: str
    value: Any
    where: SettingPlace | None


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the old tool has kept how far it has read a source, `alias` in our config.

    In a consumer `group` at the source; or in an offsets `topic` at the hub, under the name of a
    `connector` and the name `cluster` of the source. With a `refused` it cannot be taken over.
    """

    alias: str
    group: str = ""
    topic: str = ""
    connector: str = ""
    cluster: str = ""
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Imported:
    """The config of one hub in the form of the YAML, with secrets as they were found.

    `came` leads from a path in it to what it was made of.
    """

    target: str
    tool: str
    tree: Mapping[str, Any]
    notes: tuple[UnsupportedSetting, ...] = ()
    stored: tuple[Stored, ...] = ()
    came: Mapping[Path, SettingPlace] = field(default_factory=dict)


class Sketch:
    """A config under construction. Whatever is put into it is remembered with where it was."""

    def __init__(self, target: str, tool: str) -> None:
        self.target, self.tool = target, tool
        self.tree: dict[str, Any] = {}
        self.notes: list[UnsupportedSetting] = []
        self.problems: list[Problem] = []
        self.stored: list[Stored] = []
        self.came: dict[Path, SettingPlace] = {}
        self.shared: dict[Path, list[Shared]] = {}

    def share(self, path: Path, alias: str, value: Any, where: SettingPlace | None = None) -> None:
        """Remember what a source says of a value that all sources of a hub have in common.

        None as value is a default that is not known, or the absence of a setting.
        """
        self.shared.setdefault(path, []).append(Shared(alias, value, where))

    def put(self, path: Path, value: Any, where: SettingPlace) -> None:
        """Set a value; the names in `path` are keys of the YAML.

        An address is put as Java reads it: without protocols, and without empty parts.
        """
        if path[-1] == "bootstrap_servers" and isinstance(value, str):
            value = plain_address(value)
        at = self.tree
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = value
        self.came[path] = where

    def note(
        self, where: SettingPlace, reason: str, *, decide: bool = False, taken: bool = False
    ) -> None:
        """Say of a setting why it is not taken over, or what there is to say about it."""
        self.notes.append(UnsupportedSetting(where, reason, decide, taken))

    def done(self) -> Imported:
        """What it has become."""
        notes = tuple(dict.fromkeys(self.notes))
        return Imported(
            self.target, self.tool, self.tree, notes, tuple(self.stored), dict(self.came)
        )


def plain_address(address: str) -> str:
    """An address as Java reads it: without protocols, and without empty parts."""
    parts = (re.sub(r"^[0-9A-Za-z%._-]*://", "", it.strip()) for it in address.split(","))
    return ",".join(it for it in parts if it)


def alias_of(text: str, taken: Iterable[str] = ()) -> str:
    """A valid name of a source or an aggregation, like `text` and none of `taken`."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_") or "source"
    assert ALIAS_PATTERN.fullmatch(plain)
    return numbered(plain, taken)


def numbered(name: str, taken: Iterable[str], mark: str = "-") -> str:
    """The name, behind it `mark` and a number from 2 on where it is one of those `taken`."""
    used, found, number = set(taken), name, 1
    while found in used:
        number += 1
        found = f"{name}{mark}{number}"
    return found


def _alias_of_file(file: str) -> str:
    """A consumer file's name without the words that say what kind of file it is."""
    stem = PurePath(file).name.split(".")[0]
    return re.sub(r"[-_]?(consumers?|config|mirrormaker|mirror-maker)[-_]?", "", stem, flags=re.I)


def aliases_of(
    given: Sequence[str], consumers: Sequence[tuple[Settings, str]], known: Sequence[str]
) -> list[str]:
    """The alias of each source, by its settings and its address.

    It is the one that is `given`, or what its file is called after. Else one of those that are
    `known` from an earlier start, or the address: two calls of such a tool, one for each source,
    are not to give the same alias to two clusters.
    """
    said = [
        given[number] if number < len(given) and given[number] else _alias_of_file(settings.file)
        for number, (settings, _) in enumerate(consumers)
    ]
    named = {alias_of(it) for it in said if it}
    left = [alias for alias in known if alias not in named]
    aliases: list[str] = []
    for name, (_, address) in zip(said, consumers, strict=True):
        if not name and left:
            aliases.append(left.pop(0))
        else:
            aliases.append(alias_of(name or _named_after(address), aliases))
    return aliases


def _named_after(address: str) -> str:
    first = address.split(",")[0]
    # A variable for its secret must have a name that a shell accepts.
    return f"source-{first}" if first[:1].isdigit() else first


def is_true(value: str) -> bool:
    """Whether a Java tool takes the text for true."""
    return value.strip().lower() == "true"


def seconds_of(millis: str) -> str | None:
    """Milliseconds as a duration of our config, None for what is no number above 0."""
    text = millis.strip()
    if not text.isdigit() or int(text) == 0:
        return None
    whole = int(text)
    return f"{whole // 1000}s" if whole % 1000 == 0 else f"{whole}ms"
