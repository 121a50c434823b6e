"""Translates committed offsets of a group to offsets at the hub, from the clusters' answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event, Semaphore
from typing import Any

from aggregator.config.schema import Config
from aggregator.datapath.connector.hub_origins import OpenOrigins, ProcessOrigins
from aggregator.features.backfill.backfill_table import BackfillTable
from aggregator.features.groups.batch_scan import in_batches
from aggregator.features.groups.group_admin import AT_ONCE, ask_states, committed_by_all
from aggregator.features.groups.hub_offsets import (
    Commits,
    HubPlace,
    HubScan,
    KnownPosition,
    OriginFeed,
    Wanted,
    plan_topics,
)
from aggregator.features.groups.hub_scan import (
    ReadProgress,
    Scan,
    ScanLimits,
    plan_shared,
    read_scans,
)
from aggregator.kafka.admin import ClusterAdmin
from aggregator.kafka.admin.parallel import LATE_SECONDS, Replies, ask_all
from aggregator.kafka.discovery.hub_logs import patient_topics
from aggregator.kafka.discovery.prepare import partitions_by_cluster, plan_of_all
from aggregator.model.errors import ClusterError
from aggregator.model.values import LogId, OffsetRange, Route, SourcePartition, TopicPartition
from aggregator.plan.plan import Plan
from aggregator.store.checkpoint.checkpoint_table import stored_state
from aggregator.store.checkpoint.identity import identity_of
from aggregator.store.checkpoint.past_commits import Past, ProvenBound, fitting
from aggregator.store.checkpoint.rows import HUB as HUB_ALIAS
from aggregator.store.checkpoint.start_state import CheckpointState
from aggregator.store.state_store import StateStore


@dataclass(frozen=True, slots=True)
class GroupSight:
    """What is known beside the groups: routes, ids as they are now, what the checkpoint says.

    `aliases` are the sources that may constrain a group, `hub_topics` those that are there.
    """

    config: Config
    aliases: tuple[str, ...]
    routes: tuple[Route, ...]
    ids: Mapping[tuple[str, str], LogId]
    hub_id: str
    hub_topics: Mapping[str, LogId]
    state: CheckpointState

    def is_like(self, other: GroupSight) -> bool:
        """Whether both are of the same topics and logs, at the sources and at the hub."""
        return (self.routes, self.ids, self.hub_id, self.hub_topics) == (
            other.routes,
            other.ids,
            other.hub_id,
            other.hub_topics,
        )

    def topics_of(self, alias: str) -> list[TopicPartition]:
        """The partitions of a source that are copied."""
        return partitions_by_cluster(self.routes).get(alias, [])


@dataclass(frozen=True, slots=True)
class SourceGroup:
    """A group at one source: its state there, "" where it is not, and what it has committed."""

    alias: str
    state: str
    commits: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicPlaces:
    """One hub topic: where the group continues in it; none with refusals in `wanted`.

    `read` are records that were read for it. `notes` are for people.
    """

    wanted: Wanted
    places: tuple[HubPlace, ...] = ()
    read: int = 0
    notes: tuple[str, ...] = ()


Logs = Mapping[TopicPartition, OffsetRange]
"""What the partitions of one hub topic hold."""


@dataclass(slots=True)
class HubReading:
    """How the hub is read: by when (monotonic), how many records of a partition at most.

    `disordered` are source partitions of which old records may have been written late. `floors` are
    hub offsets below which nothing is that the group has not read, where that is known; with
    `pinned` it may be there already, so that what others write there counts from there on. `silent`
    are hub topics that did not report where they end, and why: they are not asked again. `logs` are
    what hub topics held when one of these groups needed them, by topic; those of the others began
    before that as well. `open_origins` reads where records without an origin in their headers are
    from.
    """

    deadline: float
    disordered: frozenset[SourcePartition] = frozenset()
    floors: Mapping[TopicPartition, int] = field(default_factory=dict)
    pinned: bool = False
    most: int | None = None
    silent: dict[str, str] = field(default_factory=dict)
    logs: dict[str, Logs] = field(default_factory=dict)
    report: Callable[[ReadProgress], None] = lambda _: None
    stop: Event | None = None
    open_origins: OpenOrigins = ProcessOrigins


def sight_of(
    config: Config, plan: Plan, aliases: Collection[str], state: CheckpointState
) -> GroupSight:
    """The sight of a plan and a state of the checkpoint."""
    now, own = identity_of(plan), frozenset(aliases)
    return GroupSight(
        config,
        tuple(aliases),
        tuple(route for route in plan.routes if route.cluster in own),
        {key: LogId(now.cluster_ids.get(key[0], ""), it) for key, it in now.topic_ids.items()},
        plan.hub.cluster_id,
        {name: LogId(plan.hub.cluster_id, it.topic_id) for name, it in plan.hub.topics.items()},
        state,
    )


def look(config: Config, aliases: Sequence[str]) -> GroupSight:
    """Ask these sources, and the hub.

    Raises ClusterError when the hub or a source does not answer: a group may be there.
    """
    plan = plan_of_all(config, aliases, "a group may be at each source")
    return sight_of(config, plan, aliases, stored_state(config.checkpoint))


MOST_AT_ONCE = 64
"""How many groups of all sources are queried at the same time, each by a client of its own.
Hundreds of clients with a few threads each would wait for each other, and their time runs."""


def states_at(config: Config, clusters: Collection[str]) -> dict[str, dict[str, str]]:
    """Cluster (alias, or HUB) -> its groups and their states. ClusterError when one is silent."""
    replies = ask_states(config, clusters)
    return {alias: replies.of(alias) for alias in clusters}


def at_sources(
    sight: GroupSight, groups: Mapping[str, Sequence[str]], states: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[SourceGroup, ...] | ClusterError]:
    """Each group at its sources (aliases), or why one of these does not answer."""
    config, timeout = sight.config, sight.config.supervision.connect_timeout
    names = {it: [group for group, own in groups.items() if it in own] for it in sight.aliases}
    partitions = partitions_by_cluster(sight.routes)
    slots = Semaphore(MOST_AT_ONCE)

    def job(alias: str) -> Committed:
        return committed_by_all(
            alias, config.sources[alias], names[alias], partitions.get(alias, ()), timeout, slots
        )

    turns = 1 + max(map(len, names.values()), default=0) // AT_ONCE
    turns += sum(map(len, names.values())) // MOST_AT_ONCE
    jobs = {it: partial(job, it) for it in sight.aliases}
    replies = ask_all(jobs, timeout * turns + LATE_SECONDS)
    found: dict[str, tuple[SourceGroup, ...] | ClusterError] = {}
    for group, aliases in groups.items():
        try:
            found[group] = tuple(_at_source(it, group, replies, states) for it in aliases)
        except ClusterError as error:
            found[group] = error
    return found


Committed = tuple[Mapping[str, Mapping[TopicPartition, int]], Mapping[str, ClusterError]]


def _at_source(
    alias: str, group: str, replies: Replies[Committed], states: Mapping[str, Mapping[str, str]]
) -> SourceGroup:
    commits, failed = replies.of(alias)
    if group in failed:
        raise failed[group]
    return SourceGroup(alias, states.get(alias, {}).get(group, ""), commits[group])


def past_of(sight: GroupSight, earlier: Past | None = None) -> Past:
    """The history of all that is copied; only what is new since, with an `earlier` one."""
    place = sight.config.checkpoint
    partitions = {
        sp: sight.ids[sp.cluster, sp.topic]
        for route in sight.routes
        if (route.cluster, route.topic) in sight.ids
        for sp in route.source_partitions()
    }
    return Past(place.path, place.storage_options, partitions, earlier)


def backfilled_of(sight: GroupSight) -> frozenset[SourcePartition]:
    """Partitions of which older records came, or come, behind later ones."""
    return BackfillTable(StateStore.of(sight.config.checkpoint)).partitions()


@dataclass(frozen=True, slots=True)
class PreparedGroup:
    """The translation of a group before the hub is read: what is looked for, and where."""

    topics: tuple[Wanted, ...]
    scans: Mapping[TopicPartition, HubScan]
    logs: Mapping[str, Logs]
    lowers: Mapping[SourcePartition, ProvenBound]

    def places(self, past: Past) -> tuple[TopicPlaces, ...]:
        """Where the group continues, per hub topic; once all scans are done."""
        lowest = past.lowest()
        return tuple(_places(it, self, lowest) for it in self.topics)


Bounds = dict[SourcePartition, ProvenBound]


class SharedPast:
    """A history in which each target is looked up once, and those of several groups together.

    What it says of a partition depends on that partition and its target alone.
    """

    def __init__(self, past: Past) -> None:
        self.past = past
        self._lowers: dict[tuple[SourcePartition, int, bool], ProvenBound] = {}
        self._uppers: dict[tuple[SourcePartition, int, bool], ProvenBound | None] = {}

    def look_up(self, targets: Mapping[SourcePartition, int], *, recent: bool) -> None:
        """Find the bounds of these, in one go. Raises CheckpointError."""
        lowers = self.past.bounds(targets, recent=recent)
        uppers = self.past.tops(targets, recent=recent)
        for sp, at in targets.items():
            # What is in the other one is known: several threads may ask.
            self._uppers[sp, at, recent] = uppers.get(sp)
            self._lowers[sp, at, recent] = lowers[sp]

    def bounds(
        self, targets: Mapping[SourcePartition, int], *, recent: bool
    ) -> tuple[Bounds, Bounds]:
        """What `Past.bounds` and `Past.tops` say of these targets. Raises CheckpointError."""
        new = {sp: at for sp, at in targets.items() if (sp, at, recent) not in self._lowers}
        if new:
            self.look_up(new, recent=recent)
        uppers = {sp: self._uppers[sp, at, recent] for sp, at in targets.items()}
        return (
            {sp: self._lowers[sp, at, recent] for sp, at in targets.items()},
            {sp: it for sp, it in uppers.items() if it is not None},
        )


def in_layers(targets: Iterable[Mapping[SourcePartition, int]]) -> list[dict[SourcePartition, int]]:
    """All these targets, each once, in as few parts as can have one of a partition each."""
    layers: list[dict[SourcePartition, int]] = []
    seen: dict[SourcePartition, int] = {}
    for sp, at in sorted({pair for own in targets for pair in own.items()}):
        number = seen.get(sp, 0)
        seen[sp] = number + 1
        if number == len(layers):
            layers.append({})
        layers[number][sp] = at
    return layers


def planned(sight: GroupSight, groups: Mapping[str, Commits]) -> dict[str, tuple[Wanted, ...]]:
    """The hub topics into which groups with these commits are translated."""
    known = {sp: KnownPosition(it.position, it.log) for sp, it in sight.state.entries.items()}
    hub_ids = (sight.state.cluster_ids.get(HUB_ALIAS, ""), sight.hub_id)
    return {
        group: plan_topics(commits, sight.routes, known, sight.ids, hub_ids, sight.hub_topics)
        for group, commits in groups.items()
    }


def translated(
    sight: GroupSight,
    hub: ClusterAdmin,
    topics: Sequence[Wanted],
    reading: HubReading,
    shared: SharedPast,
) -> tuple[TopicPlaces, ...]:
    """Where a group continues in these hub topics; `hub` is the hub's client.

    Raises ClusterError and CheckpointError.
    """
    found = prepared(sight, hub, topics, reading, shared)
    _read(sight, found.scans, reading)
    return found.places(shared.past)


TOGETHER = 50
"""The number of groups for which the hub is read in one go."""

Translation = tuple[Commits, HubReading]
"""What a group has committed, and how the hub is read for it."""

Places = tuple[TopicPlaces, ...] | Exception
"""Where a group continues, or why that is not known."""

Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def all_translated(
    sight: GroupSight,
    hub: ClusterAdmin,
    groups: Mapping[str, Translation],
    past: Past,
    each: Mapper = map,
) -> dict[str, Places]:
    """The same for several groups: the hub's records are read once for all of them.

    `each` applies a function to values, as `map` does.
    """
    topics = planned(sight, {group: commits for group, (commits, _) in groups.items()})
    readings = {group: reading for group, (_, reading) in groups.items()}
    shared = SharedPast(past)

    def prepare(group: str) -> PreparedGroup | Exception:
        try:
            return prepared(sight, hub, topics[group], readings[group], shared)
        except Exception as error:  # it is of this group alone
            return error

    if not groups:
        return {}
    if len(groups) > 1:
        _look_up(sight, hub, [(topics[it], readings[it]) for it in groups], shared, each)
    begun = dict(zip(groups, each(prepare, groups), strict=True))
    found: dict[str, Places] = {
        group: it for group, it in begun.items() if isinstance(it, Exception)
    }
    ready = {group: it for group, it in begun.items() if isinstance(it, PreparedGroup)}
    try:
        # They are read alike; what is known of each of them is in its scans.
        reading = next(iter(readings.values()))
        for turn in plan_shared([it.scans for it in ready.values()], reading.most):
            _read(sight, turn, reading)
    except ClusterError:
        # It may be about a topic of one of them.
        for group in ready:
            try:
                found[group] = translated(sight, hub, topics[group], readings[group], shared)
            except Exception as error:
                found[group] = error
        return found
    return found | {group: it.places(past) for group, it in ready.items()}


def _look_up(
    sight: GroupSight,
    hub: ClusterAdmin,
    groups: Sequence[tuple[Sequence[Wanted], HubReading]],
    shared: SharedPast,
    each: Mapper,
) -> None:
    """Ask once for what all these groups need: where hub topics end, and bounds of the history.

    What fails here is asked again for each group, and is then a failure of that one alone.
    """
    wanted = [(it, reading) for own, reading in groups for it in own if not it.refusals]
    _, reading = groups[0]
    with suppress(Exception):
        _learn_logs(hub, [it for it, _ in wanted], sight.config, reading)

    def look(layer: tuple[dict[SourcePartition, int], bool]) -> None:
        targets, recent = layer
        with suppress(Exception):
            shared.look_up(targets, recent=recent)

    layers = [
        (layer, recent)
        for recent in (False, True)
        for layer in in_layers(it.commits for it, how in wanted if bool(how.floors) is recent)
    ]
    list(each(look, layers))


def _read(sight: GroupSight, scans: Mapping[TopicPartition, Scan], reading: HubReading) -> None:
    how = ScanLimits(
        sight.config.supervision.connect_timeout, reading.deadline, reading.report, reading.stop
    )
    hub = sight.config.hub
    # Batches may have been copied as they are while the config said so.
    batches = in_batches(reading.open_origins, hub, sight.routes, sight.state.entries)
    read_scans(hub, scans, how, batches)


def prepared(
    sight: GroupSight,
    hub: ClusterAdmin,
    wanted: Sequence[Wanted],
    reading: HubReading,
    shared: SharedPast,
) -> PreparedGroup:
    """What has to be read at the hub for a group that is wanted in these topics.

    Raises ClusterError and CheckpointError.
    """
    # Read after the commits were: what comes later lies behind these ends.
    _learn_logs(hub, wanted, sight.config, reading)
    logs: dict[str, Logs] = {it.hub_topic: reading.logs.get(it.hub_topic, {}) for it in wanted}
    topics = tuple(
        _without_cut(_if_reported(it, reading.silent), sight.state, logs[it.hub_topic])
        for it in wanted
    )
    good = [it for it in topics if not it.refusals]
    targets = {sp: at for it in good for sp, at in it.commits.items()}
    lowers, uppers = shared.bounds(targets, recent=bool(reading.floors))
    lowers, uppers = _that_fit(lowers, good, sight, logs), _that_fit(uppers, good, sight, logs)
    disordered = shared.past.set_back() | reading.disordered
    scans: dict[TopicPartition, HubScan] = {}
    for it in good:
        for tp, log in sorted(logs[it.hub_topic].items()):
            feeds = {
                sp: OriginFeed(
                    at,
                    max(lowers[sp].hub_ends.get(tp, 0), reading.floors.get(tp, 0)),
                    uppers[sp].hub_ends.get(tp) if sp in uppers else None,
                    sp not in disordered,
                )
                for sp, at in it.commits.items()
            }
            pin = reading.floors.get(tp) if reading.pinned else None
            scans[tp] = HubScan(feeds, log, reading.most, pin)
    return PreparedGroup(topics, scans, logs, lowers)


def _that_fit(
    bounds: Mapping[SourcePartition, ProvenBound],
    topics: Iterable[Wanted],
    sight: GroupSight,
    logs: Mapping[str, Logs],
) -> Bounds:
    """What of bounds is of a partition's own hub topic, and of the hub and the topic of now."""
    ids = {name: it.topic for name, it in sight.hub_topics.items()}
    found: Bounds = {}
    for it in topics:
        own = logs[it.hub_topic]
        # Partitions of one commit share a bound. It has the ends of thousands of other topics.
        fit: dict[int, ProvenBound] = {}
        for sp in it.commits:
            if (bound := bounds.get(sp)) is None:
                continue
            if id(bound) not in fit:
                ends = {tp: bound.hub_ends[tp] for tp in own if tp in bound.hub_ends}
                fit[id(bound)] = fitting(replace(bound, hub_ends=ends), sight.hub_id, own, ids)
            found[sp] = fit[id(bound)]
    return found


