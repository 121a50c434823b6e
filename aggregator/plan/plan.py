"""The whole plan as one value: routes, actions at the hub, lanes, slots, warnings, refusals."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from aggregator.config.schema import Config
from aggregator.model.errors import RefusedError
from aggregator.model.values import (
    ClusterFacts,
    ClusterFailure,
    Discovery,
    Lane,
    Route,
    SourcePartition,
    TopicFacts,
)
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic, GrowTopic
from aggregator.plan.identities import NO_IDS
from aggregator.plan.lanes.lanes import plan_lanes
from aggregator.plan.lanes.producer import is_local, short_expiry
from aggregator.plan.lanes.rate_limits import Pace, plan_pace
from aggregator.plan.lanes.slots import SlotPlan, plan_slots, tasks_per_source
from aggregator.plan.refusals import NOTHING_REFUSED, LeftOutConfig, Refusals, words_of
from aggregator.plan.topics.after_apply import facts_after
from aggregator.plan.topics.heartbeats_topic import plan_heartbeats
from aggregator.plan.topics.hub_topics import (
    Flowing,
    HubTopic,
    HubTopicsPlan,
    LeftOutTopic,
    plan_hub_topics,
)
from aggregator.plan.topics.quarantine_topics import aside_topics, plan_duplicates, plan_quarantine
from aggregator.plan.topics.refused_records import plan_poison, room_in
from aggregator.plan.topics.retention import history_warnings
from aggregator.plan.topics.routes import Matching, SkippedTopic, match_topics, plan_routes
from aggregator.plan.topics.whole_batches import with_whole_batches


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan. With refusals in it nothing may be done."""

    hub: ClusterFacts
    sources: Mapping[str, ClusterFacts]
    failed: Mapping[str, ClusterFailure]
    routes: tuple[Route, ...]
    hub_topics: Mapping[str, HubTopic]
    actions: tuple[Action, ...]
    lanes: tuple[Lane, ...]
    slots: SlotPlan
    skipped: tuple[SkippedTopic, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    refused: tuple[LeftOutTopic, ...] = ()
    """Topics that are not taken, though they are selected: all others are."""
    pace: Pace = field(default_factory=Pace)
    tasks: int = 1
    """How many tasks each source has at most, but for those in `own_tasks` (alias -> tasks)."""
    own_tasks: Mapping[str, int] = field(default_factory=dict)
    beside: tuple[Action, ...] = ()
    """Optional changes at the hub: when one is refused, nothing waits for it."""
    creating: frozenset[str] = frozenset()
    """Hub topics that are being created: what flows into them waits, and nothing else does."""
    history: tuple[str, ...] = ()
    """The warnings about the age of the sources' records, which a first plan knows."""
    created: Mapping[str, str] = field(default_factory=dict)
    """Hub topics that were created for this plan -> their ids."""
    hub_ids: Mapping[str, str] = field(init=False, repr=False, compare=False)
    """Hub topic -> its id, where that is known."""

    def __post_init__(self) -> None:
        ids = {name: it.topic_id for name, it in self.hub.topics.items()} | dict(self.created)
        known = {name: it for name, it in ids.items() if it not in NO_IDS}
        object.__setattr__(self, "hub_ids", known)

    def tasks_of(self, alias: str) -> int:
        """How many tasks a source has at most."""
        return self.own_tasks.get(alias, self.tasks)

    @property
    def waiting(self) -> frozenset[SourcePartition]:
        """Source partitions whose hub topic is being created."""
        return frozenset(
            sp
            for route in self.routes
            if route.hub_topic in self.creating
            for sp in route.source_partitions()
        )

    def raise_if_refused(self) -> None:
        """RefusedError with every refusal, when there is one."""
        if self.refusals:
            raise RefusedError(self.refusals)

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data: the same that `aggregator plan` shows as a table."""
        return {
            "hub": _cluster(self.hub),
            "sources": {alias: _cluster(facts) for alias, facts in self.sources.items()},
            "failed": {
                alias: {"kind": str(it.kind), "reason": it.reason, "hint": it.hint}
                for alias, it in self.failed.items()
            },
            "routes": [_route(route) for route in self.routes],
            "actions": [_action(action) for action in (*self.actions, *self.beside)],
            "lanes": [
                {
                    "name": lane.name,
                    "limits": {
                        alias: {"records_per_second": it.records, "bytes_per_second": it.bytes_}
                        for alias in lane.clusters
                        if (it := self.pace.limits.get(alias)) is not None
                    },
                    "partitions": [str(sp) for sp in lane.partitions],
                }
                for lane in self.lanes
            ],
            "slots": {
                "master": self.slots.master,
                "slots": self.slots.slots,
                "required": self.slots.required,
            },
            "tasks_per_source": self.tasks,
            "own_tasks": dict(self.own_tasks),
            "skipped": [asdict(it) for it in self.skipped],
            "warnings": list(self.warnings),
            "refusals": list(self.refusals),
            "refused_topics": [_refused(it) for it in self.refused],
        }


def make_plan(
    config: Config,
    discovery: Discovery,
    hub: ClusterFacts,
    *,
    ages_ms: Mapping[tuple[str, str], int] | None = None,
    cores: int | None = None,
    flowing: Collection[Flowing] = (),
    refusals: Refusals = NOTHING_REFUSED,
) -> Plan:
    """Decide everything from the config and the clusters as discovered; changes nothing.

    `flowing` is what is copied already, and `refusals` what the hub does not take. `ages_ms` of the
    oldest records by (alias, topic) are judged against retention. Refusals are in the result, not
    raised.
    """
    matching, hub_plan = _match(config, discovery, hub, flowing, refusals)
    ours = _plan_ours(config, matching, hub, refusals)
    actions = (*hub_plan.actions, *ours.actions)
    routes = plan_routes(config, matching, hub_plan.topics)
    after = facts_after(hub, actions)
    routes = _with_limits(config, routes, matching, after, ours)
    routes, recordwise = with_whole_batches(config, routes, after)
    tasks = _plan_tasks(config, routes, cores)
    history = history_warnings(routes, hub_plan.topics, ages_ms or {})
    refused = (*matching.refusals, *hub_plan.refusals, *ours.refusals, tasks.slots.refusal)
    warnings = (
        *matching.warnings,
        *hub_plan.warnings,
        *words_of((*hub_plan.without, *ours.without)),
        *ours.warnings,
        *recordwise,
        short_expiry(hub.producer_expiry_ms),
        *history,
        tasks.slots.warning,
    )
    partitions = [sp for route in routes for sp in route.source_partitions()]
    return Plan(
        hub=hub,
        sources={alias: it for alias in config.sources if (it := discovery.ok.get(alias))},
        failed={alias: why for alias in config.sources if (why := discovery.failed.get(alias))},
        routes=routes,
        hub_topics={**hub_plan.topics, **ours.topics},
        actions=actions,
        lanes=plan_lanes(partitions, config.stream.lanes, room=tasks.slots.has_room),
        slots=tasks.slots,
        skipped=matching.skipped,
        warnings=tuple(warning for warning in warnings if warning),
        refusals=tuple(refusal for refusal in refused if refusal),
        refused=(*matching.refused, *hub_plan.refused),
        pace=plan_pace(config),
        tasks=tasks.each,
        own_tasks=tasks.own,
        beside=ours.beside,
        history=history,
    )


def _match(
    config: Config,
    discovery: Discovery,
    hub: ClusterFacts,
    flowing: Collection[Flowing],
    refusals: Refusals,
) -> tuple[Matching, HubTopicsPlan]:
    """The selected routes whose hub topic is possible; and the hub topics."""
    matching = match_topics(config, discovery, hub, flowing)
    found = plan_hub_topics(
        config.topics,
        matching.contributions,
        hub,
        flowing,
        refusals=refusals,
        aside=aside_topics(config),
    )
    return replace(matching, contributions=found.contributions), found


def replanned(
    plan: Plan,
    config: Config,
    refusals: Refusals,
    *,
    cores: int | None,
    flowing: Collection[Flowing],
) -> Plan:
    """The plan for the same clusters, without what the hub has refused since."""
    found = Discovery(plan.sources, plan.failed)
    new = make_plan(config, found, plan.hub, cores=cores, flowing=flowing, refusals=refusals)
    return replace(new, history=plan.history, warnings=(*new.warnings, *plan.history))


@dataclass(frozen=True, slots=True)
class _Ours:
    """The aggregation's own hub topics: quarantine, duplicates and heartbeats."""

    quarantine: str
    duplicates: str
    topics: Mapping[str, HubTopic]
    actions: tuple[Action, ...]
    beside: tuple[Action, ...]
    without: tuple[LeftOutConfig, ...]
    warnings: tuple[str, ...]
    refusals: tuple[str, ...]


def _plan_ours(config: Config, matching: Matching, hub: ClusterFacts, refusals: Refusals) -> _Ours:
    quarantine = plan_quarantine(config, matching.contributions, hub)
    duplicates = plan_duplicates(config, matching.contributions, hub)
    heartbeats = plan_heartbeats(config, matching.contributions, hub)
    without: list[LeftOutConfig] = []
    actions: list[Action] = []
    wrong = [*quarantine.refusals, *duplicates.refusals]
    for action in (*quarantine.actions, *duplicates.actions):
        adapted = refusals.adapted(action, hub.topics, without)
        if adapted is None:
            continue
        if not (why := refusals.why_not(adapted)):
            actions.append(adapted)
        elif isinstance(adapted, CreateTopic):
            wrong.append(f"{adapted}: the hub refuses it: {why}")
    return _Ours(
        quarantine=quarantine.name,
        duplicates=duplicates.name,
        topics={**quarantine.topics, **duplicates.topics},
        actions=tuple(actions),
        beside=heartbeats.actions,
        without=tuple(without),
        warnings=(*quarantine.warnings, *duplicates.warnings, *heartbeats.warnings),
        refusals=(*wrong, *heartbeats.refusals),
    )


def _with_limits(
    config: Config,
    routes: tuple[Route, ...],
    matching: Matching,
    after: Mapping[str, TopicFacts],
    ours: _Ours,
) -> tuple[Route, ...]:
    """The routes with what their hub topics take once the actions are done."""
    poison = plan_poison(config, matching.contributions, after, ours.quarantine)
    room = room_in(ours.duplicates, config, matching.contributions, after)
    return tuple(
        replace(
            route,
            poison=poison.get((route.cluster, route.topic), route.poison),
            dedup=replace(route.dedup, duplicate_bytes=room) if route.dedup else None,
        )
        for route in routes
    )


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The slots, and how many tasks a source has: `each`, or by its alias in `own`."""

    slots: SlotPlan
    each: int
    own: Mapping[str, int]


def _plan_tasks(config: Config, routes: tuple[Route, ...], cores: int | None) -> _Tasks:
    # A transform sees only the topics that asked for it, so it has readers of its own.
    readers = {(route.cluster, route.transform) for route in routes}
    own = {alias: it.tasks for alias, it in config.sources.items() if it.tasks is not None}
    taken = sum(own.get(alias, 0) for alias, _ in readers)
    others = sum(alias not in own for alias, _ in readers)
    slots = plan_slots(config.spark.master, taken + others, config.spark.conf, cores)
    left = None if slots.slots is None else slots.slots - taken
    # The tasks have this machine's cores, or on executors as many as there are slots.
    here = cores or 1
    own_cores = here if is_local(config.spark.master) else slots.slots or here
    return _Tasks(slots, tasks_per_source(own_cores, others, left), own)


def _cluster(facts: ClusterFacts) -> dict[str, Any]:
    return {"cluster_id": facts.cluster_id, "brokers": facts.brokers, "topics": len(facts.topics)}


def _refused(topic: LeftOutTopic) -> dict[str, Any]:
    sources = [f"{alias}/{name}" for alias, name in topic.sources]
    return {"hub_topic": topic.hub_topic, "sources": sources, "reason": topic.reason}


def _route(route: Route) -> dict[str, Any]:
    return {
        "cluster": route.cluster,
        "topic": route.topic,
        "hub_topic": route.hub_topic,
        "partitions": route.partitions,
        "hub_partitions": route.hub_partitions,
        "partition_by": route.partition_by,
        "transform": route.transform,
        "on_poison": route.poison.quarantine or "stop",
        "limits": asdict(route.poison.limits),
        "origin": route.origin,
        "schemas": route.schemas,
        "dedup": route.dedup
        and {"by": route.dedup.by, "window_seconds": route.dedup.window_ms / 1000},
        "copy_as": "batches" if route.batch_bytes else "records",
    }


def _action(action: Action) -> dict[str, Any]:
    match action:
        case CreateTopic(name, partitions, replication_factor, configs):
            return {
                "action": "create",
                "topic": name,
                "partitions": partitions,
                "replication_factor": replication_factor,
                "configs": dict(configs),
            }
        case GrowTopic(name, before, after):
            return {"action": "grow", "topic": name, "from": before, "to": after}
        case AlterConfigs(name, changes):
            return {
                "action": "alter",
                "topic": name,
                "configs": {key: {"from": old, "to": new} for key, (old, new) in changes.items()},
            }
