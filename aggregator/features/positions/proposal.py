"""Positions set by hand: resolves a request by the live clusters and the checkpoint.

Nothing is changed in here. The writer of the checkpoint records the gaps of a proposal, commits
its checkpoints, and closes the gaps that this settles.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.features.positions.change_report import MovesReport, row_of
from aggregator.features.positions.targets import (
    BeforeMove,
    MoveKind,
    MovePlan,
    MoveRequest,
    PositionMove,
    plan_moves,
)
from aggregator.kafka.admin import HUB, by_partition, each_cluster, open_admin
from aggregator.kafka.discovery.prepare import observe, plan_of_all
from aggregator.model.errors import ClusterError, RefusedError
from aggregator.model.values import (
    UNKNOWN_LOG,
    LogId,
    OffsetRange,
    Positions,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.plan import Plan
from aggregator.plan.positions.gaps import Decision, GapRecord, gap_id
from aggregator.plan.positions.recovery import hub_topics_of, plan_tail
from aggregator.plan.positions.start import Gap, GapKind
from aggregator.store.checkpoint.checkpoint_table import stored_state
from aggregator.store.checkpoint.history import state_at
from aggregator.store.checkpoint.identity import by_identity, identity_of
from aggregator.store.checkpoint.past_commits import AGAIN, SET, Past, ProvenBound, fitting, least
from aggregator.store.checkpoint.rows import Checkpoint
from aggregator.store.checkpoint.start_state import CheckpointState
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore

LANES = {
    MoveKind.AGAIN: AGAIN,
    MoveKind.ANEW: "positions again",
    MoveKind.TAKEN_OVER: "positions taken over",
}
"""The lane name of a manual commit. No other lane's name has a blank."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to do, and `before`: the positions (None = unknown) that it was decided from.

    `tail` is how many offsets of the hub are read before the partitions continue.
    """

    plan: MovePlan
    before: Mapping[SourcePartition, int | None]
    checkpoints: tuple[Checkpoint, ...] = ()
    gaps: tuple[GapRecord, ...] = ()
    tail: int = 0
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def settled(self) -> frozenset[SourcePartition]:
        """The partitions that change."""
        return frozenset(move.partition for move in self.plan.changes)

    def report(
        self, config: Config, *, dry_run: bool, running: bool, commit: int | None = None
    ) -> MovesReport:
        """The proposal as a document."""
        return MovesReport(
            name=config.name,
            dry_run=dry_run,
            running=running,
            moves=tuple(row_of(move) for move in self.plan.moves),
            commit=commit,
            tail=self.tail,
            notes=self.plan.notes,
        )


def propose(config: Config, request: MoveRequest) -> Proposal:
    """Resolve a request now; change nothing.

    Raises RefusedError with every problem, ClusterError when the hub or a source that is asked for
    does not answer, CheckpointError when the checkpoint cannot be read.
    """
    why = "positions are compared with the live logs"
    plan = plan_of_all(config, config.chosen(request.source), why)
    routes = [r for r in plan.routes if any(request.names(sp) for sp in r.source_partitions())]
    named = [sp for route in routes for sp in route.source_partitions() if request.names(sp)]
    absent = request.absent(named)
    if absent and not request.taken_over:
        raise RefusedError([f"{it} is not selected, or is not there" for it in absent])
    if not named and not request.taken_over:
        raise RefusedError([f"{request} names no partition that is selected and exists"])
    place = config.checkpoint
    state = stored_state(place)
    ids = ids_of(plan, named)
    past = Past(place.path, place.storage_options, ids)
    logs = observe(config, plan, routes).offsets
    aimed = _aimed(config, request, ids, state)
    places = [
        replace(it, log=logs.get(it.partition), aimed=aimed.get(it.partition))
        for it in places_of(ids, state, past.furthest(), cuts_of(config, ids))
    ]
    moves = plan_moves(request, places)
    if moves.problems:
        raise RefusedError(moves.problems)
    gone = sorted(str(sp) for sp in state.entries if request.names(sp) and sp not in ids)
    # Another tool may have stored very many; a line for each topic of them is enough.
    others = sorted({it.rpartition("/")[0] for it in absent})
    notes = (f"{it} is not selected, or is not there: left alone" for it in (*gone, *others))
    moves = replace(moves, notes=(*moves.notes, *notes))
    before = {it.partition: it.position for it in places}
    if not moves.changes:
        return Proposal(moves, before)
    unclean = {move.partition: move.new for move in moves.changes if not move.clean}
    now_ms = time.time_ns() // 1_000_000
    hub = hub_logs_of(config, plan)
    cluster, topic_ids = plan.hub.cluster_id, plan.hub_ids
    bounds = [fitting(it, cluster, hub, topic_ids) for it in past.bounds(unclean).values()]
    ends = ProvenBound({tp: log.latest for tp, log in hub.items()}, now_ms)
    checkpoints = tuple(_checkpoints(plan, state, moves.changes, logs, least(bounds), ends))
    topics = hub_topics_of(plan.routes, unclean)
    read = {tp: log for tp, log in hub.items() if tp.topic in topics}
    tail = plan_tail(Positions(unclean), least(bounds).hub_ends, read)
    gaps = tuple(_gap(move, state, ids[move.partition]) for move in moves.changes if move.skipped)
    return Proposal(moves, before, checkpoints, gaps, tail.offsets)


def places_of(
    ids: Mapping[SourcePartition, LogId],
    state: CheckpointState,
    furthest: Mapping[SourcePartition, int],
    cuts: Mapping[SourcePartition, int],
) -> list[BeforeMove]:
    """What the checkpoint knows of each partition, given with its ids of now; without its log."""
    places = []
    for sp, now in ids.items():
        entry = state.entries.get(sp)
        if entry is None:
            places.append(BeforeMove(sp, None))
            continue
        other = ""
        if entry.log.is_other_cluster(now):
            other = f"{sp.cluster} is now cluster {now.cluster}, its position is of another one"
        elif entry.log.is_other_topic(now):
            other = "the topic was created again since its position was committed"
        places.append(
            BeforeMove(
                sp,
                None,
                position=entry.position,
                clean=entry.snapshot.clean,
                furthest=None if other else furthest.get(sp),
                other_log=other,
                cut=cuts.get(sp),
            )
        )
    return places


def ids_of(plan: Plan, partitions: Iterable[SourcePartition]) -> dict[SourcePartition, LogId]:
    """The log that each partition is now."""
    now = identity_of(plan)
    return {
        sp: LogId(
            now.cluster_ids.get(sp.cluster, ""), now.topic_ids.get((sp.cluster, sp.topic), "")
        )
        for sp in partitions
    }


def _aimed(
    config: Config,
    request: MoveRequest,
    ids: Mapping[SourcePartition, LogId],
    state: CheckpointState,
) -> dict[SourcePartition, int]:
    """The positions that the time or the version of the request means."""
    place, version = config.checkpoint, request.to_version
    if version is not None:
        if version > state.seq:
            raise RefusedError([f"there is no commit {version}; the last one is {state.seq}"])
        then = state_at(place.path, place.storage_options, seq=version)
        known = places_of({sp: it for sp, it in ids.items() if sp in then.entries}, then, {}, {})
        return {it.partition: then.positions[it.partition] for it in known if not it.other_log}
    moment = request.time_ms(time.time_ns() // 1_000_000)
    if moment is None:
        return {}
    wanted: dict[str, list[TopicPartition]] = {}
    for sp in ids:
        wanted.setdefault(sp.cluster, []).append(sp.topic_partition)
    timeout = config.supervision.connect_timeout
    # What did not answer has no target, and that is a problem of each of its partitions.
    return by_partition(
        each_cluster(
            config, wanted, lambda admin: admin.offsets_at(moment, wanted[admin.alias], timeout)
        ).ok
    )


def cuts_of(config: Config, ids: Mapping[SourcePartition, LogId]) -> dict[SourcePartition, int]:
    """Up to where offsets of a log were given out twice, because it was cut off in between."""
    cuts: dict[SourcePartition, int] = {}
    for record in GapTable(StateStore.of(config.checkpoint)).load().values():
        gap = record.gap
        now = ids.get(gap.partition)
        if gap.kind is GapKind.BEYOND_END and now and gap.then.topic in ("", now.topic):
            cuts[gap.partition] = max(gap.position, cuts.get(gap.partition, 0))
    return cuts


def hub_logs_of(config: Config, plan: Plan) -> dict[TopicPartition, OffsetRange]:
    """The log ranges of a plan's hub topics now; ClusterError when one is not reported."""
    timeout = config.supervision.connect_timeout
    partitions = [
        TopicPartition(name, number)
        for name in plan.hub_topics
        if name in plan.hub.topics
        for number in range(plan.hub.topics[name].partitions)
    ]
    with open_admin(config, HUB) as hub:
        found = hub.offsets(partitions, timeout) if partitions else None
    if found is not None and found.failed:
        raise ClusterError(f"hub: its end offsets are not all known: {dict(found.failed)}")
    return dict(found.ranges) if found is not None else {}