def _learn_logs(
    hub: ClusterAdmin, topics: Iterable[Wanted], config: Config, reading: HubReading
) -> None:
    """Note in `reading` what hub topics hold that it does not know yet. Raises ClusterError."""
    names = {it.hub_topic for it in topics if not it.refusals}
    unknown = names - reading.silent.keys() - reading.logs.keys()
    if not unknown:
        return
    found = patient_topics(hub, unknown, config.supervision.connect_timeout)
    logs: dict[str, dict[TopicPartition, OffsetRange]] = {
        name: {} for name in unknown - found.waits.keys()
    }
    for tp, log in found.logs.items():
        logs[tp.topic][tp] = log
    reading.silent.update(found.waits)
    # Each topic as a whole: several threads may ask.
    reading.logs.update(logs)


def _if_reported(wanted: Wanted, silent: Mapping[str, str]) -> Wanted:
    """Refused, when the hub does not report where the topic ends."""
    why = silent.get(wanted.hub_topic)
    if wanted.refusals or why is None:
        return wanted
    words = f"hub topic {wanted.hub_topic}: {why}: check the brokers that have its replicas"
    return replace(wanted, refusals=(words,))


def _without_cut(wanted: Wanted, state: CheckpointState, logs: Logs) -> Wanted:
    """Refused, when the hub topic, of which these are the logs, ends before what was written."""
    entries = [state.entries[sp] for sp in wanted.commits] if not wanted.refusals else []
    # The entries of a commit share its snapshot, which has the ends of thousands of other topics.
    snapshots = {id(it.snapshot): it.snapshot for it in entries}
    for snapshot in snapshots.values():
        for tp, log in logs.items():
            end = snapshot.hub_ends.get(tp, 0)
            if log.latest < end:
                why = (
                    f"hub topic {tp.topic} was created again or cut off: {tp} ends at "
                    f"{log.latest}, and was at {end} before"
                )
                return replace(wanted, refusals=(why,))
    return wanted


