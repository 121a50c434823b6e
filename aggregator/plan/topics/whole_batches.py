"""Which routes copy batches as they are, up to which size, and why others do not. Pure.

The config is checked by itself (`config/copy_as.py`); here the hub topics decide.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aggregator.config.copy_as import BATCHES
from aggregator.config.schema import Config
from aggregator.model.values import Route, TopicFacts
from aggregator.plan.topics.quarantine_topics import APPEND_TIME
from aggregator.plan.topics.source_configs import policies


def with_whole_batches(
    config: Config, routes: Sequence[Route], hub_topics: Mapping[str, TopicFacts]
) -> tuple[tuple[Route, ...], tuple[str, ...]]:
    """The routes with the largest batch that goes as it is, and warnings of those without any.

    `hub_topics` are the hub's after the plan's actions; a topic that is not there copies records.
    """
    found, warnings = [], dict[str, None]()
    for route in routes:
        facts = hub_topics.get(route.hub_topic)
        if config.topics.rules_for(route.hub_topic).copy_as != BATCHES or facts is None:
            found.append(route)
            continue
        if why := refusal_of(route, facts):
            words = f"hub topic {route.hub_topic}: copy_as: batches has no effect: {why}"
            warnings[words] = None
            found.append(route)
        else:
            found.append(replace(route, batch_bytes=facts.max_message_bytes))
    return tuple(found), tuple(warnings)


def refusal_of(route: Route, hub_topic: TopicFacts) -> str:
    """Why no batch of a route can go as it is; "" when batches can."""
    if "compact" in policies(hub_topic.cleanup_policy):
        return "it is compacted, and each record must be checked for a key"
    if hub_topic.compression_type != "producer":
        return f"its compression.type is {hub_topic.compression_type}, so its broker unpacks them"
    if hub_topic.timestamp_type == APPEND_TIME:
        return "its timestamps are its own (LogAppendTime)"
    if route.poison.limits.behind_ms is not None:
        return "it refuses old timestamps, and each record must be checked"
    return ""
