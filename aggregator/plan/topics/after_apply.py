"""Hub topics as they will be once a plan's actions are applied: what they then accept. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from aggregator.model.values import ClusterFacts, TopicFacts
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic
from aggregator.plan.topics.source_configs import (
    CLEANUP_POLICY,
    COMPRESSION_TYPE,
    MAX_MESSAGE_BYTES,
    TIMESTAMP_AFTER_MAX,
    TIMESTAMP_BEFORE_MAX,
    TIMESTAMP_TYPE,
)

_NUMBERS = {
    MAX_MESSAGE_BYTES: "max_message_bytes",
    TIMESTAMP_AFTER_MAX: "timestamp_after_max_ms",
    TIMESTAMP_BEFORE_MAX: "timestamp_before_max_ms",
}
_TEXTS = {
    CLEANUP_POLICY: "cleanup_policy",
    COMPRESSION_TYPE: "compression_type",
    TIMESTAMP_TYPE: "timestamp_type",
}


def facts_after(hub: ClusterFacts, actions: Iterable[Action]) -> dict[str, TopicFacts]:
    """Every topic of the hub, with the effective values that the actions leave it with.

    For a topic that is still to be created, what no action sets is Kafka's default: the next
    discovery shows it.
    """
    changes: dict[str, dict[str, str]] = defaultdict(dict)
    for action in actions:
        match action:
            case CreateTopic(name=name, configs=configs):
                changes[name].update(configs)
            case AlterConfigs(name=name, changes=altered):
                changes[name].update({key: new for key, (_, new) in altered.items()})
    topics = dict(hub.topics)
    for name, configs in changes.items():
        topics[name] = _overlaid(topics.get(name, TopicFacts(name, "", 0, 0)), configs)
    return topics


def _overlaid(facts: TopicFacts, configs: Mapping[str, str]) -> TopicFacts:
    values: dict[str, Any] = {
        **{key: int(configs[name]) for name, key in _NUMBERS.items() if name in configs},
        **{key: configs[name] for name, key in _TEXTS.items() if name in configs},
    }
    return replace(facts, **values)
