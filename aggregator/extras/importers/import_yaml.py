"""The YAML of an import: secrets become references, and it loads without a problem. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from aggregator.config.jaas import parse_jaas
from aggregator.config.load import load_text
from aggregator.config.mask import hide_passwords, is_secret
from aggregator.config.references import escape, refers
from aggregator.config.render import dump
from aggregator.extras.importers.configs import (
    Imported,
    Path,
    SettingPlace,
    Stored,
    UnsupportedSetting,
    numbered,
)
from aggregator.extras.importers.mirror_maker_1_keys import CONNECTION
from aggregator.model.errors import ConfigError, Problem

DOC = "docs/coming-from-mirrormaker.md"
REFERENCE = re.compile(r"\$\{(?:env|file):[^}]*\}")
FOREIGN = re.compile(r"\$\{[A-Za-z][\w-]*:[^}]*\}")
"""A reference to a provider of secrets that is not known here."""
TEMPLATE = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")
"""What envsubst fills in. No tool of Kafka does: to them it would be the text itself."""
STAND_IN = "x"
NEEDED = frozenset({("hub", "bootstrap_servers")})
ROUNDS = 50


class Secrets(StrEnum):
    """What becomes of the secrets of the old files."""

    ENV = "env"
    FILE = "file"
    CLEAR = "clear"


class Secret(NamedTuple):
    """A value that the config refers to: to be set in the environment variable `name`."""

    name: str
    where: SettingPlace


@dataclass(frozen=True, slots=True)
class Finished:
    """A config as YAML, and all notes about it. `tree` is the parsed `text`."""

    name: str
    target: str
    tool: str
    text: str
    tree: Mapping[str, Any]
    notes: tuple[UnsupportedSetting, ...]
    secrets: tuple[Secret, ...]
    stored: tuple[Stored, ...]


Readable = Callable[[SettingPlace, str], str]
"""A reference to the place of a secret by which it is read back as it is, "" if there is none."""


def no_file(_where: SettingPlace, _value: str) -> str:
    """No secret can be read from where it was found."""
    return ""


def finish(
    found: Imported, secrets: Secrets = Secrets.ENV, readable: Readable = no_file
) -> Finished:
    """The YAML of an import, which loads as soon as its secrets are set.

    What our config refuses goes out of it with a note. ConfigError when that is not possible.
    """
    hiding = _Hiding(found.came, secrets, readable)
    tree = {name: hiding.hide(item, (name,)) for name, item in found.tree.items()}
    more = _fit(tree, found.came, hiding)
    notes = tuple(sorted(dict.fromkeys((*found.notes, *more)), key=lambda it: not it.decide))
    done = Finished(
        str(tree["name"]),
        found.target,
        found.tool,
        "",
        _ordered(tree),
        notes,
        tuple(hiding.found),
        found.stored,
    )
    return replace(done, text=_comments(done) + dump(done.tree))


class _Hiding:
    """Puts references in the place of secrets, and knows which."""

    def __init__(
        self, came: Mapping[Path, SettingPlace], secrets: Secrets, readable: Readable
    ) -> None:
        self.found: list[Secret] = []
        self._came, self._secrets, self._readable = came, secrets, readable

    def hide(self, item: Any, path: Path) -> Any:
        if isinstance(item, dict):
            return {name: self.hide(value, (*path, str(name))) for name, value in item.items()}
        if isinstance(item, list):
            return [self.hide(value, path) for value in item]
        return self._text(item, path) if isinstance(item, str) else item

    def refer(self, path: Path, end: str = "") -> str:
        """A reference to an environment variable for the value at a path."""
        name = numbered(_variable(path, end), (secret.name for secret in self.found), "_")
        self.found.append(Secret(name, self._came.get(path, SettingPlace("", ".".join(path)))))
        return f"${{env:{name}}}"

    def _text(self, text: str, path: Path) -> str:
        name = path[-1]
        text = TEMPLATE.sub(lambda it: self._of_template(it.group(1), path), text)
        if FOREIGN.search(REFERENCE.sub("", text)):
            known = len(self.found)
            line = self._login(text, path) if "jaas" in name.lower() else ""
            if line and not FOREIGN.search(REFERENCE.sub("", line)):
                return line
            del self.found[known:]
            return self.refer(path)
        secret = bool(text.strip()) and is_secret(name)
        url = hide_passwords(REFERENCE.sub("", text)) != REFERENCE.sub("", text)
        if not (secret or url) or REFERENCE.fullmatch(text) or self._secrets is Secrets.CLEAR:
            return _escaped(text, ".".join(path))
        if self._secrets is Secrets.FILE:
            where = self._came.get(path)
            if where is not None and (reference := self._readable(where, text)):
                return reference
        if "jaas" in name.lower() and (line := self._login(text, path)):
            return line
        return self.refer(path)

    def _of_template(self, name: str, path: Path) -> str:
        """A reference for `${NAME}`, which something like envsubst was to fill in."""
        if name not in {secret.name for secret in self.found}:
            self.found.append(Secret(name, self._came.get(path, SettingPlace("", ".".join(path)))))
        return f"${{env:{name}}}"

    def _login(self, text: str, path: Path) -> str:
        """A login line with references in the place of its secrets; "" if it is none."""
        with suppress(ValueError):
            for option, value in parse_jaas(text).options.items():
                if is_secret(option) and not REFERENCE.fullmatch(value):
                    reference = self.refer(path, option)
                    at = re.compile(rf"(\b{re.escape(option)}\s*=\s*)" + _VALUE)
                    text = at.sub(lambda it, ref=reference: f'{it.group(1)}"{ref}"', text)  # type: ignore[misc]
            return text
        return ""


_VALUE = r"(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s;\"']+)"


def _escaped(text: str, path: str) -> str:
    """The text with its references, and any other `${` as what it is."""
    parts = REFERENCE.split(text)
    references = [*REFERENCE.findall(text), ""]
    return "".join(
        escape(part, path) + reference for part, reference in zip(parts, references, strict=True)
    )


def _variable(path: Path, end: str) -> str:
    """`sources.eu.kafka.ssl.key.password` is EU_SSL_KEY_PASSWORD."""
    names = [it for it in path if it not in ("sources", "kafka")]
    plain = re.sub(r"[^A-Za-z0-9]+", "_", "_".join((*names, *([end] if end else [])))).upper()
    plain = plain.replace("_JAAS_CONFIG_", "_JAAS_")
    return f"_{plain}" if plain[0].isdigit() else plain


def _fit(
    tree: dict[str, Any], came: Mapping[Path, SettingPlace], hiding: _Hiding
) -> list[UnsupportedSetting]:
    """Take out of the tree what our config refuses; returns a note for each.

    ConfigError with what has to be there and is wrong.
    """
    notes: list[UnsupportedSetting] = []
    for _ in range(ROUNDS):
        problems = [it for it in _problems(tree) if not refers(_at(tree, it.path), it.path)]
        if not problems:
            return notes
        changed = False
        for problem in problems:
            path = next((it for it in _paths(tree) if ".".join(it) == problem.path), None)
            if path is None and problem.path.endswith(".kafka.sasl.jaas.config"):
                head, _, name = problem.path.partition(".kafka.")
                at = (*head.split("."), "kafka", name)
                _branch(tree, at)[at[-1]] = hiding.refer(at)
                changed = True
            elif path is not None and _is_optional(path):
                where = came.get(path, SettingPlace("", problem.path))
                hint = f" ({problem.hint})" if problem.hint else ""
                if path[-1] == "sasl.jaas.config":
                    hint += "; set the whole line, in a form that has it"
                decide = path[-1].startswith(CONNECTION)
                notes.append(UnsupportedSetting(where, problem.reason + hint, decide))
                del _branch(tree, path)[path[-1]]
                changed = True
        if not changed:
            break
    raise ConfigError([_in_terms_of_import(problem, came) for problem in problems])


def _problems(tree: dict[str, Any]) -> Sequence[Problem]:
    text = re.sub(r"(?<!\$)\$\{(?:env|file):[^}]*\}", STAND_IN, dump(tree))
    try:
        load_text(text, env={})
    except ConfigError as error:
        return error.problems
    return ()


def _is_optional(path: Path) -> bool:
    """Whether a config is one without this value."""
    if path in NEEDED or path[0] == "name":
        return False
    settings = len(path) > 2 and path[-2] in ("kafka", "producer", "consumer")
    # Without these it would be another connection, or other topics under other names.
    return (settings and path[-1] not in ("sasl.mechanism", "security.protocol")) or (
        path[-1] in ("start", "tasks", "on_gap", "weight", "title", "refresh_interval")
    )


def _in_terms_of_import(problem: Problem, came: Mapping[Path, SettingPlace]) -> Problem:
    """A problem with the old name of what it is about."""
    names = {".".join(path): where for path, where in came.items()}
    where = names.get(problem.path)
    return problem if where is None else Problem(str(where), problem.reason, problem.hint)


def _paths(item: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(item, dict):
        for name, value in item.items():
            yield from _paths(value, (*path, str(name)))
    else:
        yield path


def _branch(tree: dict[str, Any], path: Path) -> dict[str, Any]:
    at = tree
    for name in path[:-1]:
        at = at.setdefault(name, {})
    return at


def _at(tree: Any, path: str) -> Any:
    """The value at a path whose names may have dots, None when there is none."""
    if not path:
        return tree
    if not isinstance(tree, dict):
        return None
    for name, value in tree.items():
        if path == name:
            return value
        if path.startswith(f"{name}."):
            return _at(value, path.removeprefix(f"{name}."))
        if path.startswith(f"{name}["):
            return value
    return None


def _ordered(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The parts in the order in which people read them."""
    first = ("name", "hub", "sources", "topics", "stream", "supervision", "checkpoint")
    known = [name for name in first if tree.get(name)]
    return {name: tree[name] for name in (*known, *(it for it in tree if it not in first))}


def _comments(done: Finished) -> str:
    lines = [f"Made of what {done.tool} had, by `aggregator import`; see {DOC}."]
    if done.secrets:
        lines += ["", "Set these before it is used:"]
        lines += [f"  export {it.name}=...   # {it.where}" for it in done.secrets]
    decide = [note for note in done.notes if note.decide]
    others = [note for note in done.notes if not (note.decide or note.taken)]
    taken = [note for note in done.notes if note.taken and not note.decide]
    if decide:
        lines += ["", "DECIDE, as it is not the same without:"]
        lines += [f"  {note.where}: {note.reason}" for note in decide]
    if others:
        lines += ["", "Not taken over:"]
        lines += [f"  {note.where}: {note.reason}" for note in others]
    if taken:
        lines += ["", "To be known:"]
        lines += [f"  {note.where}: {note.reason}" for note in taken]
    return "".join(f"# {' '.join(line.splitlines())}".rstrip() + "\n" for line in lines) + "\n"
