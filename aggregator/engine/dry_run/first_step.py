"""What a run would do first, from the real `step` with no command executed. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from aggregator.config.schema import Config
from aggregator.model.values import Part, SourcePartition
from aggregator.plan.lifecycle.commands import (
    AskHub,
    Command,
    Distrust,
    Move,
    Outcome,
    Prepare,
    RecordGaps,
    Recover,
    Start,
    Started,
)
from aggregator.plan.lifecycle.inputs import FoundGaps, HubLogs, Known, Ready, StepInputs
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import State
from aggregator.plan.lifecycle.step import step
from aggregator.plan.snapshot import ClusterSnapshot, TopicsSeen

STEPS = 20

HubAsker = Callable[[frozenset[str]], HubLogs]


@dataclass(frozen=True, slots=True)
class Preview:
    """The first commands, and partitions that do not start, with the reason.

    Where something must be recovered the commands end with that: what starts then, and from where,
    is known when the hub has been read.
    """

    commands: tuple[Command, ...] = ()
    waiting: Mapping[SourcePartition, str] = field(default_factory=dict)


def preview(
    config: Config,
    snapshot: ClusterSnapshot,
    known: Known,
    gaps: FoundGaps,
    paused: Mapping[str, str],
    at: datetime,
    ask_hub: HubAsker,
    parts: Mapping[Part, str] | None = None,
    topics: TopicsSeen | None = None,
) -> Preview:
    """Take the first steps of a run without executing anything.

    `paused` and `parts` are what must not run, and why. `ask_hub` gives the log ranges of hub
    topics; `topics` are those that the sources had before. Whatever is committed is taken as done.
    """
    state, now = State(config, topics=topics or TopicsSeen()), snapshot.began + 1.0
    inputs = StepInputs(config, at, known, paused=paused, snapshot=snapshot, parts=parts or {})
    given: list[Command] = []
    for _ in range(STEPS):
        state, commands = step(state, inputs, now)
        given += commands
        if state.begun or state.recovering or not commands:
            break
        outcomes = tuple(Outcome(it, _result(it, gaps, ask_hub)) for it in commands)
        known = _moved(known, snapshot, commands)
        inputs = replace(inputs, known=known, snapshot=None, outcomes=outcomes, turn=False)
    stages = (Stage.OUT, Stage.HELD, Stage.QUARANTINED)
    waiting = {sp: state.at(sp).why for sp in sorted(state.of(*stages)) if state.at(sp).why}
    return Preview(tuple(it for it in given if _is_shown(it)), waiting)


def _is_shown(command: Command) -> bool:
    if isinstance(command, Move):
        return command.why == "gaps"
    return isinstance(command, (RecordGaps, Recover, Start))


def _result(command: Command, gaps: FoundGaps, ask_hub: HubAsker) -> object:
    match command:
        case Prepare(snapshot):
            return Ready(snapshot.plan, gaps)
        case AskHub(topics):
            return ask_hub(topics)
        case Start():
            return Started(0, "")
        case _:
            return None


def _moved(known: Known, snapshot: ClusterSnapshot, commands: tuple[Command, ...]) -> Known:
    """The checkpoint as it would be when the positions of these commands are committed."""
    for command in commands:
        if isinstance(command, Distrust):
            doubts = {**known.doubts, **command.opened}
            doubts = {alias: it for alias, it in doubts.items() if alias not in command.closed}
            known = replace(known, doubts=doubts)
        if not isinstance(command, (Move, Distrust)):
            continue
        positions = command.positions
        unclean = known.unclean - positions.keys()
        if isinstance(command, Distrust):
            unclean |= positions.keys()
        before, now = known.remembered, snapshot.observed
        after = replace(
            before,
            positions=before.positions.merged(positions),
            logs={**before.logs, **{sp: now.log(sp) for sp in positions}},
            snapshots={**before.snapshots, **dict.fromkeys(positions, -1)},
        )
        known = replace(known, remembered=after, unclean=unclean)
    return known
