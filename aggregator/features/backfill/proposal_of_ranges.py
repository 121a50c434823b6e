"""Resolves a backfill request by the live clusters and the checkpoint; changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.features.backfill.backfill_report import BackfillReport, backfill_status
from aggregator.features.backfill.backfill_table import BackfillTable
from aggregator.features.backfill.ranges import (
    Backfill,
    BackfillPlan,
    BackfillRequest,
    BeforeBackfill,
    busy_with,
    plan_backfill,
)
from aggregator.features.positions.proposal import cuts_of, hub_logs_of, ids_of, places_of
from aggregator.kafka.admin import open_admin
from aggregator.kafka.discovery.prepare import observe, plan_of_all
from aggregator.model.errors import RefusedError
from aggregator.model.values import UNKNOWN_LOG, SourcePartition
from aggregator.plan.plan import Plan
from aggregator.plan.positions.recovery import hub_topics_of, plan_tail
from aggregator.store.checkpoint.checkpoint_table import stored_state
from aggregator.store.checkpoint.past_commits import Past, fitting, least
from aggregator.store.state_store import StateStore

NEEDS = "a backfill is compared with the live logs"


@dataclass(frozen=True, slots=True)
class BackfillOrder:
    """The backfill to order; it has no id yet. `hub_offsets` are read before it begins."""

    backfill: Backfill
    plan: BackfillPlan
    hub_offsets: int

    def report(self, config: Config, backfill: Backfill | None, *, running: bool) -> BackfillReport:
        """The order as a document; of a dry run without the backfill that was ordered."""
        return BackfillReport(
            name=config.name,
            dry_run=backfill is None,
            running=running,
            backfill=backfill_status(backfill or self.backfill),
            hub_offsets=self.hub_offsets,
            notes=self.plan.notes,
        )


def propose_backfill(config: Config, request: BackfillRequest, by: str) -> BackfillOrder:
    """Resolve an order to ranges.

    Raises RefusedError with every problem, ClusterError when the hub or the source does not answer,
    CheckpointError when the checkpoint cannot be read.
    """
    plan = plan_of_all(config, config.chosen(request.source), NEEDS)
    routes = [it for it in plan.routes if (it.cluster, it.topic) == (request.source, request.topic)]
    named = [sp for route in routes for sp in route.source_partitions() if request.names(sp)]
    _check_possible(plan, request, named)
    place = config.checkpoint
    state = stored_state(place)
    ids = ids_of(plan, named)
    known = BackfillTable(StateStore.of(place)).load()
    busy = busy_with(known.values())
    logs = observe(config, plan, routes).offsets
    begins = _offsets_at(config, named, request.from_time_ms)
    ends = _offsets_at(config, named, request.until_time_ms)
    places = [
        BeforeBackfill(
            it.partition,
            logs.get(it.partition),
            it.position,
            begins.get(it.partition),
            ends.get(it.partition),
            it.other_log,
            it.cut,
            busy[it.partition].id if it.partition in busy else "",
        )
        for it in places_of(ids, state, {}, cuts_of(config, ids))
    ]
    found = plan_backfill(request, places, compacted=_compacted(plan, routes[0].hub_topic))
    if found.problems:
        raise RefusedError(found.problems)
    starts = {part.partition: part.start for part in found.parts}
    past = Past(place.path, place.storage_options, ids)
    hub = hub_logs_of(config, plan)
    cluster, hub_ids = plan.hub.cluster_id, plan.hub_ids
    bound = least(fitting(it, cluster, hub, hub_ids) for it in past.bounds(starts).values())
    now = datetime.now(UTC)
    backfill = Backfill(
        id="",
        cluster=request.source,
        topic=request.topic,
        parts=found.parts,
        ordered_at=now,
        at=now,
        log=next(iter(ids.values()), UNKNOWN_LOG),
        bound=bound.hub_ends,
        by=by,
        records_per_second=request.records_per_second,
        bytes_per_second=request.bytes_per_second,
    )
    topics = hub_topics_of(routes, set(starts))
    read = {tp: log for tp, log in hub.items() if tp.topic in topics}
    tail = plan_tail(backfill.positions, bound.hub_ends, read)
    own = {tp: end for tp, end in bound.hub_ends.items() if tp.topic in topics}
    return BackfillOrder(replace(backfill, bound=own), found, tail.offsets)


def _check_possible(plan: Plan, request: BackfillRequest, named: Sequence[SourcePartition]) -> None:
    """Raise RefusedError when nothing of the request is selected, or no lane has room."""
    if not named:
        what = f"{request.source}/{request.topic}"
        if request.partition is not None:
            what += f"-{request.partition}"
        raise RefusedError([f"{what} is not selected, or is not there"])
    if not plan.slots.has_room:
        raise RefusedError(
            [
                f"spark.master = {plan.slots.master} has no task slot for a lane beside those that "
                "run: a backfill needs one"
            ]
        )


def _compacted(plan: Plan, hub_topic: str) -> str:
    """The hub topic, when it is compacted."""
    topic = plan.hub_topics.get(hub_topic)
    return hub_topic if topic is not None and "compact" in topic.cleanup_policy else ""


def _offsets_at(
    config: Config, partitions: list[SourcePartition], moment: int | None
) -> dict[SourcePartition, int]:
    """The first offset of that time or later; of an end of time the log's end."""
    if moment is None:
        return {}
    alias = partitions[0].cluster
    with open_admin(config, alias) as admin:
        timeout = config.supervision.connect_timeout
        found = admin.offsets_at(moment, [sp.topic_partition for sp in partitions], timeout)
    return {SourcePartition(alias, *tp): at for tp, at in found.items()}
