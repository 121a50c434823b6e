"""Resolves references in the config: `${NAME}`, `${NAME:-default}`, `${file:PATH}`.

`${env:NAME}`, `${file:PATH:KEY}`, a key of a properties file, and `${dir:PATH:FILE}`, a file of a
folder, are as in Kafka's own configs.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aggregator.config.allowed import OR_ELSE, SETTING, Allowed
from aggregator.config.files import read_any, read_file
from aggregator.config.properties import parse_properties
from aggregator.model.errors import Problem

PLACEHOLDERS = (
    (re.compile(r"topics\.rename|sources\.[^.]+\.rename"), frozenset({"topic", "cluster"})),
    (re.compile(r"topics\.(quarantine|duplicates)"), frozenset({"name"})),
)
"""Names in `${...}` that are no references, by the path where they stand."""
RULE = re.compile(r"(topics|sources\.[^.]+)\.rename\[\d+\]\.to")
"""Where groups of a regex are filled in: every plain name is one there, `${env:NAME}` is not."""
_GROUP = re.compile(r"[A-Za-z0-9]+")

BLANK = "***"
FREE: Mapping[str, Allowed] = MappingProxyType({})
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?", re.DOTALL)


def resolve(
    tree: Any,
    env: Mapping[str, str],
    folder: Path,
    path: tuple[str, ...] = (),
    *,
    blank: Collection[str] = (),
    limits: Mapping[str, Allowed] = FREE,
) -> tuple[Any, list[Problem], set[str]]:
    """The tree with every reference in its text replaced, what failed, and the paths that failed.

    `$${` is a literal `${`. What a reference brings in is not looked through again.
    A relative PATH of `${file:PATH}` starts at `folder`; a byte order mark at the beginning of the
    file goes, and one newline at its end.
    Text whose reference failed stays as it is. Below the paths of `blank` every reference becomes
    `***`, whatever its value is. Below the paths of `limits` a reference that is not allowed there
    is a problem, and nothing is looked at for it.
    """
    problems: list[Problem] = []
    failed: set[str] = set()

    def walk(item: Any, at: str) -> Any:
        if isinstance(item, dict):
            return {key: walk(value, f"{at}.{key}" if at else key) for key, value in item.items()}
        if isinstance(item, list):
            return [walk(value, f"{at}[{index}]") for index, value in enumerate(item)]
        if not isinstance(item, str):
            return item
        found: list[Problem] = []
        look = _Look(
            at,
            env,
            folder,
            found.append,
            hidden=any(at.startswith(f"{it}.") for it in blank),
            allowed=next((it for up, it in limits.items() if at.startswith(f"{up}.")), None),
        )
        text = look.replaced(item)
        if not found:
            return text
        problems.extend(found)
        failed.add(at)
        return item

    return walk(tree, ".".join(path)), problems, failed


def refers(tree: Any, path: str) -> bool:
    """Whether any text of the tree that is at this path holds a reference."""
    if isinstance(tree, Mapping):
        return any(refers(value, f"{path}.{key}") for key, value in tree.items())
    if isinstance(tree, list):
        return any(refers(value, f"{path}[{index}]") for index, value in enumerate(tree))
    if not isinstance(tree, str):
        return False
    names = [match[1] for match in _REFERENCE.finditer(tree)]
    return any(name is not None and not is_placeholder(name, path) for name in names)


def placeholders(path: str) -> frozenset[str]:
    """Names in `${...}` that are filled in later, in the text at this path."""
    return next((kept for where, kept in PLACEHOLDERS if where.fullmatch(path)), frozenset())


def is_placeholder(name: str, path: str) -> bool:
    """Whether `${name}` in the text at this path is no reference: it is filled in later."""
    if RULE.fullmatch(path):
        return _GROUP.fullmatch(name) is not None
    return name in placeholders(path)


def escape(text: str, path: str = "") -> str:
    """The text as it must be in YAML, so that `resolve` gives it back as it is."""

    def written(match: re.Match[str]) -> str:
        return "${" if match[2] and is_placeholder(match[1], path) else "$${"

    return re.sub(r"\$\{(?=([^}]*)(\}?))", written, text)


@dataclass(frozen=True, slots=True)
class _Look:
    """What references of one text stand for; what is wrong with them is reported.

    `allowed` is None where each reference is.
    """

    path: str
    env: Mapping[str, str]
    folder: Path
    report: Callable[[Problem], None]
    hidden: bool
    allowed: Allowed | None

    def replaced(self, text: str) -> str:
        return _REFERENCE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        whole, inner, closed = match.group(0), match.group(1), match.group(2)
        if inner is None:
            return "${"
        if not closed:
            self._report("'${' is not closed by '}'", "write $${ for a literal ${")
            return whole
        if is_placeholder(inner, self.path):
            return whole
        if inner.startswith("file:"):
            found = self._file(inner.removeprefix("file:"))
        elif inner.startswith("dir:"):
            found = self._of_folder(inner.removeprefix("dir:"))
        else:
            # As Kafka's own provider of variables is written.
            found = self._variable(inner.removeprefix("env:"))
        return BLANK if self.hidden else found

    def _variable(self, inner: str) -> str:
        match = _NAME.fullmatch(inner)
        if match is None:
            forms = "${NAME}, ${NAME:-default}, ${file:PATH} or ${dir:PATH:FILE}"
            hint = f"write {forms}; $${{ for a literal ${{"
            self._report(f"'${{{inner}}}' is no reference", hint)
            return ""
        name, default = match.group(1), match.group(3)
        if self.allowed is not None and name not in self.allowed.env:
            reason = f"variable {name} is not for a source that is added at run time"
            self._report(reason, f"add {name} to {SETTING}.env, {OR_ELSE}")
            return ""
        if name in self.env:
            value = self.env[name]
            if value.endswith("\r"):
                # As of a file for `docker run --env-file` that has the line ends of Windows.
                hint = "the file that sets it must end its lines without one"
                self._report(f"environment variable {name} ends with a carriage return", hint)
            return value
        if default is None:
            hint = f"export {name}=..., or write ${{{name}:-default}}"
            if kept := sorted(placeholders(self.path)):
                known = " and ".join(f"${{{word}}}" for word in kept)
                hint = f"{known} are filled in here; else export {name}=..."
            self._report(f"environment variable {name} is not set", hint)
            return ""
        return default

    def _file(self, name: str) -> str:
        where, key = self.folder / name, ""
        try:
            places = self._places(name)
            if not places:
                reason = f"{where} is not for a source that is added at run time"
                self._report(reason, f"add its folder to {SETTING}.files, {OR_ELSE}")
                return ""
            # With a key as Kafka's own provider of files is written.
            where, key = places[-1] if not places[0][0].exists() else places[0]
            content = read_any(where) if self.allowed is None else read_file(where)
            # Editors of Windows begin a file with a mark, and end its lines in two characters.
            text = content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            self._report(f"cannot read {where}: {why}", "check the path in ${file:PATH}")
            return ""
        if not key:
            return text.removesuffix("\n")
        value = parse_properties(text).get(key)
        if value is None:
            self._report(f"{where} has no key {key}", "check the key in ${file:PATH:KEY}")
        return value or ""

    def _places(self, name: str) -> list[tuple[Path, str]]:
        """Where a file may be that is named so, and the key in it; none where it may not be."""
        places = [(self.folder / name, "")]
        if ":" in name:
            head, _, key = name.rpartition(":")
            places.append((self.folder / head, key))
        if self.allowed is None:
            return places
        real = ((self.allowed.place(where), key) for where, key in places)
        return [(where, key) for where, key in real if where is not None]

    def _of_folder(self, name: str) -> str:
        """The content of one file of a folder, as Kubernetes mounts secrets, one for each key."""
        where, _, key = name.rpartition(":")
        if not where or not key or "/" in key or key in (".", ".."):
            hint = "write ${dir:PATH:FILE}, with a FILE that lies in the folder itself"
            self._report(f"'${{dir:{name}}}' names no file of a folder", hint)
            return ""
        return self._file(str(Path(where) / key))

    def _report(self, reason: str, hint: str) -> None:
        self.report(Problem(self.path, reason, hint))
