"""References in the config become their values: `${NAME}`, `${NAME:-default}`, `${file:PATH}`.

`${env:NAME}`, `${file:PATH:KEY}`, a key of a properties file, and `${dir:PATH:FILE}`, a file of a
folder, are as in Kafka's own configs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from aggregator.config.properties import parse_properties
from aggregator.errors import Problem

PLACEHOLDERS = (
    (re.compile(r"topics\.rename|sources\.[^.]+\.rename"), frozenset({"topic", "cluster"})),
    (re.compile(r"topics\.quarantine"), frozenset({"name"})),
)
"""Names in `${...}` that are no references, by the path where they stand."""
RULE = re.compile(r"(topics|sources\.[^.]+)\.rename\[\d+\]\.to")
"""Where groups of a regex are filled in: every plain name is one there, `${env:NAME}` is not."""
_GROUP = re.compile(r"[A-Za-z0-9]+")

BLANK = "***"
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(:-(.*))?", re.DOTALL)


def resolve(
    tree: Any,
    env: Mapping[str, str],
    folder: Path,
    path: tuple[str, ...] = (),
    *,
    blank: Collection[str] = (),
) -> tuple[Any, list[Problem], set[str]]:
    """The tree with every reference in its text replaced, what failed, and the paths that failed.

    `$${` stands for a literal `${`. What a reference brings in is not looked through again.
    A relative PATH of `${file:PATH}` starts at `folder`; one newline at the end of the file goes.
    Text whose reference failed stays as it is. Below the paths of `blank` every reference becomes
    `***`, whatever it stands for.
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
        hidden = any(at.startswith(f"{it}.") for it in blank)
        text = _replace(item, at, env, folder, found.append, hidden=hidden)
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
    """The text as it must stand in YAML, so that `resolve` gives it back as it is."""

    def written(match: re.Match[str]) -> str:
        return "${" if match[2] and is_placeholder(match[1], path) else "$${"

    return re.sub(r"\$\{(?=([^}]*)(\}?))", written, text)


def _replace(
    text: str,
    path: str,
    env: Mapping[str, str],
    folder: Path,
    report: Callable[[Problem], None],
    *,
    hidden: bool,
) -> str:
    def value(match: re.Match[str]) -> str:
        whole, inner, closed = match.group(0), match.group(1), match.group(2)
        if inner is None:
            return "${"
        if not closed:
            report(Problem(path, "'${' is not closed by '}'", "write $${ for a literal ${"))
            return whole
        if is_placeholder(inner, path):
            return whole
        if inner.startswith("file:"):
            found = _file(inner.removeprefix("file:"), path, folder, report)
        elif inner.startswith("dir:"):
            found = _of_folder(inner.removeprefix("dir:"), path, folder, report)
        else:
            # As Kafka's own provider of variables is written.
            found = _variable(inner.removeprefix("env:"), path, env, report)
        return BLANK if hidden else found

    return _REFERENCE.sub(value, text)


def _variable(
    inner: str, path: str, env: Mapping[str, str], report: Callable[[Problem], None]
) -> str:
    match = _NAME.fullmatch(inner)
    if match is None:
        forms = "${NAME}, ${NAME:-default}, ${file:PATH} or ${dir:PATH:FILE}"
        hint = f"write {forms}; $${{ for a literal ${{"
        report(Problem(path, f"'${{{inner}}}' is no reference", hint))
        return ""
    name, default = match.group(1), match.group(3)
    if name in env:
        return env[name]
    if default is None:
        hint = f"export {name}=..., or write ${{{name}:-default}}"
        if kept := sorted(placeholders(path)):
            known = " and ".join(f"${{{word}}}" for word in kept)
            hint = f"{known} are filled in here; else export {name}=..."
        report(Problem(path, f"environment variable {name} is not set", hint))
        return ""
    return default


def _file(name: str, path: str, folder: Path, report: Callable[[Problem], None]) -> str:
    where, key = folder / name, ""
    try:
        if ":" in name and not where.exists():
            # As Kafka's own provider of files is written.
            name, _, key = name.rpartition(":")
            where = folder / name
        text = where.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not UTF-8 text"
        report(Problem(path, f"cannot read {where}: {why}", "check the path in ${file:PATH}"))
        return ""
    if not key:
        return re.sub(r"\r?\n\Z", "", text)
    value = parse_properties(text).get(key)
    if value is None:
        report(Problem(path, f"{where} has no key {key}", "check the key in ${file:PATH:KEY}"))
    return value or ""


def _of_folder(name: str, path: str, folder: Path, report: Callable[[Problem], None]) -> str:
    """The content of one file of a folder, as Kubernetes mounts secrets, a file for each key."""
    where, _, key = name.rpartition(":")
    if not where or not key or "/" in key or key in (".", ".."):
        hint = "write ${dir:PATH:FILE}, with a FILE that lies in the folder itself"
        report(Problem(path, f"'${{dir:{name}}}' names no file of a folder", hint))
        return ""
    return _file(str(Path(where) / key), path, folder, report)
