"""The hub topic of the heartbeats: whether it is theirs alone, and how it is set up. Pure.

It is as MirrorMaker 2 makes it: one partition, and compacted, so that of each source the last
heartbeat stays.
"""

from collections.abc import Mapping, Sequence

from aggregator.config.schema import Config
from aggregator.model.values import HEARTBEATS_TOPIC, ClusterFacts
from aggregator.plan.actions import CreateTopic
from aggregator.plan.topics.quarantine_topics import AsidePlan
from aggregator.plan.topics.source_configs import CLEANUP_POLICY, Contribution

HEARTBEATS_PARTITION = 0
COMPACT = "compact"


def creation(config: Config) -> CreateTopic | None:
    """How the topic is created where it is missing; None when it is not to be created."""
    rules = config.topics.rules_for(HEARTBEATS_TOPIC)
    if not rules.create:
        return None
    return CreateTopic(HEARTBEATS_TOPIC, 1, rules.replication_factor, {CLEANUP_POLICY: COMPACT})


def plan_heartbeats(
    config: Config, contributions: Mapping[str, Sequence[Contribution]], hub: ClusterFacts
) -> AsidePlan:
    """What to do at the hub, so that heartbeats can be written beside these hub topics."""
    if not config.heartbeats:
        return AsidePlan()
    if HEARTBEATS_TOPIC in contributions:
        refusal = (
            f"hub topic {HEARTBEATS_TOPIC} is that of the heartbeats, and "
            f"{contributions[HEARTBEATS_TOPIC][0]} flows into it as well; exclude that topic, give "
            "it another name by rename, or set heartbeats: false"
        )
        return AsidePlan(refusals=(refusal,))
    if HEARTBEATS_TOPIC in hub.topics:
        return AsidePlan()
    action = creation(config)
    if action is None:
        return AsidePlan(warnings=(f"no heartbeats are written: {how_to_create()}",))
    return AsidePlan(actions=(action,))


def how_to_create() -> str:
    """What a person has to do where the topic is missing and not to be created by us."""
    return (
        f"hub topic {HEARTBEATS_TOPIC} does not exist and topics.create is false; create it with "
        f"1 partition and {CLEANUP_POLICY}={COMPACT}"
    )
