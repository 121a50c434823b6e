"""Keeps what the hub has refused of a plan, and plans without it. Pure.

A config that the hub names in its answer is left out, or made smaller where it is a size, and the
rest of the topic is as it was planned. What the hub refuses as a whole is not asked for again until
it is another request, or some time has passed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from aggregator.config.topics import TopicsConfig
from aggregator.model.values import TopicFacts
from aggregator.plan.actions import Action, AlterConfigs, Applied, CreateTopic
from aggregator.plan.topics.source_configs import (
    CLEANUP_POLICY,
    HEADER_SLACK_BYTES,
    MAX_MESSAGE_BYTES,
    TIMESTAMP_TYPE,
)

RETRY_SECONDS = 600.0
"""The hub's policy may have changed by then, which nothing else shows."""
ESSENTIAL = (CLEANUP_POLICY, TIMESTAMP_TYPE)
"""Without these a topic would lose records or timestamps: it is better not there."""
LEAST_BYTES = 65_536
"""A number in an answer that is smaller is no limit of sizes."""
UNKNOWN = re.compile(r"Unknown topic config name: ([\w.-]+\w)")


@dataclass(frozen=True, slots=True)
class RefusedConfig:
    """A value that the hub does not take; `instead` is what is asked for, None for nothing."""

    value: str
    instead: str | None
    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class RefusedAction:
    """What the hub does not do at all. Unless it is `lasting` the next discovery tries it again."""

    action: Action
    reason: str
    at: float
    lasting: bool = True


@dataclass(frozen=True, slots=True)
class LeftOutConfig:
    """A config that a hub topic is without, or has smaller, because the hub refuses it."""

    topic: str
    name: str
    refused: RefusedConfig
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Refusals:
    """What the hub has refused lately, by (hub topic, config), and by (hub topic, kind of action).

    `unknown` are configs that no topic of this hub may have.
    """

    unknown: Mapping[str, RefusedConfig] = field(default_factory=dict)
    configs: Mapping[tuple[str, str], RefusedConfig] = field(default_factory=dict)
    actions: Mapping[tuple[str, type], RefusedAction] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.unknown or self.configs or self.actions)

    def why_not(self, action: Action) -> str:
        """Why the hub does not do this; "" when it has not refused just this."""
        found = self.actions.get((action.name, type(action)))
        return found.reason if found is not None and found.action == action else ""

    def adapted(
        self, action: Action, hub: Mapping[str, TopicFacts], left_out: list[LeftOutConfig]
    ) -> Action | None:
        """The action without the configs that the hub refuses; None when nothing is left of it.

        What it is without is added to `left_out`.
        """
        match action:
            case CreateTopic(name, configs=configs):
                taken = {key: self._instead(name, key, it, left_out) for key, it in configs.items()}
                return replace(action, configs={k: it for k, it in taken.items() if it is not None})
            case AlterConfigs(name, changes):
                changed: dict[str, tuple[str | None, str]] = {}
                for key, (old, new) in changes.items():
                    value = self._instead(name, key, new, left_out)
                    # A size that was made smaller must not lower what the topic takes already.
                    floor = hub[name].max_message_bytes if name in hub else 0
                    if value is not None and (value == new or int(value) > floor):
                        changed[key] = (old, value)
                return AlterConfigs(name, changed) if changed else None
        return action

    def after(self, answers: Iterable[Applied], topics: TopicsConfig, now: float) -> Refusals:
        """The same with what these answers refuse. What is asked for by `topics` is never adapted:
        its action is refused as a whole.
        """
        found = self
        for answer in answers:
            if answer.ok:
                continue
            own = topics.rules_for(answer.action.name).configs
            found = found._with(answer, own, now)
        return found

    def at(self, now: float) -> Refusals:
        """Those that still count: the others must be tried again."""
        since = now - RETRY_SECONDS
        return Refusals(
            {name: it for name, it in self.unknown.items() if it.at > since},
            {key: it for key, it in self.configs.items() if it.at > since},
            {key: it for key, it in self.actions.items() if it.lasting and it.at > since},
        )

    def _instead(
        self, topic: str, name: str, value: str, left_out: list[LeftOutConfig]
    ) -> str | None:
        if (unknown := self.unknown.get(name)) is not None:
            left_out.append(LeftOutConfig(topic, name, unknown, unknown=True))
            return None
        found = self.configs.get((topic, name))
        if found is None or found.value != value:
            return value
        left_out.append(LeftOutConfig(topic, name, found))
        return found.instead

    def _with(self, answer: Applied, own: Collection[str], now: float) -> Refusals:
        action, reason = answer.action, answer.reason
        sent = _sent(action)
        named = [name for name in sent if _names(reason, name)]
        kept = [name for name in named if name in own or name in ESSENTIAL]
        if not answer.lasting or not named or kept:
            refused = RefusedAction(action, reason, now, answer.lasting)
            return replace(self, actions={**self.actions, (action.name, type(action)): refused})
        unknown, configs = dict(self.unknown), dict(self.configs)
        for name in named:
            found = UNKNOWN.search(reason)
            if found is not None and found.group(1) == name:
                unknown[name] = RefusedConfig("", None, reason, now)
                continue
            before = self.configs.get((action.name, name))
            again = before is not None and before.instead == sent[name]
            value = before.value if before is not None and again else sent[name]
            smaller = _smaller(name, sent[name], reason, again=again)
            configs[action.name, name] = RefusedConfig(value, smaller, reason, now)
        return replace(self, unknown=unknown, configs=configs)


NOTHING_REFUSED = Refusals()


def words_of(left_out: Collection[LeftOutConfig]) -> tuple[str, ...]:
    """What is said of these: a line for each config that the hub does not know, and each topic."""
    unknown: dict[str, list[str]] = {}
    said = []
    for it in left_out:
        if it.unknown:
            unknown.setdefault(it.name, []).append(it.topic)
            continue
        instead = "it is left out" if it.refused.instead is None else f"{it.refused.instead} is set"
        said.append(
            f"hub topic {it.topic}: the hub refuses {it.name}={it.refused.value} "
            f"({it.refused.reason}); {instead}"
        )
    for name, topics in sorted(unknown.items()):
        more = f" and {len(topics) - 1} more" if len(topics) > 1 else ""
        said.append(
            f"the hub does not know the topic config {name}, which {topics[0]}{more} would have: "
            "it is left out"
        )
    return tuple(said)


def _sent(action: Action) -> dict[str, str]:
    match action:
        case CreateTopic(configs=configs):
            return dict(configs)
        case AlterConfigs(changes=changes):
            return {key: new for key, (_, new) in changes.items()}
    return {}


def _names(reason: str, config: str) -> bool:
    """Whether an answer names a config: `retention.ms` is not found in `delete.retention.ms`."""
    return re.search(rf"(?<![\w.-]){re.escape(config)}(?![\w-]|[.]\w)", reason) is not None


def _smaller(name: str, value: str, reason: str, *, again: bool) -> str | None:
    """A size to ask for in place of one that is refused: the limit that the answer names, else what
    the source has without room for our headers; None where there is none.
    """
    if name != MAX_MESSAGE_BYTES or not value.isdecimal():
        return None
    named = [int(it) for it in re.findall(r"(?<![\w.-])\d+(?![\w-])", reason)]
    fitting = [it for it in named if LEAST_BYTES <= it < int(value)]
    if fitting:
        return str(max(fitting))
    return None if again else str(int(value) - HEADER_SLACK_BYTES)
