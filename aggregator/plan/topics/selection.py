"""Which topics of a source are taken: by include, exclude, and the names of internal topics.

A pattern must match the whole name, as in MirrorMaker. Exclude wins over include. A topic that
belongs to a program (`INTERNAL`, or flagged internal by its cluster) is taken only where include
names it literally: `.*` does not mean it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from aggregator.config.java_regex import RegexError, compiled
from aggregator.config.schema import Config
from aggregator.config.topics import TopicSelection
from aggregator.config.values import patterns
from aggregator.model.errors import ConfigError, Problem
from aggregator.model.same_object import once_for_each

KAFKA = "Kafka itself"
STREAMS = "Kafka Streams"

_CONNECT = r"(.*[._-])?(connect|mirrormaker2?)([._-].*)?[._-](configs?|offsets?|status|statuses)"
"""`connect-configs`, `docker-connect-offsets`, `_connect_status`, `connect-cluster-status`, and
what Strimzi calls those of MirrorMaker 2: `mirrormaker2-cluster-configs`."""

INTERNAL: Mapping[str, tuple[str, ...]] = {
    "Strimzi": (r"(__)?strimzi.*",),
    KAFKA: (r"__.*",),
    "MirrorMaker": (
        r"mm2-.*",
        r"mm2.*[.]internal",
        r".*[.]checkpoints[.]internal",
        r"(.*[.])?heartbeats",
    ),
    "Confluent's platform": (r"_confluent.*", r"_dek_registry_keys", r"_exporter_(configs|states)"),
    "Kafka Connect": (_CONNECT,),
    "a schema registry": (r"_schemas([._-].*)?", r"kafkasql-(journal|snapshots)"),
}
"""Who -> the names of its topics. Copied they are of no use, and some would say that something is
alive or configured which is not ours."""

OF_STREAMS = (r".*-(changelog|repartition)",)
"""The internal topics of Kafka Streams; left out only on request."""

RESERVED = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Hub topics that Kafka alone writes: any other writer is refused."""


@lru_cache(maxsize=65_536)
def owner_of(topic: str, *, streams: bool = False) -> str:
    """The program that a topic belongs to, "" for one of users; `streams`: Kafka Streams' too."""
    for owner, known in INTERNAL.items():
        if any(compiled(it).fullmatch(topic) for it in known):
            return owner
    if streams and any(compiled(it).fullmatch(topic) for it in OF_STREAMS):
        return STREAMS
    return ""


def first_match(regexes: tuple[str, ...], name: str) -> str | None:
    """The first of `regexes` that matches the whole of `name`, or None."""
    for regex in regexes:
        if compiled(regex).fullmatch(name):
            return regex
    return None


def literal_names(pattern: str) -> tuple[str, ...]:
    r"""The topics that a pattern plainly names: `a.b`, `a[.]b`, `\Qa.b\E`, each such part of `a|b`.

    A dot counts as one, as in the config of MirrorMaker.
    """
    alternatives = [pattern] if "(" in pattern else pattern.split("|")
    plain = [
        re.sub(r"\\Q(.*?)\\E", r"\1", part).replace("[.]", ".").replace(r"\.", ".")
        for part in alternatives
    ]
    return tuple(name for name in plain if re.fullmatch(r"[A-Za-z0-9._-]+", name))


@dataclass(frozen=True, slots=True)
class Selection:
    """Include and exclude patterns of one source; `streams`: what Kafka Streams keeps is left out.

    Raises ConfigError when a pattern is no regular expression.
    """

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    streams: bool = False

    def __post_init__(self) -> None:
        problems = []
        for key, regexes in (("include", self.include), ("exclude", self.exclude)):
            for regex in regexes:
                try:
                    compiled(regex)
                except RegexError as error:
                    why = f"'{regex}' is no regex: {error.where}"
                    problems.append(Problem(f"topics.{key}", why, error.hint))
        if problems:
            raise ConfigError(problems)

    @classmethod
    def of(cls, topics: TopicSelection, *, streams: bool = False) -> Selection:
        """The selection that a source's `topics` describe; commas split as in MirrorMaker."""
        return cls(tuple(patterns(topics.include)), tuple(patterns(topics.exclude)), streams)

    def matches(self, topic: str, internal: bool = False) -> bool:
        """Whether the topic is taken; `internal` is what its cluster says of it."""
        return self.reason_not(topic, internal) is None

    def reason_not(self, topic: str, internal: bool = False) -> str | None:
        """Why the topic is not taken, in words; None when it is taken."""
        if first_match(self.include, topic) is None:
            return "not included"
        if (excluded := first_match(self.exclude, topic)) is not None:
            return f"excluded by '{excluded}'"
        owner = owner_of(topic, streams=self.streams) or (KAFKA if internal else "")
        if owner and topic not in self.literals():
            return f"a topic of {owner}, taken only when include names it"
        return None

    def literals(self) -> tuple[str, ...]:
        """Topics that include names one by one rather than by a regex."""
        return tuple(name for pattern in self.include for name in literal_names(pattern))


@once_for_each
def selection_of(config: Config, alias: str) -> Selection:
    """What a source of this config takes."""
    streams = config.topics.kafka_streams == "leave_out"
    return Selection.of(config.sources[alias].topics, streams=streams)