def _places(
    wanted: Wanted, group: PreparedGroup, lowest: Mapping[SourcePartition, int]
) -> TopicPlaces:
    """`lowest` has the oldest position that is known of each source partition."""
    logs, lowers = group.logs[wanted.hub_topic], group.lowers
    own = {tp: group.scans[tp] for tp in sorted(logs) if tp in group.scans}
    places = tuple(
        HubPlace(tp, scan.place, scan.again if scan.counted else None, scan.found)
        for tp, scan in own.items()
    )
    notes = []
    if wanted.waiting:
        left = sum(wanted.waiting.values())
        notes.append(
            f"{wanted.hub_topic} waits for the copy: {left} offsets that the group has read are "
            "not in the checkpoint yet; what of them comes later is read again as well"
        )
    if unknown := sorted(sp for sp in wanted.commits if sp in lowers and not lowers[sp].hub_ends):
        notes.append(
            f"{wanted.hub_topic}: the history of the checkpoint does not reach back to what the "
            f"group has committed of {_named(unknown)}; the hub topic was read from its beginning"
        )
    trimmed = sorted(
        tp
        for tp in own
        for sp in wanted.commits
        if lowers[sp].hub_ends.get(tp, logs[tp].earliest) < logs[tp].earliest
    )
    if trimmed:
        notes.append(
            f"{wanted.hub_topic}: the hub has deleted records that the group may not have read "
            f"({len(set(trimmed))} partitions begin behind where it was)"
        )
    never = sorted(sp for sp, at in wanted.commits.items() if 0 < at < lowest.get(sp, at))
    if never:
        notes.append(
            f"{wanted.hub_topic}: the oldest position that is known of {_named(never)} is behind "
            "what the group has committed: what is between may never have been copied"
        )
    read = sum(scan.read for scan in own.values())
    return TopicPlaces(wanted, places, read, tuple(notes))


def _named(partitions: Collection[SourcePartition]) -> str:
    first, *others = partitions
    return f"{first} and {len(others)} others" if others else str(first)
