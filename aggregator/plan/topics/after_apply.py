"""Hub topics as they will be once a plan's actions are applied: what they then accept. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from aggregator.model.values import ClusterFacts, TopicFacts
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic
from aggregator.plan.topics.source_configs import facts_in


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
        topics[name] = replace(topics.get(name, TopicFacts(name, "", 0, 0)), **facts_in(configs))
    return topics
