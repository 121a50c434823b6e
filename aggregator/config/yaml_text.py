"""Parses YAML text strictly: every key once, every scalar as the text that was written.

Scalars stay text because the typed tree turns them into numbers where it wants numbers. So a
password `0123` or an alias `no` is never taken for an octal number or for false.
"""

import re
from typing import Any

import yaml

from aggregator.model.errors import Problem

_MERGE = "tag:yaml.org,2002:merge"
_NULL = "tag:yaml.org,2002:null"
TOO_DEEP = "not taken: it is nested too deep"
REPEATED = 20_000
"""Limit of nodes from repeated anchors, in addition to what is written."""
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_PLAIN_TAGS = tuple(
    f"tag:yaml.org,2002:{kind}"
    for kind in ("str", "int", "float", "bool", "null", "timestamp", "value", "map", "seq", "merge")
)


def parse_yaml(text: str) -> tuple[Any, list[Problem]]:
    """Data of one YAML document (dicts, lists, text, None) and what is wrong with it.

    With a syntax error the data is None and the one problem names line and column. Keys given
    twice, unknown tags and recursive anchors are problems too, and the rest is still returned.
    No text of the document is echoed: it may be a secret.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        what = error.problem or error.context or "cannot be read"
        return None, [Problem("", f"{where}not valid YAML: {what}", _syntax_hint(what))]
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or "cannot be read"
        return None, [Problem("", f"not valid YAML: {reason}")]
    except RecursionError:
        return None, [Problem("", TOO_DEEP)]
    if node is None:
        return None, []
    builder = _Builder(2 * len(text) + REPEATED)
    try:
        return builder.build(node, ""), builder.problems
    except RecursionError:
        return None, [Problem("", TOO_DEEP)]
    except _TooManyError:
        return None, [Problem("", "not taken: its anchors repeat more than can be meant")]


def _syntax_hint(what: str) -> str:
    if "cannot start any token" in what and r"'\t'" in what:
        return "indent with blanks, not with tabs"
    if "mapping values are not allowed" in what or "cannot start any token" in what:
        return "put the value in quotes, and check the indentation"
    return ""


class _TooManyError(Exception):
    """A few anchors that refer to each other can expand to more than the memory holds."""


class _Builder:
    """Turns at most `most` nodes into data, and collects their problems."""

    def __init__(self, most: int) -> None:
        self.problems: list[Problem] = []
        self._left = most
        self._open: list[yaml.Node] = []

    def build(self, node: yaml.Node, path: str) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _TooManyError
        if any(node is parent for parent in self._open):
            self._problem(node, path, "an anchor refers to itself")
            return None
        if node.tag not in _PLAIN_TAGS:
            self._problem(node, path, f"unknown tag {node.tag}", "put the text in quotes")
            return None
        self._open.append(node)
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, f"{path}[{at}]") for at, item in enumerate(node.value)]
            return _scalar(node)
        finally:
            self._open.pop()

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged = self._merge(value_node, path) | merged
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, path, "a key must be text")
                continue
            key = str(key_node.value)
            inner = f"{path}.{key}" if path else key
            if key in lines:
                reason = f"given twice, in line {lines[key]} and in line {_line(key_node)}"
                self.problems.append(Problem(inner, reason, "remove one of them"))
                continue
            lines[key] = _line(key_node)
            own[key] = self.build(value_node, inner)
        return merged | own

    def _merge(self, node: yaml.Node, path: str) -> dict[str, Any]:
        data = self.build(node, path)
        parts = data if isinstance(data, list) else [data]
        merged: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, dict):
                merged = part | merged
            elif part is not None:
                self._problem(node, path, "'<<' takes a map, or a list of maps")
        return merged

    def _problem(self, node: yaml.Node, path: str, reason: str, hint: str = "") -> None:
        self.problems.append(Problem(path, f"line {_line(node)}: {reason}", hint))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _scalar(node: yaml.Node) -> str | None:
    if node.tag == _NULL:
        return None
    text = str(node.value)
    plain = isinstance(node, yaml.ScalarNode) and node.style is None
    return text.lower() if plain and _BOOL.fullmatch(text) else text
