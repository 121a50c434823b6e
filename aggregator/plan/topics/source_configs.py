"""The configs that a hub topic takes from its sources, and the rule where these differ.

The hub must hold what every source holds, so the larger size and the longer retention win. For
anything else the first source in config order wins, and a warning names both values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

from aggregator.model.values import TopicFacts
from aggregator.plan.topics.selection import first_match

HEADER_SLACK_BYTES = 2048
"""Room for the five origin headers: a record of exactly the source's limit grows by them. Keys
take 71 bytes, a topic name up to 249, numbers up to 45, lengths 20; the rest is for the alias."""

WHOLE_BATCH_BYTES = 131_072
"""Our producers' batch.size: no batch may exceed the smallest limit of any hub topic."""

MOST_BYTES = 2**31 - 1
"""The largest size that Kafka can say, of a topic as of a producer's request."""

DEFAULT_RETENTION_MS = 604_800_000
UNLIMITED_MS = 9_223_372_036_854_775_807
UNLIMITED = -1

MAX_MESSAGE_BYTES = "max.message.bytes"
RETENTION_MS = "retention.ms"
RETENTION_BYTES = "retention.bytes"
CLEANUP_POLICY = "cleanup.policy"
TIMESTAMP_TYPE = "message.timestamp.type"
TIMESTAMP_AFTER_MAX = "message.timestamp.after.max.ms"
TIMESTAMP_BEFORE_MAX = "message.timestamp.before.max.ms"
COMPRESSION_TYPE = "compression.type"
RAISE_ONLY = (MAX_MESSAGE_BYTES, RETENTION_MS, RETENTION_BYTES)
"""Never lowered on a hub topic: to lower retention deletes records that arrived already."""
_FACTS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    MAX_MESSAGE_BYTES: ("max_message_bytes", int),
    RETENTION_MS: ("retention_ms", int),
    CLEANUP_POLICY: ("cleanup_policy", str),
    TIMESTAMP_TYPE: ("timestamp_type", str),
    TIMESTAMP_AFTER_MAX: ("timestamp_after_max_ms", int),
    TIMESTAMP_BEFORE_MAX: ("timestamp_before_max_ms", int),
    COMPRESSION_TYPE: ("compression_type", str),
}


def facts_in(configs: Mapping[str, str]) -> dict[str, Any]:
    """What effective configs say of a topic, by the names that `TopicFacts` has for it."""
    return {key: kind(configs[name]) for name, (key, kind) in _FACTS.items() if name in configs}


@dataclass(frozen=True, slots=True)
class Contribution:
    """One source topic that flows into a hub topic."""

    cluster: str
    topic: TopicFacts

    def __str__(self) -> str:
        return f"{self.cluster}/{self.topic.name}"


@dataclass(frozen=True, slots=True)
class WantedConfigs:
    """Configs wanted at the hub, name -> value, and where the sources differ."""

    configs: dict[str, str]
    warnings: tuple[str, ...] = ()


def longer(first: int, second: int) -> int:
    """The larger of two limits where -1 means unlimited."""
    return UNLIMITED if UNLIMITED in (first, second) else max(first, second)


@lru_cache(maxsize=64)
def policies(cleanup_policy: str) -> frozenset[str]:
    """`compact,delete` as a set."""
    return frozenset(part.strip() for part in cleanup_policy.split(",") if part.strip())


