"""Does what commands ask of a running engine; in the engine's thread, between two of its looks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from aggregator.checkpoint.gaps import GapTable
from aggregator.config.schema import Config
from aggregator.engine.changes import Changes
from aggregator.engine.events import Event, EventSink
from aggregator.engine.moves import Proposal
from aggregator.engine.parts import Parts
from aggregator.engine.recovery import Recovery
from aggregator.engine.starts import Starts
from aggregator.errors import RefusedError
from aggregator.model import SourcePartition
from aggregator.plan.plan import Plan


class Lanes(Protocol):
    """What an engine lets be done to its lanes."""

    @property
    def running(self) -> set[SourcePartition]:
        """Partitions that are read now."""

    def leave(self, aliases: Collection[str]) -> None:
        """Let the lanes of these sources end; what shares a lane with them goes on without."""

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""

    def look_again(self) -> None:
        """Have a look at the clusters soon; nothing is done before it has been followed."""

    def tell(self, *, now: bool = False) -> None:
        """Bring the status up to date, and hand it out."""


class Steering:
    """An `Actor` for commands (see `aggregator.engine.control`)."""

    def __init__(
        self,
        lanes: Lanes,
        parts: Parts,
        starts: Starts,
        recovery: Recovery,
        changes: Changes,
        emit: EventSink,
    ) -> None:
        self._lanes = lanes
        self._parts = parts
        self._starts = starts
        self._recovery = recovery
        self._changes = changes
        self._emit = emit

    @property
    def out(self) -> dict[str, str]:
        """Sources (alias -> why) of which nothing is to run: those that are paused."""
        return self._parts.control.out

    def leave(self, aliases: Collection[str]) -> None:
        """Let the lanes of these sources end; what shares a lane with them goes on without."""
        self._parts.board.paused = self._parts.control.paused
        self._lanes.leave(aliases)

    def look_again(self) -> None:
        """Have a look at the clusters soon, and run what is then wanted."""
        self._parts.board.paused = self._parts.control.paused
        self._lanes.look_again()

    def put(self, proposal: Proposal) -> int:
        """Commit positions that were set by hand; returns the commit's number.

        Raises RefusedError when something of theirs still goes on, or when they have moved since it
        was proposed.
        """
        self._check_quiet(proposal)
        place = self._parts.control.config.checkpoint
        gaps = GapTable(place.path, place.storage_options)
        # First what is skipped: a crash in between says too much, never too little.
        gaps.append(proposal.gaps)
        self._parts.observer.put(proposal.checkpoints)
        gaps.resolve(proposal.settled, "positions were set by hand", proposal.at)
        commit = self._parts.observer.state.seq
        count = len(proposal.settled)
        self._emit(
            Event(
                "positions_set",
                f"the positions of {count} partitions were set by hand: commit {commit}",
                {"partitions": count, "commit": commit},
            )
        )
        return commit

    def check(self, plan: Plan) -> None:
        """Raise ConfigError when a transform of this plan does not fit."""
        self._changes.check(plan)

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        parts = self._parts
        parts.observer.interval = config.stream.checkpoint_interval
        for part in (
            *(self._lanes, self._starts, self._recovery, self._changes),
            *(parts.lookout, parts.sources, parts.board),
        ):
            part.reconfigure(config)
        self._emit(Event("reloaded", "the config was read again, and is in force"))

    def tell(self) -> None:
        """Hand out the status as it is now."""
        self._lanes.tell(now=True)

    def _check_quiet(self, proposal: Proposal) -> None:
        wanted = proposal.settled
        if self._lanes.running & wanted:
            raise RefusedError(["its lanes still run: pause the source and try again"])
        if self._recovery.under_way or self._starts.orphans.partitions() & wanted:
            raise RefusedError(["records of these partitions are on their way: try again soon"])
        positions = self._parts.observer.positions
        moved = [sp for sp in sorted(wanted) if positions.get(sp) != proposal.before.get(sp)]
        if moved:
            raise RefusedError([f"{sp} has moved meanwhile: look again" for sp in moved])
