"""Which topics of a source are taken: include and exclude regexes, and what is never taken.

A pattern must match the whole name, as in MirrorMaker. Exclude wins over include. Internal topics
(`INTERNAL_TOPICS`, or flagged internal by their cluster) are never taken, whatever the patterns
say; to name one literally is refused, so that nobody waits for records that never come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from aggregator.config.topics import TopicSelection
from aggregator.config.values import patterns
from aggregator.errors import ConfigError, Problem
from aggregator.model import HEARTBEATS_TOPIC

INTERNAL_TOPICS = (
    r"__.*",
    r"mm2.*\.internal",
    r".*\.checkpoints\.internal",
)
"""Names of Kafka itself, of MirrorMaker 2 and of its Connect workers; never taken."""

EXPLICIT_TOPICS = (re.escape(HEARTBEATS_TOPIC),)
"""Taken only when an include pattern names them literally: MirrorMaker's heartbeats would say
that a copy is alive which is not ours, so `.*` does not mean them."""


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def first_match(regexes: tuple[str, ...], name: str) -> str | None:
    """The first of `regexes` that matches the whole of `name`, or None."""
    return next((regex for regex in regexes if _compiled(regex).fullmatch(name)), None)


def is_internal(topic: str) -> bool:
    """Whether the name alone says that a topic belongs to Kafka or MirrorMaker itself."""
    return first_match(INTERNAL_TOPICS, topic) is not None


def literal_names(pattern: str) -> tuple[str, ...]:
    """The topics that a pattern plainly names: `a.b`, `a[.]b`, and each such part of `a|b`."""
    alternatives = [pattern] if "(" in pattern else pattern.split("|")
    plain = [part.replace("[.]", ".").replace(r"\.", ".") for part in alternatives]
    return tuple(name for name in plain if re.fullmatch(r"[A-Za-z0-9._-]+", name))


@dataclass(frozen=True, slots=True)
class Selection:
    """Include and exclude patterns of one source.

    Raises ConfigError when a pattern is no regular expression.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        for key, regexes in (("include", self.include), ("exclude", self.exclude)):
            for regex in regexes:
                try:
                    _compiled(regex)
                except re.error as error:
                    problems.append(Problem(f"topics.{key}", f"'{regex}' is no regex: {error}"))
        if problems:
            raise ConfigError(problems)

    @classmethod
    def of(cls, topics: TopicSelection) -> Selection:
        """The selection that a source's `topics` describe; commas split as in MirrorMaker."""
        return cls(tuple(patterns(topics.include)), tuple(patterns(topics.exclude)))

    def matches(self, topic: str, internal: bool = False) -> bool:
        """Whether the topic is taken; `internal` is what its cluster says of it."""
        return self.reason_not(topic, internal) is None

    def reason_not(self, topic: str, internal: bool = False) -> str | None:
        """Why the topic is not taken, in words; None when it is taken."""
        if internal or is_internal(topic):
            return "internal topic, never taken"
        if (excluded := first_match(self.exclude, topic)) is not None:
            return f"excluded by '{excluded}'"
        if first_match(EXPLICIT_TOPICS, topic) and topic not in self.literals():
            return "MirrorMaker's own topic, taken only when include names it"
        if first_match(self.include, topic) is None:
            return "not included"
        return None

    def literals(self) -> tuple[str, ...]:
        """Topics that include names one by one rather than by a regex."""
        return tuple(name for pattern in self.include for name in literal_names(pattern))

    def internal_literals(self) -> tuple[str, ...]:
        """Internal topics that include names one by one: a refusal, as they are never taken."""
        return tuple(name for name in self.literals() if is_internal(name))
