"""Hub topic names: by template or by rules, and Kafka's rules for topic names."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from aggregator.config.rename import Rename, RenameRule
from aggregator.config.schema import Config
from aggregator.model.same_object import once_for_each

MAX_TOPIC_NAME = 249
"""Kafka's bound: a topic name plus '-<partition>' must fit a file name."""


def hub_topic_name(template: str, cluster: str, topic: str) -> str:
    """The template with `${cluster}` and `${topic}` filled in; not validated."""
    values = {"cluster": cluster, "topic": topic}
    return re.sub(r"\$\{(cluster|topic)\}", lambda match: values[match.group(1)], template)


def source_topic(template: str, cluster: str, hub_topic: str) -> str | None:
    """The source topic that the template turns into `hub_topic`, None when there is none.

    The inverse of `hub_topic_name`; "" when the template does not hold `${topic}`, so that every
    topic becomes this one.
    """
    match = _named_by(template, cluster).fullmatch(hub_topic)
    if match is None:
        return None
    topic: str = match["topic"] if match.re.groups else ""
    return topic


@lru_cache(maxsize=4096)
def _named_by(template: str, cluster: str) -> re.Pattern[str]:
    head, *rest = template.replace("${cluster}", cluster).split("${topic}")
    regex = re.escape(head)
    for index, part in enumerate(rest):
        regex += ("(?P<topic>.+)" if index == 0 else "(?P=topic)") + re.escape(part)
    return re.compile(regex)


@dataclass(frozen=True, slots=True)
class HubName:
    """A hub topic's name, and the setting that gave it; `merges`: it may be that of several."""

    name: str
    by: str
    merges: bool = False


@dataclass(frozen=True, slots=True)
class Naming:
    """How the topics of one source are named: `steps` are settings and their values.

    A template names every topic, so nothing behind it counts; a rule names those that match.
    `renamed` are names that an override replaces.
    """

    cluster: str
    steps: tuple[tuple[str, str | RenameRule], ...]
    renamed: Mapping[str, str] = field(default_factory=dict)
    _before: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """Names that an override gives -> what it replaces."""

    def __post_init__(self) -> None:
        before = {other: name for name, other in reversed([*self.renamed.items()])}
        object.__setattr__(self, "_before", before)

    def of(self, topic: str) -> HubName:
        """The name of a source's topic at the hub; not validated."""
        found = self._by_steps(topic)
        if (other := self.renamed.get(found.name)) is None:
            return found
        return HubName(other, f"topics.overrides.{found.name}.rename", found.merges)

    def may_be(self, hub_topic: str) -> Iterable[str | None]:
        """The topics that may be called so: a name, "" for every topic, None for some unknown."""
        if hub_topic in self.renamed and hub_topic not in self._before:
            return
        wanted = self._before.get(hub_topic, hub_topic)
        for _, step in self.steps:
            if isinstance(step, RenameRule):
                if step.may_give(self.cluster, wanted):
                    yield None
                continue
            if (topic := source_topic(step, self.cluster, wanted)) is not None:
                yield topic
            return

    def _by_steps(self, topic: str) -> HubName:
        for path, step in self.steps:
            if isinstance(step, str):
                name = hub_topic_name(step, self.cluster, topic)
                return HubName(name, path, "${topic}" not in step)
            if (given := step.name(self.cluster, topic)) is not None:
                return HubName(given, path, step.merges)
        return HubName(topic, "")


@once_for_each
def naming_of(config: Config, alias: str) -> Naming:
    """How the topics of a source are called: by its own `rename`, then by that of all."""
    own = config.sources[alias].rename
    steps = [] if own is None else _steps(f"sources.{alias}.rename", own)
    steps += _steps("topics.rename", config.topics.rename)
    # What no rule matches keeps its name.
    steps.append(("topics.rename", "${topic}"))
    return Naming(alias, tuple(steps), config.topics.renamed)


def _steps(path: str, rename: Rename) -> list[tuple[str, str | RenameRule]]:
    if isinstance(rename, str):
        return [(path, rename)]
    return [(f"{path}[{number}]", rule) for number, rule in enumerate(rename)]


def topic_name_problem(name: str) -> str | None:
    """What Kafka has against this topic name, in words; None when it is a legal name."""
    if not name:
        return "the name is empty"
    if name in (".", ".."):
        return f"'{name}' is no topic name"
    if len(name) > MAX_TOPIC_NAME:
        return f"{len(name)} characters long, Kafka allows {MAX_TOPIC_NAME}"
    wrong = sorted(set(re.findall(r"[^A-Za-z0-9._-]", name)))
    if wrong:
        return f"characters {' '.join(repr(char) for char in wrong)} are not allowed"
    return None


def colliding_names(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Groups of names that differ only by '.' and '_', which Kafka's metrics cannot distinguish."""
    groups: dict[str, set[str]] = defaultdict(set)
    for name in names:
        groups[name.replace(".", "_")].add(name)
    return [tuple(sorted(group)) for _, group in sorted(groups.items()) if len(group) > 1]
