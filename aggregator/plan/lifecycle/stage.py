"""The stages of a source partition, and the allowed transitions. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Stage(StrEnum):
    """The stage of a source partition (see MEANINGS). It is in exactly one."""

    OUT = "out"
    HELD = "held"
    QUARANTINED = "quarantined"
    UNCLEAN = "unclean"
    RECOVERING = "recovering"
    READY = "ready"
    READING = "reading"
    LEAVING = "leaving"
    LOST = "lost"
    RESTING = "resting"
    DONE = "done"


MEANINGS = {
    Stage.OUT: "is not read: not selected, deleted, or paused",
    Stage.HELD: "waits for a temporary problem, such as offsets that could not be read",
    Stage.QUARANTINED: "waits for a person to decide about a gap",
    Stage.UNCLEAN: "the hub may hold records beyond its position: it needs a recovery",
    Stage.RECOVERING: "the hub's tail is being read for it",
    Stage.READY: "its position is proven; it starts as soon as its lane can",
    Stage.READING: "a lane reads it",
    Stage.LEAVING: "its lane is stopping it, and has not reported the final position yet",
    Stage.LOST: "its lane has failed, and a task of the lane may still send",
    Stage.RESTING: "it has failed, and is retried later",
    Stage.DONE: "the run is ending: nothing more happens to it",
}
IN_A_LANE = frozenset({Stage.READING, Stage.LEAVING})
STANDING = frozenset({Stage.OUT, Stage.HELD, Stage.QUARANTINED, Stage.UNCLEAN, Stage.READY})
"""Judged by each decision: from the latest snapshot, the checkpoint and the gaps."""


class Trigger(StrEnum):
    """What can happen to a source partition: one row of the table of transitions."""

    JUDGED = "judged"
    RECOVERED_FROM = "recovery begins"
    RECOVERED = "recovered"
    NOT_RECOVERED = "recovery failed"
    STARTED = "started"
    NOT_STARTED = "start put off"
    TAKEN_OUT = "taken out"
    KEPT = "given up"
    FAILED = "lane failed"
    GONE = "tasks gone"
    STOPPED = "stopped"
    DUE = "due"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Transition:
    """A transition from some stages to others, and its condition."""

    before: frozenset[Stage]
    after: frozenset[Stage]
    when: str


def _of(before: frozenset[Stage] | set[Stage], after: Stage, when: str) -> Transition:
    return Transition(frozenset(before), frozenset({after}), when)


TRANSITIONS: dict[Trigger, Transition] = {
    Trigger.JUDGED: Transition(
        STANDING,
        STANDING,
        "a decision compares the latest snapshot, the checkpoint and the gaps",
    ),
    Trigger.RECOVERED_FROM: _of({Stage.UNCLEAN}, Stage.RECOVERING, "its last commit was not clean"),
    Trigger.RECOVERED: _of(
        {Stage.RECOVERING}, Stage.HELD, "what the hub holds of it is known and committed"
    ),
    Trigger.NOT_RECOVERED: Transition(
        frozenset({Stage.RECOVERING}),
        frozenset({Stage.RESTING, Stage.DONE}),
        "the hub or the checkpoint failed, a hub topic is not fully readable, or its source could "
        "not confirm its records",
    ),
    Trigger.STARTED: _of({Stage.READY}, Stage.READING, "its lane is started"),
    Trigger.NOT_STARTED: _of(
        {Stage.READING}, Stage.HELD, "a command before it failed, or the run is stopping"
    ),
    Trigger.TAKEN_OUT: _of(
        {Stage.READING},
        Stage.LEAVING,
        "it is paused, no longer selected, stopped, suspect, or moves to another lane",
    ),
    Trigger.KEPT: _of(
        {Stage.LEAVING}, Stage.HELD, "nothing more is sent; its position is committed"
    ),
    Trigger.FAILED: Transition(
        IN_A_LANE,
        frozenset({Stage.LOST, Stage.RESTING, Stage.DONE}),
        "its lane could not start, ended unexpectedly, or did not end in time",
    ),
    Trigger.GONE: _of({Stage.LOST}, Stage.RESTING, "no task of the failed lane is left"),
    Trigger.STOPPED: Transition(
        frozenset({Stage.LEAVING}),
        frozenset({Stage.RESTING, Stage.DONE}),
        "its next record cannot be written, and its lane has stopped reading it",
    ),
    Trigger.DUE: _of({Stage.RESTING}, Stage.HELD, "its retry is due, and discovery has run since"),
    Trigger.FINISHED: _of({Stage.LEAVING}, Stage.DONE, "it was copied up to its end position"),
}
