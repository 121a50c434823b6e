"""The names of hub topics: a template for all, or a list of rules of which the first match wins.

Groups of `match` are filled into `to` as in Java: `$1`, `${1}`, `${name}`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator

from aggregator.config.java_regex import RegexError, compiled
from aggregator.config.node import Node

WORDS = ("topic", "cluster")
"""What a name may hold besides groups: the source's topic, and its alias."""
_GROUP = re.compile(r"\$(?:(\d+)|\{([^}]*)\})")


def check_rename(value: str) -> str:
    """Return a template for the names of hub topics as it is; ValueError if it is none."""
    unknown = set(re.findall(r"\$\{([^}]*)\}", value)) - set(WORDS)
    if unknown:
        raise ValueError(f"knows ${{topic}} and ${{cluster}}, not ${{{min(unknown)}}}")
    plain = re.sub(r"\$\{(topic|cluster)\}", "", value)
    if not re.fullmatch(r"[A-Za-z0-9._-]*", plain):
        raise ValueError("only letters, digits, '.', '_' and '-' may be in a topic name")
    if "${topic}" not in value and not plain:
        raise ValueError("must hold ${topic}, or be the name of one hub topic")
    return value


class RenameRule(Node):
    """Topics whose whole name matches are called so at the hub."""

    match: str = Field(min_length=1, description="regex for the whole name of a source's topic")
    to: str = Field(min_length=1, description="hub topic name with $1, ${name}, ${topic}, ...")

    @field_validator("match")
    @classmethod
    def _check_match(cls, value: str) -> str:
        try:
            found = compiled(value)
        except RegexError as error:
            raise ValueError(f"match '{value}' is not a regex: {error}") from error
        if taken := sorted(set(found.groupindex) & set(WORDS)):
            raise ValueError(f"match: ${{{taken[0]}}} has a meaning already; call the group so not")
        return value

    @model_validator(mode="after")
    def _check_groups(self) -> RenameRule:
        self.parts()
        return self

    @property
    def merges(self) -> bool:
        """Whether all that match are meant to become one hub topic: nothing of theirs is in it."""
        return all(kind in ("text", "cluster") for kind, _ in self.parts())

    def parts(self) -> tuple[tuple[str, str], ...]:
        """`to` as (kind, value): kind is text, group, topic or cluster. ValueError if it is none.

        Of `$12` only `$1` is meant where there are no twelve groups, as in Java.
        """
        return _parts(self.match, self.to)

    def name(self, cluster: str, topic: str) -> str | None:
        """The hub topic's name, not validated; None when the rule is not for this topic."""
        match = compiled(self.match).fullmatch(topic)
        if match is None:
            return None
        words = {"topic": topic, "cluster": cluster}
        return "".join(
            value
            if kind == "text"
            else words[kind]
            if kind in words
            else match[int(value) if value.isdigit() else value] or ""
            for kind, value in self.parts()
        )

    def may_give(self, cluster: str, hub_topic: str) -> bool:
        """Whether some topic may be called so by this rule: no, or perhaps."""
        return _given(self.match, self.to, cluster).fullmatch(hub_topic) is not None


@lru_cache(maxsize=4096)
def _parts(match: str, to: str) -> tuple[tuple[str, str], ...]:
    pattern = compiled(match)
    found: list[tuple[str, str]] = []
    done = 0
    for group in _GROUP.finditer(to):
        found.append(("text", to[done : group.start()]))
        done = group.end()
        digits, name = group[1], group[2]
        if digits is not None:
            used = digits[0]
            while len(used) < len(digits) and int(digits[: len(used) + 1]) <= pattern.groups:
                used = digits[: len(used) + 1]
            done = group.start() + 1 + len(used)
            name = used
        if name in WORDS:
            found.append((name, name))
        elif (name.isdigit() and int(name) <= pattern.groups) or name in pattern.groupindex:
            found.append(("group", name))
        else:
            raise ValueError(f"to '{to}': {_no_group(name, pattern)}")
    found.append(("text", to[done:]))
    plain = "".join(value for kind, value in found if kind == "text")
    if not re.fullmatch(r"[A-Za-z0-9._-]*", plain):
        reason = "only letters, digits, '.', '_' and '-' may be in a topic name"
        raise ValueError(f"to '{to}': {reason}")
    return tuple((kind, value) for kind, value in found if value)


@lru_cache(maxsize=4096)
def _given(match: str, to: str, cluster: str) -> re.Pattern[str]:
    """What a rule's names look like, for a source."""
    regex = "".join(
        re.escape(value) if kind == "text" else re.escape(cluster) if kind == "cluster" else ".*"
        for kind, value in _parts(match, to)
    )
    return re.compile(regex)


def _no_group(name: str, pattern: re.Pattern[str]) -> str:
    known = [f"${number}" for number in range(1, pattern.groups + 1)]
    known += [f"${{{word}}}" for word in (*pattern.groupindex, *WORDS)]
    shown = f"${name}" if name.isdigit() else f"${{{name}}}"
    return f"match has no group {shown}; there are {', '.join(known)}"


Rename = Annotated[
    Annotated[str, AfterValidator(check_rename), Tag("template")]
    | Annotated[list[RenameRule], Tag("rules")],
    Discriminator(lambda value: "rules" if isinstance(value, list) else "template"),
]
"""A template, or rules of which the first that matches counts."""
