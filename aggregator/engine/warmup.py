"""Whether a run rehearses its batch ends while it is young, and with what: see `rehearsal`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.engine.events import Event, EventSink
from aggregator.engine.settings import lane_settings
from aggregator.plan.plan import Plan
from aggregator.stream.rehearsal import NAME, rehearsal

TASKS = 1
"""Task slots that a rehearsal holds."""


@contextmanager
def rehearsed(
    config: Config, plan: Plan, trigger: str, spark: SparkSession, emit: EventSink
) -> Iterator[None]:
    """Rehearse beside the block for `stream.rehearsal` seconds, where that is of use and no harm.

    Of use: in real-time mode, where a lane stands still between two batches. No harm: with a task
    slot that is surely not needed by a lane.
    """
    slots = plan.slots.slots or 0
    if (
        trigger != "realtime"
        or not config.stream.rehearsal
        or not plan.hub_topics
        or slots < plan.slots.required + TASKS
    ):
        yield
        return
    hub = {f"kafka.{name}": value for name, value in jvm_settings(config.hub, "consumer").items()}
    with rehearsal(
        spark,
        min(plan.hub_topics),
        {**hub, "groupIdPrefix": f"aggregator-{config.name}-{NAME}"},
        {
            **lane_settings(config, plan, plan.pace).sink_options,
            "kafka.client.id": f"aggregator-{NAME}",
        },
        config.stream.rehearsal,
        lambda why: emit(Event("rehearsal_failed", f"batch ends are not rehearsed: {why}")),
    ):
        yield
