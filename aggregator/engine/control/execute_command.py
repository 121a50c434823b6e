"""Executes commands on a running engine, in the engine's thread, between two of its turns."""

from collections.abc import Collection
from difflib import get_close_matches
from typing import Protocol

from aggregator.engine.commits.observer import Observer
from aggregator.engine.control.commands import Control
from aggregator.features.backfill.ranges import Backfill
from aggregator.features.backfill.runner import Backfills
from aggregator.features.positions.proposal import Proposal
from aggregator.model.errors import RefusedError
from aggregator.model.events import Event, EventSink
from aggregator.model.values import Part
from aggregator.plan.lifecycle.stage import IN_A_LANE, Stage
from aggregator.plan.lifecycle.state import State
from aggregator.plan.plan import Plan
from aggregator.store.gaps import GapTable


class EngineOperations(Protocol):
    """The operations of an engine for commands."""

    state: State
    backfills: Backfills

    def leave(self, aliases: Collection[str]) -> None:
        """End the lanes of these sources; what shares a lane with them continues."""

    def rest(self, part: Part) -> None:
        """Wait until no lane reads this part of a source."""

    def request_discovery(self) -> None:
        """Run discovery soon, and apply its result."""

    def check(self, plan: Plan) -> None:
        """Raise ConfigError when a transform of this plan does not fit."""

    def show(self) -> None:
        """Take a turn at once, and publish the result."""


class EngineActor:
    """An `Actor` for commands (see `aggregator.engine.control.commands`)."""

    def __init__(
        self,
        engine: EngineOperations,
        observer: Observer,
        gaps: GapTable,
        control: Control,
        emit: EventSink,
    ) -> None:
        self._engine = engine
        self._observer = observer
        self._gaps = gaps
        self._control = control
        self._emit = emit
        self.leave = engine.leave
        self.rest = engine.rest
        self.request_discovery = engine.request_discovery
        self.check = engine.check

    def check_part(self, part: Part) -> None:
        """Raise RefusedError when none of this part of a source is selected."""
        plan = self._engine.state.plan
        routes = [it for it in plan.routes if it.cluster == part.cluster] if plan else []
        if any(part.covers(sp) for route in routes for sp in route.source_partitions()):
            return
        taken = {route.topic: route.partitions for route in routes}
        if (count := taken.get(part.topic)) is not None:
            raise RefusedError([f"topic {part.topic} of {part.cluster} has {count} partitions"])
        close = get_close_matches(part.topic, list(taken), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise RefusedError([f"source {part.cluster} takes no topic {part.topic} now{hint}"])

    def put(self, proposal: Proposal) -> int:
        """Commit positions that were set by hand; returns the commit's number.

        Raises RefusedError when any of them is still being read, or when they have moved since it
        was proposed.
        """
        self._check_quiet(proposal)
        # First what is skipped: a crash in between says too much, never too little.
        self._gaps.append(proposal.gaps)
        self._observer.put(proposal.checkpoints)
        self._gaps.resolve(proposal.settled, "positions were set by hand", proposal.at)
        commit = self._observer.state.seq
        count = len(proposal.settled)
        words = f"the positions of {count} partitions were set by hand: commit {commit}"
        self._emit(Event("positions_set", words, {"partitions": count, "commit": commit}))
        return commit

    def order_backfill(self, backfill: Backfill) -> Backfill:
        """Store a backfill, and begin it when its turn has come; raises as `Backfills.order`.

        Also RefusedError when the live flow was set back behind its end meanwhile.
        """
        live = self._observer.positions
        back = [it for it in backfill.parts if live.get(it.partition, 0) < it.end]
        if back:
            raise RefusedError([f"{it.partition} was set back meanwhile" for it in back])
        return self._engine.backfills.order(backfill)

    def cancel_backfill(self, name: str) -> Backfill:
        """Cancel a backfill; raises as `Backfills.cancel`."""
        return self._engine.backfills.cancel(name)

    def publish(self) -> None:
        """Publish the status of now."""
        self._engine.show()

    def _check_quiet(self, proposal: Proposal) -> None:
        wanted, state = proposal.settled, self._engine.state
        if any(state.at(sp).stage in IN_A_LANE for sp in wanted):
            raise RefusedError(["its lanes still run: pause the source and try again"])
        if any(state.at(sp).stage in (Stage.LOST, Stage.RECOVERING) for sp in wanted):
            raise RefusedError(["records of these partitions are on their way: try again soon"])
        positions = self._observer.positions
        moved = [sp for sp in sorted(wanted) if positions.get(sp) != proposal.before.get(sp)]
        if moved:
            raise RefusedError([f"{sp} has moved meanwhile: look again" for sp in moved])
