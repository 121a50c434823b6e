"""Decides which partitions are to run now, and from where: a look, the checkpoint, and failures."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.engine.events import Event, EventSink
from aggregator.engine.gaps import Gaps
from aggregator.engine.look import Look
from aggregator.engine.observer import Observer
from aggregator.engine.orphans import Orphans
from aggregator.model import Positions, Ranges, SourcePartition
from aggregator.plan.backoff import BackOff
from aggregator.plan.gaps import OF_IDENTITY, Sight
from aggregator.plan.positions import TopicKey, plan_positions
from aggregator.plan.selection import Selection

LOOKS_ALLOWED = 3
"""Looks in a row, one right after the other, for offsets that could not be read."""


class Starts:
    """Remembers what it takes to decide: topics seen before, lanes that failed or are done."""

    def __init__(
        self,
        config: Config,
        observer: Observer,
        orphans: Orphans,
        gaps: Gaps,
        emit: EventSink,
        read_until: Mapping[SourcePartition, float],
    ) -> None:
        self._config = config
        self._observer = observer
        self._gaps = gaps
        self._emit = emit
        self._read_until = read_until
        self._look: Look | None = None
        self._topics: dict[str, frozenset[str]] = {}
        self.appeared: frozenset[TopicKey] = frozenset()
        """Topics that came while we ran, and are new as a whole."""
        self._told: dict[SourcePartition, str] = {}
        self.reconfigure(config)
        self.orphans = orphans
        self.backoff = BackOff()
        self.done: set[SourcePartition] = set()
        self.held: Mapping[SourcePartition, str] = {}
        self._stopped: dict[SourcePartition, str] = {}
        self.doubtful: frozenset[SourcePartition] = frozenset()
        """Of these a gap is known, but not yet what the hub holds of them: to be recovered."""
        self.outdated = False
        """Whether the last look does not tell what is to be known: another one is to follow."""
        self._unread_looks: set[float] = set()
        self._ready: Callable[[], Mapping[SourcePartition, Ranges]] = dict

    def reconfigure(self, config: Config) -> None:
        """Go by another config from now on."""
        self._config = config
        self._selections = {
            alias: Selection.of(source.topics) for alias, source in config.sources.items()
        }
        self._topics = {alias: it for alias, it in self._topics.items() if alias in config.sources}

    def settle(
        self,
        look: Look,
        running: Collection[SourcePartition],
        recover: Callable[[set[SourcePartition]], set[SourcePartition]],
        ready: Callable[[], Mapping[SourcePartition, Ranges]],
        out: Mapping[str, str] | None = None,
    ) -> tuple[Positions, set[SourcePartition]]:
        """As `plan`, after what is to start and did not end cleanly was recovered.

        `recover` gets these and more, and returns those that cannot start yet; `ready` are those
        that may, though the hub holds something beyond their positions: these offsets.
        """
        self._ready = ready
        positions, wanted = self.plan(look, running, out)
        seq = self._observer.state.seq
        later = recover(wanted | self.doubtful)
        if self._observer.state.seq != seq:
            # Only now is it certain where the positions stand to the logs.
            positions, wanted = self.plan(look, running, out)
            # A recovery takes time, in which others may have become due: they are recovered next.
            due = (self._unclean & wanted) - set(running) - later
            later, self.outdated = later | due, self.outdated or bool(due)
        return positions, wanted - later

    def plan(
        self,
        look: Look,
        running: Collection[SourcePartition],
        out: Mapping[str, str] | None = None,
    ) -> tuple[Positions, set[SourcePartition]]:
        """Start positions, and the partitions that are to run: those with a start, and those that
        run and may go on. Gaps are decided about on the way.

        `out` are sources (alias -> why) of which nothing is to run; their state is told elsewhere.
        Raises CheckpointConflictError when another instance writes this checkpoint.
        """
        selected = {sp for route in look.plan.routes for sp in route.source_partitions()}
        now = time.monotonic()
        self.backoff.tried(now, self.orphans.partitions())
        resting, state = self.resting(), self._observer.state
        unclean = self._unclean - set(running)
        known = replace(
            state.remembered(unsure=self._unclean | set(running)),
            positions=self._observer.positions,
            copied=self._ready(),
        )
        found = plan_positions(
            look.plan.routes,
            known,
            look.observed,
            {alias: source.start for alias, source in self._config.sources.items()},
            look.by_time,
            self._appeared_in(look),
            self._is_selected,
        )
        other = {gap.partition for gap in found.gaps if gap.kind in OF_IDENTITY}
        # What a lane read after the look is beyond the ends that the look has found.
        later = {sp for sp, ended in self._read_until.items() if ended > look.began}
        away = {sp for sp in selected if out and sp.cluster in out}
        unread = found.unread - away - resting - set(running)
        too_old = any(gap.partition in later for gap in found.gaps)
        self.outdated = self._again(look, bool(unread)) or too_old
        self.doubtful = frozenset((unclean & other & selected) - resting - away)
        start = self._gaps.settle(
            found,
            Sight(
                known,
                look.observed,
                {alias: source.on_gap for alias, source in self._config.sources.items()},
                selected,
                {*running, *(resting - self.done), *(unclean & selected), *later},
                datetime.now(UTC),
                state.epoch,
            ),
        )
        # The position of one that runs is a batch behind the truth: it is taken out for what its
        # log is, not for where that begins and ends.
        wanted = ((set(running) & selected) - other) | (set(start.positions) - resting)
        wanted -= self._gaps.watch.suspects(running)
        left_out = {sp: out[sp.cluster] for sp in away} if out else {}
        wanted -= left_out.keys()
        self.held = {
            **{sp: reason for sp, reason in start.held.items() if sp not in wanted},
            **{sp: why for sp, why in self._stopped.items() if sp in resting},
            **left_out,
        }
        self._tell({*left_out, *start.quarantined, *self._stopped})
        return start.positions, wanted

    @property
    def _unclean(self) -> frozenset[SourcePartition]:
        """What has to be recovered before it can start."""
        return self._observer.state.unclean - self._ready().keys()

    def ended(self, partitions: Collection[SourcePartition]) -> None:
        """All that was to be copied of these is copied."""
        self.done |= set(partitions)

    def stopped(self, sp: SourcePartition, reason: str, *, for_good: bool) -> float | None:
        """A partition's next record cannot be written; returns the seconds until the next try.

        `for_good`: there is none in this run.
        """
        self._stopped[sp] = reason
        self.held = {**self.held, sp: reason}
        if for_good:
            self.done.add(sp)
            return None
        return self.backoff.failed(str(sp), frozenset({sp}), time.monotonic())

    def resting(self) -> set[SourcePartition]:
        """Partitions that are not to start: failed a moment ago, waiting for a producer, done."""
        now = time.monotonic()
        return self.backoff.resting(now) | self.orphans.partitions() | self.done

    def due(self) -> bool:
        """Whether something that failed may be tried again now."""
        now = time.monotonic()
        return self.backoff.due(now) and not self.orphans.partitions()

    def _again(self, look: Look, unread: bool) -> bool:
        """Whether offsets that this look could not read are worth another one at once.

        A broker may be slow for a moment; of one that stays silent others look after.
        """
        # By when they began: one look may be judged several times.
        self._unread_looks = self._unread_looks | {look.began} if unread else set()
        return 0 < len(self._unread_looks) < LOOKS_ALLOWED

    def _appeared_in(self, look: Look) -> frozenset[TopicKey]:
        """Selected topics that came while we ran: an earlier look showed their source without them.

        For good, because several looks may follow before they are read from their beginning: they
        join a lane that ends first, or their source is paused.
        """
        if look is not self._look:
            before = self._look.plan.sources if self._look is not None else {}
            # Behind an alias that leads to another cluster now nothing came while we ran.
            self._topics = {
                alias: names
                for alias, names in self._topics.items()
                if alias not in before
                or alias not in look.plan.sources
                or before[alias].cluster_id == look.plan.sources[alias].cluster_id
            }
            self._look = look
            new = {
                (alias, topic)
                for alias, facts in look.plan.sources.items()
                if alias in self._topics
                for topic in facts.topics
                if topic not in self._topics[alias]
            }
            self.appeared = frozenset(
                key
                for key in new | self.appeared
                if key[0] in self._topics and self._is_selected(key)
            )
            for alias, facts in look.plan.sources.items():
                self._topics[alias] = frozenset(facts.topics)
        return self.appeared

    def _is_selected(self, key: TopicKey) -> bool:
        alias, topic = key
        return alias in self._selections and self._selections[alias].matches(topic)

    def _tell(self, told_elsewhere: Collection[SourcePartition]) -> None:
        for sp, reason in self.held.items():
            if self._told.get(sp) != reason and sp not in told_elsewhere:
                self._emit(Event("held", f"{sp}: {reason}", {"partition": str(sp)}))
        self._told = dict(self.held)
