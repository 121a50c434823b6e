"""A step under way: the state as it changes, and the commands so far. Only `step` makes one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aggregator.model.events import Event
from aggregator.model.values import SourcePartition
from aggregator.plan.lifecycle.commands import Command, Emit, RequestDiscovery
from aggregator.plan.lifecycle.inputs import StepInputs
from aggregator.plan.lifecycle.stage import TRANSITIONS, Stage, Trigger
from aggregator.plan.lifecycle.state import LaneLife, LaneOver, Partition, State


class StepContext:
    """What the parts of a step change. `dirty`: a decision must follow."""

    def __init__(self, state: State, inputs: StepInputs, now: float) -> None:
        self.inputs = inputs
        self.now = now
        self.dirty = state.undecided
        self._state = state
        self._commands: list[Command] = []
        self._partitions: dict[SourcePartition, Partition] | None = None

    @property
    def state(self) -> State:
        """The state so far."""
        if self._partitions is not None:
            self._state = replace(self._state, partitions=self._partitions)
            self._partitions = None
        return self._state

    @property
    def commands(self) -> tuple[Command, ...]:
        """The commands so far."""
        return tuple(self._commands)

    def update(self, **changes: Any) -> None:
        """Change fields of the state."""
        self._state = replace(self.state, **changes)

    def command(self, command: Command) -> None:
        """Add a command."""
        self._commands.append(command)

    def emit(self, kind: str, message: str, fields: Mapping[str, str | int] | None = None) -> None:
        """Emit an event."""
        self.command(Emit(Event(kind, message, fields or {}, self.inputs.at)))

    def request_discovery(self) -> None:
        """Request discovery; one that has begun already does not count."""
        if self.state.asked_at is None:
            self.update(asked_at=self.now)
            self.command(RequestDiscovery())

    def retry_discovery(self) -> None:
        """Discovery failed: if one is awaited, request another."""
        if self.state.asked_at is not None:
            self.update(asked_at=None)
            self.request_discovery()

    def at(self, sp: SourcePartition) -> Partition:
        """A partition in its current state."""
        known = self._state.partitions if self._partitions is None else self._partitions
        return known.get(sp, Partition())

    def keep(self, sp: SourcePartition, partition: Partition) -> None:
        """Change what is known of a partition, but not its stage."""
        assert partition.stage is self.at(sp).stage, f"{sp} changes its stage without a transition"
        self._put(sp, partition)

    def transition(
        self, trigger: Trigger, sp: SourcePartition, stage: Stage, **changes: Any
    ) -> None:
        """Move a partition from its stage to another one, by an allowed transition."""
        before, transition = self.at(sp), TRANSITIONS[trigger]
        assert before.stage in transition.before, f"{sp} is {before.stage}: not {trigger}"
        assert stage in transition.after, f"{sp} cannot be {stage} when {trigger}"
        self._put(sp, replace(before, stage=stage, **{"why": "", **changes}))

    def forget(self, sp: SourcePartition) -> None:
        """Drop a partition from the state."""
        if self._partitions is None:
            self._partitions = dict(self._state.partitions)
        self._partitions.pop(sp, None)

    def lane(self, name: str, life: LaneLife | None, over: LaneOver | None = None) -> None:
        """Change a lane; None when it runs no more, and then how it ended."""
        lanes, ended = dict(self.state.lanes), dict(self.state.over)
        if life is None:
            lanes.pop(name, None)
        else:
            lanes[name] = life
        if over is not None:
            ended[name] = over
        self.update(lanes=lanes, over=ended)

    def _put(self, sp: SourcePartition, partition: Partition) -> None:
        if self.at(sp) == partition:
            return
        if self._partitions is None:
            self._partitions = dict(self._state.partitions)
        self._partitions[sp] = partition
