"""Renders the client settings of a lane's query from the config and the plan."""

from collections.abc import Mapping

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.datapath.connector.spec import Clients
from aggregator.datapath.spark.lane import LaneSettings
from aggregator.model.values import SourcePartition
from aggregator.plan.identities import shares_id_with_hub
from aggregator.plan.lanes.memory import buffer_memory, fetch_sizes, heap_of
from aggregator.plan.lanes.producer import (
    hub_producer,
    hub_producers,
    is_local,
    least_buffer,
    recompressed,
)
from aggregator.plan.lanes.rate_limits import Pace, partitions_of
from aggregator.plan.plan import Plan
from aggregator.plan.topics.after_apply import facts_after

POLL_RECORDS = "2000"
"""Kafka's 500 are handed out in some tenths of a millisecond."""


def lane_settings(
    config: Config, plan: Plan, pace: Pace, until: Mapping[SourcePartition, int]
) -> LaneSettings:
    """Settings for every lane of a plan, at a pace that may be another than the plan's."""
    partitions = partitions_of(plan.routes)
    local = is_local(config.spark.master)
    # A transform has readers of its own.
    readers = {(route.cluster, route.transform) for route in plan.routes}
    tasks = sum(plan.tasks_of(alias) for alias, _ in readers) or plan.tasks
    heap = heap_of(config.spark.conf, local=local)
    fetches = {"max.poll.records": POLL_RECORDS, **fetch_sizes(heap, tasks)}
    topics = facts_after(plan.hub, plan.actions)
    producer = hub_producer(
        config,
        [plan.sources[route.cluster].topics[route.topic] for route in plan.routes],
        [topics[name] for name in plan.hub_topics if name in topics],
    )
    if "buffer.memory" not in {*config.hub.kafka, *config.hub.producer}:
        producer["buffer.memory"] = str(buffer_memory(heap, tasks, least_buffer(producer)))
    producers = hub_producers(producer, plan.hub.producer_expiry_ms)
    written = {name for route in plan.routes for name in route.hub_topics}
    return LaneSettings(
        clients=Clients(
            consumers={
                # Without a group: nothing is committed to the source, and no right is needed.
                alias: {**fetches, **jvm_settings(source, "consumer")}
                for alias, source in config.sources.items()
            },
            producer=producers.usual,
            careful=producers.careful,
            numbered=producers.numbered,
            fresh_ms=producers.fresh_ms,
            path=config.stream.path,
            recompressed=recompressed(
                [topics[name] for name in written if name in topics],
                producer["compression.type"],
            ),
            cluster_ids={alias: facts.cluster_id for alias, facts in plan.sources.items()},
        ),
        hub_names=hub_names(config, plan),
        tasks=plan.tasks,
        pace=pace,
        partitions=partitions,
        until=until,
        own_tasks=plan.own_tasks,
    )


def hub_names(config: Config, plan: Plan) -> tuple[str, ...]:
    """The names under which this hub is known as a source elsewhere."""
    # An id that a source has as well names no hub.
    shared = shares_id_with_hub(config, plan.sources, plan.hub.cluster_id)
    ids = () if shared else (plan.hub.cluster_id,)
    return (config.name, *ids, *config.hub.known_as)
