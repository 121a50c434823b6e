"""The inputs of an audit before records are read: checkpoint, hub and sources, in this order.

The order is what makes the comparison right while an instance runs: what is below the checkpoint's
positions is in the hub when its ends are read, and what is in the hub then is in the sources when
theirs are read after it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from aggregator.config.schema import Config
from aggregator.features.backfill.backfill_table import BackfillTable
from aggregator.features.verify.audit_scope import AuditSight, Scope, Standing, Window, plan_windows
from aggregator.features.verify.bounds import Bounds
from aggregator.features.verify.hub_ranges import (
    Accounted,
    accounted_backfills,
    accounted_gaps,
    hub_ranges,
    trimmed,
    unread,
    with_backfilled,
)
from aggregator.kafka.admin import HUB, by_partition, discover, each_cluster, hub_facts, open_admin
from aggregator.kafka.discovery.hub_logs import complete_logs
from aggregator.kafka.discovery.prepare import observe, partitions_by_cluster, plan_with
from aggregator.model.values import OffsetRange, Route, SourcePartition, TopicPartition
from aggregator.plan.plan import Plan
from aggregator.plan.positions.start import Observed
from aggregator.plan.snapshot import is_selected
from aggregator.plan.topics.naming import naming_of
from aggregator.plan.topics.quarantine_topics import APPEND_TIME, aside_topics
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore


@dataclass(frozen=True, slots=True)
class AuditLook:
    """The windows to compare, and what is known about their hub topics.

    `hub` is what to read of them; `unread` offsets of a hub topic are older than that.
    `lost`, `proven`, `set_aside` and `put_back` are as in `JobSettings`. `known` are all partitions
    whose records may be in the hub.
    """

    plan: Plan
    windows: tuple[Window, ...]
    hub: Mapping[TopicPartition, OffsetRange]
    unread: Mapping[str, int]
    quarantine: Mapping[TopicPartition, OffsetRange]
    lost: Mapping[TopicPartition, int]
    proven: Mapping[SourcePartition, int]
    set_aside: Mapping[TopicPartition, Mapping[SourcePartition, int]]
    put_back: frozenset[SourcePartition]
    known: frozenset[SourcePartition]
    stamped: frozenset[str]
    accounted: tuple[Accounted, ...]
    unreachable: Mapping[str, str]
    commit: int | None


def look(config: Config, scope: Scope) -> AuditLook:
    """Ask all clusters. ClusterError when the hub does not answer, CheckpointError when that fails.

    A source that does not answer is in `unreachable`.
    """
    place = config.checkpoint
    table = CheckpointTable.open(place.path, place.storage_options)
    state = table.load() if table is not None else None
    gaps = GapTable(StateStore.of(place)).load()
    backfills = BackfillTable(StateStore.of(place)).load()
    found = discover(config)
    plan = plan_with(config, found, hub_facts(found))
    failed = {alias: str(it) for alias, it in plan.failed.items() if scope.source in (None, alias)}
    entries = state.entries if state is not None else {}
    routes = [*plan.routes, *_remembered(config, plan, entries)]
    asked = [r for r in routes if any(scope.takes(sp) for sp in r.source_partitions())]
    asides = aside_topics(config)
    logs = _hub_logs(config, {*(r.hub_topic for r in asked), *asides})
    observed = observe(config, plan, [r for r in asked if r.cluster not in plan.failed])
    bounds = _bounds(config, plan, routes, observed)
    filled = accounted_backfills(backfills.values(), observed)
    sight = AuditSight(
        routes=asked,
        observed=observed,
        known=state.remembered() if state is not None else None,
        begun=with_backfilled(bounds.begun(), filled),
        starts={alias: source.start for alias, source in config.sources.items()},
        since=_offsets_at(config, scope.since_ms, asked, plan.failed),
        until=_offsets_at(config, scope.until_ms, asked, plan.failed),
        unreachable=failed,
        source_topics={
            (alias, name): topic
            for alias, facts in plan.sources.items()
            for name, topic in facts.topics.items()
        },
        hub_topics=plan.hub.topics,
    )
    windows = plan_windows(scope, sight)
    topics = {window.hub_topic for window in windows}
    ours = {tp: log for tp, log in logs.items() if tp.topic in topics}
    aside = {tp: log for tp, log in logs.items() if tp.topic in asides}
    lost, hub = trimmed(ours), hub_ranges(ours, bounds.hub_starts(_lowers(windows)))
    return AuditLook(
        plan=plan,
        windows=windows,
        hub=hub,
        unread=unread(ours, hub),
        quarantine={tp: log for tp, log in aside.items() if log.earliest < log.latest},
        lost=lost,
        proven=bounds.kept_from(lost) if lost else {},
        set_aside={
            tp: bounds.kept_from({tp: start}, into=tp.topic) for tp, start in trimmed(aside).items()
        },
        put_back=bounds.put_back(),
        known=_known(config, plan, routes) | entries.keys(),
        stamped=_stamped(plan, topics),
        accounted=(*accounted_gaps(gaps.values(), observed), *filled),
        unreachable=failed,
        commit=state.seq if state is not None else None,
    )


def _known(config: Config, plan: Plan, routes: Iterable[Route]) -> frozenset[SourcePartition]:
    """The partitions of the routes, and the selected ones that the sources have by now.

    Some may have come after the plan was made, and be copied before the ends of the hub were read.
    """
    timeout = config.supervision.connect_timeout
    answers = each_cluster(config, plan.sources, lambda admin: admin.partition_counts(timeout)).ok
    routed = {sp for route in routes for sp in route.source_partitions()}
    return frozenset(routed).union(
        SourcePartition(alias, topic, number)
        for alias, counts in answers.items()
        for topic, count in counts.items()
        if is_selected(config, (alias, topic))
        for number in range(count)
    )


def _bounds(config: Config, plan: Plan, routes: Sequence[Route], observed: Observed) -> Bounds:
    return Bounds(
        config.checkpoint.path,
        config.checkpoint.storage_options,
        {(r.cluster, r.topic): r.hub_topic for r in routes},
        observed.topic_ids,
        {name: topic.topic_id for name, topic in plan.hub.topics.items()},
    )


def _stamped(plan: Plan, topics: Collection[str]) -> frozenset[str]:
    """Those of these hub topics whose timestamps are their own (LogAppendTime)."""
    found = {name: plan.hub.topics[name] for name in topics if name in plan.hub.topics}
    return frozenset(name for name, it in found.items() if it.timestamp_type == APPEND_TIME)


def _lowers(windows: Sequence[Window]) -> dict[SourcePartition, int]:
    """Where the windows begin, for the hub topics in which every one that is judged has a begin."""
    silent = {it.hub_topic for it in windows if it.standing is Standing.UNREACHABLE}
    return {
        it.partition: it.read.earliest
        for it in windows
        if it.compared and it.hub_topic not in silent
    }


def _remembered(config: Config, plan: Plan, entries: Collection[SourcePartition]) -> list[Route]:
    """Routes of the sources that give no answer, as far as the checkpoint knows them."""
    counts: dict[tuple[str, str], int] = {}
    for sp in entries:
        if sp.cluster in plan.failed:
            key = (sp.cluster, sp.topic)
            counts[key] = max(counts.get(key, 0), sp.partition + 1)
    routes = []
    for (alias, topic), partitions in counts.items():
        hub_topic = naming_of(config, alias).of(topic).name
        facts = plan.hub.topics.get(hub_topic)
        transform = config.topics.rules_for(hub_topic).transform
        hub_partitions = facts.partitions if facts is not None else 0
        routes.append(
            Route(alias, topic, hub_topic, partitions, hub_partitions, transform=transform)
        )
    return routes


def _hub_logs(config: Config, topics: Collection[str]) -> dict[TopicPartition, OffsetRange]:
    """What the hub holds of these topics now; one that does not exist holds nothing."""
    timeout = config.supervision.connect_timeout
    with open_admin(config, HUB) as hub:
        return complete_logs(hub, topics, hub.partition_counts(timeout), timeout)


def _offsets_at(
    config: Config, moment_ms: int | None, routes: Sequence[Route], failed: Collection[str]
) -> dict[SourcePartition, int]:
    """The first offset of that time or later; a source that does not answer is left out."""
    if moment_ms is None:
        return {}
    timeout = config.supervision.connect_timeout
    wanted = partitions_by_cluster(it for it in routes if it.cluster not in failed)
    return by_partition(
        each_cluster(
            config,
            wanted,
            lambda admin: admin.offsets_at(moment_ms, wanted[admin.alias], timeout),
        ).ok
    )
