"""Decides which partitions are to run now, and from where: a look, the checkpoint, and failures."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from aggregator.config.schema import Config
from aggregator.engine.events import Event, EventSink
from aggregator.engine.look import Look
from aggregator.engine.observer import Observer
from aggregator.engine.orphans import Orphans
from aggregator.model import SourcePartition
from aggregator.plan.backoff import BackOff
from aggregator.plan.positions import Gap, GapKind, Remembered, StartPlan, plan_positions

OF_IDENTITY = (GapKind.TOPIC_RECREATED, GapKind.CLUSTER_CHANGED, GapKind.TOPIC_GONE)
"""Gaps for which even a partition that runs is taken out. The others are told by comparing a
position with the log, and the position of a running partition is a batch behind the truth."""


class Starts:
    """Remembers what it takes to decide: topics seen before, lanes that failed or are done."""

    def __init__(
        self, config: Config, observer: Observer, orphans: Orphans, emit: EventSink
    ) -> None:
        self._config = config
        self._observer = observer
        self._emit = emit
        self._topics: dict[str, frozenset[str]] = {}
        self._told: dict[SourcePartition, str] = {}
        self.orphans = orphans
        self.backoff = BackOff()
        self.done: set[SourcePartition] = set()
        self.held: Mapping[SourcePartition, str] = {}

    def positions(self, look: Look) -> StartPlan:
        """Start positions of everything that the look's routes name, gaps, and what is held."""
        appeared = {
            (alias, topic)
            for alias, facts in look.plan.sources.items()
            if alias in self._topics
            for topic in facts.topics
            if topic not in self._topics[alias]
        }
        for alias, facts in look.plan.sources.items():
            self._topics[alias] = frozenset(facts.topics)
        state = self._observer.state
        known = Remembered(self._observer.positions, state.topic_ids, state.cluster_ids)
        starts = {alias: source.start for alias, source in self._config.sources.items()}
        return plan_positions(
            look.plan.routes, known, look.observed, starts, look.by_time, frozenset(appeared)
        )

    def wanted(
        self,
        look: Look,
        start: StartPlan,
        running: Collection[SourcePartition],
        slots: int | None = None,
    ) -> set[SourcePartition]:
        """Partitions that are to run: those with a start, and those that run and may go on.

        `slots` is what the session has, when each partition holds one for good: the surplus is
        held back and named, because it would read nothing and say nothing.
        """
        selected = {sp for route in look.plan.routes for sp in route.source_partitions()}
        lost = {gap.partition for gap in start.gaps if gap.kind in OF_IDENTITY}
        wanted = ((set(running) & selected) - lost) | (set(start.positions) - self.resting())
        surplus: set[SourcePartition] = set()
        if slots is not None and len(wanted) > slots:
            surplus = set(sorted(wanted - set(running))[-(len(wanted) - slots) :])
        wanted -= surplus
        full = f"the session has {slots} task slots, all taken; restart to get more"
        self.held = {
            **{sp: reason for sp, reason in start.held.items() if sp not in wanted},
            **dict.fromkeys(surplus, full),
        }
        self._tell({gap.partition: gap for gap in start.gaps})
        return wanted

    def resting(self) -> set[SourcePartition]:
        """Partitions that are not to start: failed a moment ago, waiting for a producer, done."""
        now = time.monotonic()
        return self.backoff.resting(now) | self.orphans.partitions(now) | self.done

    def due(self) -> bool:
        """Whether something that failed may be tried again now."""
        now = time.monotonic()
        return self.backoff.due(now) and not self.orphans.partitions(now)

    def _tell(self, gaps: Mapping[SourcePartition, Gap]) -> None:
        for sp, reason in self.held.items():
            if self._told.get(sp) != reason:
                kind, words = ("gap", str(gaps[sp])) if sp in gaps else ("held", f"{sp}: {reason}")
                self._emit(Event(kind, words, {"partition": str(sp)}))
        self._told = dict(self.held)
