"""Renders what a lane's query needs from the config and the plan: options of sources and sink."""

from __future__ import annotations

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.plan.effective import facts_after
from aggregator.plan.pace import Pace, partitions_of
from aggregator.plan.plan import Plan
from aggregator.plan.producer import hub_producer
from aggregator.plan.tasks import live_conf
from aggregator.stream.interceptor import CLASS_NAME
from aggregator.stream.lane import LaneSettings


def lane_settings(config: Config, plan: Plan, pace: Pace) -> LaneSettings:
    """Settings for every lane of a plan, at a pace that may be another than the plan's."""
    sources = {
        alias: {
            **{f"kafka.{name}": value for name, value in jvm_settings(source, "consumer").items()},
            # Never one group.id: Spark's consumer cache knows consumers by group and partition
            # only, and two clusters may have the same topic.
            "groupIdPrefix": f"aggregator-{config.name}-{alias}",
        }
        for alias, source in config.sources.items()
    }
    topics = facts_after(plan.hub, plan.actions)
    producer = hub_producer(
        config,
        [plan.sources[route.cluster].topics[route.topic] for route in plan.routes],
        [topics[name] for name in plan.hub_topics if name in topics],
    )
    sink = {f"kafka.{name}": value for name, value in producer.items()}
    sink["kafka.interceptor.classes"] = CLASS_NAME
    partitions = partitions_of(plan.routes)
    return LaneSettings(
        pace=pace,
        interval_seconds=config.stream.checkpoint_interval,
        partitions=partitions,
        lanes=len(plan.lanes),
        max_offsets=config.stream.max_offsets_per_trigger,
        hub_names=(config.name, plan.hub.cluster_id, *config.hub.known_as),
        source_options=sources,
        sink_options=sink,
        live_conf=live_conf(config, sum(partitions.values())),
    )