def _checkpoints(
    plan: Plan,
    state: CheckpointState,
    changes: Iterable[PositionMove],
    logs: Mapping[SourcePartition, OffsetRange],
    bound: ProvenBound,
    ends: ProvenBound,
) -> Iterable[Checkpoint]:
    """A checkpoint for each way in which partitions change; they are one commit."""
    groups: dict[tuple[str, bool], dict[SourcePartition, int]] = {}
    for move in changes:
        key = (LANES.get(move.kind, SET), move.clean)
        groups.setdefault(key, {})[move.partition] = move.new
    now = identity_of(plan)
    found = [
        (lane, clean, number, own, replace(now, hub_ids=ids.hub_ids))
        for (lane, clean), positions in sorted(groups.items())
        # What was copied below is in the hub topics of then.
        for number, (own, ids) in enumerate(by_identity(Positions(positions), state.entries, now))
    ]
    for lane, clean, number, positions, ids in found:
        cluster_ids, topic_ids = ids.of(positions)
        # Clean ones are bounded by the hub's ends of now: nothing beyond them is there, or all of
        # it has to be written a second time.
        behind = ends if clean else bound
        yield Checkpoint(
            lane=lane,
            generation=number,
            batch=-1,
            positions=positions,
            hub_ends=behind.hub_ends,
            snapshot_at_ms=behind.snapshot_at_ms,
            cluster_ids=cluster_ids,
            topic_ids=topic_ids,
            log_ends={sp: logs[sp].latest for sp in positions},
            clean=clean,
        )


def _gap(move: PositionMove, state: CheckpointState, now: LogId) -> GapRecord:
    """The record of what a move skips."""
    assert move.skipped is not None
    entry, lost, at = state.entries.get(move.partition), move.skipped, datetime.now(UTC)
    gap = Gap(
        move.partition,
        GapKind.SKIPPED_BY_OPERATOR,
        lost.earliest,
        lost.latest,
        f"positions were set by hand: offsets {lost.earliest} to {lost.latest - 1} are not copied",
        lost.earliest if move.position is None else move.position,
        lost.latest - lost.earliest,
        entry.log if entry else UNKNOWN_LOG,
        now,
    )
    return GapRecord(
        gap_id(gap),
        gap,
        found_at=at,
        epoch=state.epoch,
        decision=Decision.ACCEPT,
        decided_at=at,
        resolved=True,
        resumes_at=move.new,
        note="set by hand",
    )
