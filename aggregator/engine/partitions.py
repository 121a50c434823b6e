"""The partitions of the status document: where each is, its state, and why it is not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aggregator.audit.document import LaneState, PartitionState, PartitionStatus
from aggregator.model import SourcePartition
from aggregator.plan.behind import Delay

if TYPE_CHECKING:
    # The board tells its document by this module.
    from aggregator.engine.board import Board


def partitions_of(board: Board) -> tuple[PartitionStatus, ...]:
    """The partitions of all routes, and those that are held though there is no route any more."""
    lane_of = {sp: name for name, note in board.lanes.items() for sp in note.partitions}
    hub_topics = {sp: route.hub_topic for route in board.routes for sp in route.source_partitions()}
    unread = _unread(board)
    found = []
    # Of a topic that is gone there is no route.
    for sp in [*hub_topics, *sorted(board.held.keys() - hub_topics.keys())]:
        state, reason = _state(board, unread, sp)
        found.append(
            PartitionStatus(
                cluster=sp.cluster,
                topic=sp.topic,
                partition=sp.partition,
                hub_topic=hub_topics.get(sp, ""),
                lane=lane_of.get(sp, ""),
                state=state,
                position=board.positions.get(sp),
                log_end=board.log_ends.get(sp),
                **behind_fields(board.behind.get(sp)),
                reason=reason,
            )
        )
    return tuple(found)


def behind_fields(delay: Delay | None) -> dict[str, Any]:
    """A delay as the fields that a partition and a source have for it; none when it is unknown."""
    if delay is None:
        return {}
    return {
        "seconds_behind": round(delay.seconds, 3),
        "seconds_behind_at_least": delay.at_least,
    }


def _state(
    board: Board, unread: dict[SourcePartition, str], sp: SourcePartition
) -> tuple[PartitionState, str]:
    """What is known of a partition, and why it is so; "" where that goes without saying."""
    if sp in board.gapped:
        return PartitionState.QUARANTINED, board.gapped[sp]
    if sp.cluster in board.paused:
        return PartitionState.PAUSED, ""
    if sp in board.held:
        return PartitionState.HELD, board.held[sp]
    if sp in unread:
        # Before what is only seen from outside: its reader knows why it does not go on.
        return PartitionState.HELD, unread[sp]
    if sp in board.stuck:
        return PartitionState.STUCK, board.stuck[sp]
    return PartitionState.RUNNING, board.waiting.get(sp, "")


def _unread(board: Board) -> dict[SourcePartition, str]:
    """What the readers of the lanes that run cannot go on with, and why."""
    found: dict[SourcePartition, str] = {}
    for name, note in board.lanes.items():
        told = board.progress.get(name)
        running = note.state in (LaneState.RUNNING, LaneState.DRAINING)
        if running and told is not None and told.generation == note.generation and told.report:
            # What a lane has given up is another's by now.
            own = set(note.partitions)
            found |= {sp: why for sp, why in told.report.unread.items() if sp in own}
    return found
