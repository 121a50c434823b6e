"""Renders what a lane's query needs from the config and the plan: options of sources and sink."""

from __future__ import annotations

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.plan.plan import Plan
from aggregator.plan.topic_configs import HEADER_SLACK_BYTES
from aggregator.stream.interceptor import CLASS_NAME
from aggregator.stream.lane import LaneSettings

REQUEST_HEADROOM = 2
"""A producer checks the size before compression, the broker after it: a compressed record that a
source accepted is larger when our producer weighs it."""


def lane_settings(config: Config, plan: Plan, trigger: str) -> LaneSettings:
    """Settings for every lane of a plan; `trigger` is realtime, microbatch or available-now."""
    sources = {
        alias: {
            **{f"kafka.{name}": value for name, value in jvm_settings(source, "consumer").items()},
            # Never one group.id: Spark's consumer cache knows consumers by group and partition
            # only, and two clusters may have the same topic.
            "groupIdPrefix": f"aggregator-{config.name}-{alias}",
        }
        for alias, source in config.sources.items()
    }
    producer = jvm_settings(config.hub, "producer")
    if not {"max.request.size"} & {*config.hub.kafka, *config.hub.producer}:
        largest = REQUEST_HEADROOM * _largest_record(plan)
        size = max(int(producer["max.request.size"]), largest)
        producer["max.request.size"] = str(size)
        if not {"buffer.memory"} & {*config.hub.kafka, *config.hub.producer}:
            producer["buffer.memory"] = str(max(int(producer["buffer.memory"]), 2 * size))
    sink = {f"kafka.{name}": value for name, value in producer.items()}
    sink["kafka.interceptor.classes"] = CLASS_NAME
    return LaneSettings(
        trigger=trigger,
        interval_seconds=config.stream.checkpoint_interval,
        max_offsets=config.stream.max_offsets_per_trigger,
        hub_names=(config.name, plan.hub.cluster_id, *config.hub.known_as),
        source_options=sources,
        sink_options=sink,
    )


def _largest_record(plan: Plan) -> int:
    """The largest record, in bytes, that any routed topic of a source accepts, with our headers."""
    sizes = [
        plan.sources[route.cluster].topics[route.topic].max_message_bytes for route in plan.routes
    ]
    return max(sizes, default=0) + HEADER_SLACK_BYTES