def wanted_configs(
    hub_topic: str, sources: Sequence[Contribution], exclude: Sequence[str]
) -> WantedConfigs:
    """Configs taken over from the sources' topic-level ones, except those `exclude` matches.

    `max.message.bytes` is in it always (`wanted_message_bytes`), unless excluded.
    """
    excluded = tuple(exclude)
    names = sorted({name for source in sources for name in source.topic.configs})
    names = [name for name in names if first_match(excluded, name) is None]
    configs: dict[str, str] = {}
    warnings: list[str] = []
    for name in names:
        if name == MAX_MESSAGE_BYTES:
            continue
        value, warning = _resolve(hub_topic, name, sources)
        configs[name] = value
        if warning:
            warnings.append(warning)
    if CLEANUP_POLICY not in configs and first_match(excluded, CLEANUP_POLICY) is None:
        # A policy from a broker default counts as well: a compacted history without the policy
        # would grow for ever, and a mix is dangerous whatever set it.
        value, warning = _cleanup_policy(hub_topic, sources)
        if value != "delete":
            configs[CLEANUP_POLICY] = value
        if warning:
            warnings.append(warning)
    if first_match(excluded, MAX_MESSAGE_BYTES) is None:
        configs[MAX_MESSAGE_BYTES] = str(wanted_message_bytes(sources))
        sizes = {source.topic.max_message_bytes for source in sources}
        if len(sizes) > 1:
            warnings.append(_larger_wins(hub_topic, MAX_MESSAGE_BYTES, sources, max(sizes)))
    return WantedConfigs(dict(sorted(configs.items())), tuple(warnings))


def needed_message_bytes(sources: Sequence[Contribution]) -> int:
    """The largest effective `max.message.bytes` of the sources, plus room for our headers.

    A record that then does not fit, of a source without a limit, is handled by `topics.on_poison`.
    """
    largest = max(source.topic.max_message_bytes for source in sources)
    return min(largest + HEADER_SLACK_BYTES, MOST_BYTES)


def wanted_message_bytes(sources: Sequence[Contribution]) -> int:
    """What is needed, and at least what makes room for a whole batch of a producer."""
    return max(needed_message_bytes(sources), WHOLE_BATCH_BYTES)


def _resolve(hub_topic: str, name: str, sources: Sequence[Contribution]) -> tuple[str, str]:
    if name == CLEANUP_POLICY:
        return _cleanup_policy(hub_topic, sources)
    if name in (RETENTION_MS, RETENTION_BYTES):
        limits = [_limit(source, name) for source in sources]
        best = reduce(longer, limits)
        differ = len(set(limits)) > 1
        return str(best), _larger_wins(hub_topic, name, sources, best) if differ else ""
    having = [source for source in sources if name in source.topic.configs]
    first = having[0]
    value_first = first.topic.configs[name]
    for other in having[1:]:
        value = other.topic.configs[name]
        if value != value_first:
            return value_first, (
                f"hub topic {hub_topic}: {name} is {value_first} at {first} and {value} at "
                f"{other}; the first source in the config wins"
            )
    return value_first, ""


def _limit(source: Contribution, name: str) -> int:
    """A source's effective limit. Kafka's default for `retention.bytes` is unlimited."""
    if name == RETENTION_MS:
        return int(source.topic.configs.get(name, source.topic.retention_ms))
    if name == MAX_MESSAGE_BYTES:
        return source.topic.max_message_bytes
    return int(source.topic.configs.get(name, UNLIMITED))


def _larger_wins(hub_topic: str, name: str, sources: Sequence[Contribution], best: int) -> str:
    values = ", ".join(f"{_limit(source, name)} at {source}" for source in sources)
    return f"hub topic {hub_topic}: {name} is {values}; the larger one, {best}, wins"


def _cleanup_policy(hub_topic: str, sources: Sequence[Contribution]) -> tuple[str, str]:
    """The policy that loses nothing, with a warning where sources differ.

    `compact` only when all sources compact: else records without a key would be refused, and
    equal keys of a source that keeps every record would be deleted.
    """
    found = [policies(source.topic.cleanup_policy) for source in sources]
    if all(policy == found[0] for policy in found):
        return ",".join(sorted(found[0])), ""
    kept = "compact" if all("compact" in policy for policy in found) else "delete"
    values = ", ".join(f"{source.topic.cleanup_policy} at {source}" for source in sources)
    return kept, f"hub topic {hub_topic}: cleanup.policy is {values}; {kept} is used"
