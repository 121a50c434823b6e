"""Brings the lanes in step with what is to run, and waits for none of them.

A lane ends, or gives partitions up, when its tasks have told where they are. Until then it counts
as running, and what takes its place is kept; everything else is looked after as ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping

from pyspark.errors import PySparkException

from aggregator.config.schema import Config
from aggregator.engine.events import Event, EventSink
from aggregator.engine.lanes import Lanes
from aggregator.engine.launch import Start
from aggregator.engine.pace import Paces
from aggregator.engine.parts import Parts
from aggregator.engine.recovery import Recovery
from aggregator.engine.settings import lane_settings
from aggregator.engine.starts import Starts
from aggregator.engine.supervision import Supervision
from aggregator.errors import AggregatorError, CheckpointConflictError
from aggregator.model import Lane, Positions, SourcePartition
from aggregator.plan.lanes import plan_lanes
from aggregator.plan.plan import Plan
from aggregator.plan.steps import lanes_to_be, plan_steps


class Arrangement:
    """What runs, what ends, and what is to start then. Used by the engine's thread alone.

    `failed` is told of a lane that cannot be started, and why. `until_done`: what is to run ends at
    the ends of the logs as they are now.
    """

    def __init__(
        self,
        config: Config,
        parts: Parts,
        lanes: Lanes,
        starts: Starts,
        supervision: Supervision,
        paces: Paces,
        recovery: Recovery,
        failed: Callable[[Lane, str], None],
        emit: EventSink,
        stop: threading.Event,
        *,
        until_done: bool,
    ) -> None:
        self._config = config
        self._parts = parts
        self._lanes = lanes
        self._starts = starts
        self._supervision = supervision
        self._paces = paces
        self._recovery = recovery
        self._failed = failed
        self._emit = emit
        self._stop = stop
        self._until_done = until_done
        self._until: dict[SourcePartition, int] = {}
        self._plan: Plan | None = None
        self._positions = Positions()
        self._later: tuple[Lane, ...] = ()

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._config = config

    def follow(
        self,
        wanted: Collection[SourcePartition],
        plan: Plan,
        positions: Positions,
        ends: Mapping[SourcePartition, int],
        *,
        first: bool,
    ) -> None:
        """Run exactly the wanted partitions, those that are new from `positions`.

        Lanes that need no change run on. Raises what keeps a lane from starting if it is the
        `first` time, else `failed` is told.
        """
        self._plan, self._positions = plan, positions
        if self._until_done:
            # The ends of the first look that saw a partition, however often its lane starts.
            self._until = {**ends, **self._until}
        self._arrange(wanted, plan, first=first)
        if not first:
            self._note_new(wanted, positions)

    def without(self, aliases: Collection[str]) -> None:
        """Run what runs, and what is to start, without these sources."""
        self._keep({sp for sp in self.to_run() if sp.cluster not in aliases})

    def again(self, but: Collection[SourcePartition] = ()) -> None:
        """Start what can be started by now, and what is to run otherwise; without `but`."""
        self._keep(self.to_run() - set(but))

    def to_run(self) -> set[SourcePartition]:
        """What is read when all that ends has ended, and what waits for it has started."""
        return {sp for lane in self._to_be() for sp in lane.partitions}

    def _keep(self, wanted: Collection[SourcePartition]) -> None:
        if self._plan is not None:
            self._arrange(wanted, self._plan, first=False)

    def _running(self) -> dict[str, Lane]:
        return {name: it.lane for name, it in self._lanes.running.items()}

    def _to_be(self) -> tuple[Lane, ...]:
        lanes = self._lanes
        return lanes_to_be(self._running(), lanes.ending, lanes.holding, self._later)

    def _arrange(self, wanted: Collection[SourcePartition], plan: Plan, *, first: bool) -> None:
        planned = plan_lanes(
            wanted,
            self._config.stream.lanes,
            self._to_be(),
            self._supervision.apart,
            room=plan.slots.has_room,
        )
        steps = plan_steps(
            planned,
            {it.name for it in planned if self._lanes.is_changed(it, plan.routes)},
            self._running(),
            self._lanes.ending,
            self._starts.resting(),
        )
        self._later = steps.later
        self._lanes.leave(steps.leave, self._config.supervision.stop_timeout)
        self._lanes.hold(steps.hold)
        self._start(steps.start, plan, first=first)
        running = self._lanes.partitions
        self._parts.board.waiting = {
            sp: f"starts in lane {lane.name} when another has let it go"
            for lane in steps.later
            for sp in lane.partitions
            if sp not in running
        }

    def _start(self, lanes: Collection[Lane], plan: Plan, *, first: bool) -> None:
        # Where the observer knows a partition, it knows better: ended or recovered since.
        positions = self._positions.merged(self._parts.observer.positions)
        settings = lane_settings(self._config, plan, self._paces.now, self._until)
        for lane in lanes:
            if self._stop.is_set():
                return
            skips, older = self._recovery.take(lane.partitions)
            try:
                self._lanes.start(lane, Start(positions, skips, older), plan.routes, settings)
            except (AggregatorError, PySparkException) as error:
                if first:
                    raise
                self._failed(lane, str(error))
        self._parts.sources.follow(self._lanes.partitions)

    def _note_new(self, wanted: Collection[SourcePartition], positions: Positions) -> None:
        """Commit where partitions begin that are new and wait: a restart must not forget that.

        To a restart they would be as any other that it does not know, and `start` may say `latest`.
        So also those of topics that came while we ran, of a source that is paused or away.
        """
        known, came = self._parts.observer.positions, self._starts.appeared
        new = {
            sp: at
            for sp, at in positions.items()
            if sp not in known and (sp in wanted or (sp.cluster, sp.topic) in came)
        }
        if not new:
            return
        try:
            self._parts.observer.moved(Positions(new), "new")
        except CheckpointConflictError:
            raise
        except AggregatorError as error:
            # The next look finds them new as well, and this is tried again.
            words = f"where {len(new)} new partitions begin is not committed yet: {error}"
            self._emit(Event("checkpoint_error", words))
