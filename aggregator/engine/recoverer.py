"""Recovers partitions whose last writer did not end cleanly, in a thread of its own.

What is recovered, and when, is decided by `aggregator.plan.lifecycle`; what the hub's tail says is
decided by `aggregator.plan.positions.recovery`. Here it is read, and committed.
"""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from aggregator.config.kafka_settings import hub_reader_settings
from aggregator.config.schema import Config
from aggregator.datapath.connector.connector import Connector, TailFound
from aggregator.datapath.connector.origins import compare_origins
from aggregator.engine.commits.observer import Observer
from aggregator.kafka.admin import ClusterAdmin
from aggregator.kafka.discovery.hub_logs import (
    StoodAt,
    TopicLogs,
    later_logs,
    settled_logs,
    whole_logs,
)
from aggregator.model.events import Event, EventSink
from aggregator.model.failpoint import failpoint
from aggregator.model.values import (
    OffsetRange,
    Positions,
    Route,
    Skip,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.lifecycle.commands import Ends, Hole, Outcome, Recover, Recovered
from aggregator.plan.plan import Plan
from aggregator.plan.positions.gaps import GapRecord, gap_id, is_new
from aggregator.plan.positions.hub_losses import (
    Held,
    cuts_of,
    has_all,
    least_cuts,
    least_ends,
    limited,
    lost_topics,
    merged,
    plan_cuts,
    plan_unknown,
    renewed_topics,
)
from aggregator.plan.positions.origins import Judged, plan_foreign
from aggregator.plan.positions.recovery import (
    TailPlan,
    counts_below,
    earlier_hub_ends,
    highest,
    needed_topics,
    plan_losses,
    plan_skips,
    plan_tail,
    recovered_positions,
)
from aggregator.plan.positions.start import Gap, is_same_log
from aggregator.store.checkpoint.identity import identity_of
from aggregator.store.checkpoint.past_commits import Past, ProvenBound, fitting
from aggregator.store.gaps import GapTable

CANCEL_SECONDS = 10.0

HubLogs = Mapping[TopicPartition, OffsetRange]


class UnreadError(Exception):
    """Hub topics cannot be read: those that are written into them wait, the others are read again.

    `topics` says why, by the topic's name.
    """

    def __init__(self, topics: Mapping[str, str]) -> None:
        super().__init__(", ".join(topics))
        self.topics = topics


class Recovery:
    """One recovery at a time; begun and asked by the engine's thread, while lanes may run.

    `stood` is where the hub's ends were seen to stand while the session started.
    """

    def __init__(
        self,
        connector: Connector,
        observer: Observer,
        hub: ClusterAdmin,
        gaps: GapTable,
        emit: EventSink,
        stop: threading.Event,
        stood: StoodAt | None = None,
    ) -> None:
        self._connector = connector
        self._observer = observer
        self._hub = hub
        self._gaps = gaps
        self._emit = emit
        self._stop = stop
        self._stood = stood
        self._cancellation = connector.cancellation()
        self._thread: threading.Thread | None = None
        self._outcome: Outcome | None = None

    def begin(self, command: Recover, config: Config) -> None:
        """Begin one; the last has ended, as `ended` has shown."""
        assert self._thread is None
        self._thread = threading.Thread(
            target=self._run, args=(command, config), name="recovery", daemon=True
        )
        self._thread.start()

    def ended(self) -> Outcome | None:
        """What came of the recovery that has ended since the last call."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return self._outcome

    def wait(self, seconds: float) -> bool:
        """Wait until the running recovery has ended, or `seconds` are over.

        Returns whether there is one.
        """
        if self._thread is None:
            return False
        self._thread.join(seconds)
        return True

    def cancel(self) -> None:
        """End a running one for good; the next start of the instance does it again."""
        self._cancellation.cancel()
        if self._thread is not None:
            self._thread.join(CANCEL_SECONDS)

    def _run(self, command: Recover, config: Config) -> None:
        try:
            self._outcome = Outcome(command, self.recover(command, config))
        except Exception as error:  # a thread has no caller to raise to: it is the outcome
            self._outcome = Outcome(command, error=error)

    def recover(self, command: Recover, config: Config) -> Recovered:
        """Read what the hub tail holds of the partitions, and commit where they are.

        Those whose hub topics do not show yet all that they hold, or cannot be read, are left as
        they are: the others do not wait for them. What the sources do not hold any more is recorded
        as gaps before that. Raises ClusterError and CheckpointError; then nothing is committed, and
        it has to be done again.
        """
        began = time.monotonic()
        begin = self._observer.positions.only(command.partitions)
        earlier = self._earlier(begin, command.snapshot.plan, config)
        own = self._observer.state.own_hub_ends(begin)
        needs = needed_topics(command.snapshot.plan.routes, begin, own, earlier)
        known = self._observer.hub_ends
        reader, timeout = hub_reader_settings(config.hub), config.supervision.connect_timeout
        hub = self._hub_logs(frozenset(needs.values()), reader, timeout, alone=command.alone)
        if cuts := plan_cuts(known, {tp: log.latest for tp, log in hub.logs.items()}):
            self._observer.cut_off(cuts)
        found: Recovered | None = None
        while found is None:
            waiting = {
                sp: min(late) for sp, topics in needs.items() if (late := topics & hub.waits.keys())
            }
            if len(waiting) == len(begin) > 0:
                found = Recovered()
                break
            rest = replace(command, partitions=command.partitions - waiting.keys())
            try:
                found = self._recover(rest, config, hub.logs, earlier)
            except UnreadError as error:
                hub = hub.without(error.topics)
        seconds = time.monotonic() - began
        return replace(found, seconds=seconds, waiting=waiting, waits=hub.waits)

    def _recover(
        self,
        command: Recover,
        config: Config,
        hub_logs: Mapping[TopicPartition, OffsetRange],
        earlier: dict[TopicPartition, int],
    ) -> Recovered:
        """What `recover` does, of partitions of which the hub shows all that it holds."""
        state, snapshot = self._observer.state, command.snapshot
        begin = self._observer.positions.only(command.partitions)
        own_ends = state.own_hub_ends(begin)
        into = needed_topics(snapshot.plan.routes, begin, {}, ())
        ids = {sp: it for sp, it in state.own_hub_ids().items() if sp in begin}
        renewed = renewed_topics(ids, into, snapshot.plan.hub_ids)
        lost = merged(lost_topics(own_ends, into, hub_logs), renewed)
        held = self._held(begin, lost, renewed, config, snapshot.plan, hub_logs)
        begin = begin.merged({sp: it.position for sp, it in held.items()})
        own_ends |= {sp: it.ends for sp, it in held.items()}
        bound = least_ends(own_ends.values()) | earlier
        known = replace(state.remembered(), positions=begin)
        logs = {
            sp: log
            for sp, log in snapshot.observed.offsets.items()
            if sp in command.partitions and is_same_log(sp, known, snapshot.observed)
        }
        reader = hub_reader_settings(config.hub)
        tail = plan_tail(begin, bound, hub_logs, own_ends)
        tail_found = self._read(tail, snapshot.plan, reader)
        if tail_found.unread:
            raise UnreadError(tail_found.unread)
        failpoint("after-scan")
        routes = snapshot.plan.routes
        judged = self._judged(config, tail_found, begin, routes, logs)
        found = {sp: skip for sp, skip in tail_found.parts.items() if sp not in judged.partitions}
        ranges = {sp: skip.ranges for sp, skip in found.items()}
        positions = recovered_positions(tail.positions, ranges, logs)
        losses = plan_losses(known, positions, highest(ranges), logs, counts_below(ranges, logs))
        now = {sp: snapshot.observed.log(sp) for sp in judged.foreign}
        foreign = plan_foreign(judged, tail_found.parts, begin, routes, now)
        unknown = plan_unknown(held, lost, known, positions, snapshot.observed)
        records = self._record((*losses, *foreign, *unknown))
        # Ends that were looked up while a lane still read say nothing about what it has read.
        sure = {
            sp: log.latest
            for sp, log in logs.items()
            if snapshot.began > command.left_at.get(sp, 0.0)
        }
        skips = plan_skips(positions, found, sure)
        hub_ids = identity_of(snapshot.plan).hub_ids
        holes = self._commit(positions, skips, judged.partitions, tail, bound, held, hub_ids)
        failpoint("after-recovered")
        return Recovered(
            holes,
            records,
            len(positions),
            tail.offsets,
            tail_found.found,
            silent=judged.silent,
        )

    def _held(
        self,
        begin: Positions,
        lost: Mapping[SourcePartition, frozenset[str]],
        renewed: Mapping[SourcePartition, frozenset[str]],
        config: Config,
        plan: Plan,
        hub_logs: Mapping[TopicPartition, OffsetRange],
    ) -> dict[SourcePartition, Held]:
        """Where partitions of which the hub has lost something are set back to, by the history."""
        if not lost:
            return {}
        state, place, hub_id = self._observer.state, config.checkpoint, plan.hub.cluster_id
        hub_ids, cuts = plan.hub_ids, self._cuts(lost, config)
        limits = limited(hub_logs, cuts)

        def own(sp: SourcePartition, bound: ProvenBound, logs: HubLogs) -> Ends:
            return fitting(bound, hub_id, logs, hub_ids, renewed.get(sp, ())).hub_ends

        def holds(sp: SourcePartition, bound: ProvenBound) -> bool:
            return has_all(own(sp, bound, {}), lost[sp], limits)

        past = Past(place.path, place.storage_options, {sp: state.entries[sp].log for sp in lost})
        targets = {sp: begin[sp] for sp in lost}
        proven = past.held(targets, holds)
        back = {sp: proven.get(sp, at) for sp, at in {**targets, **past.lowest()}.items()}
        bounds = past.bounds(back)
        topics = sorted(set().union(*lost.values()))
        offsets = sum(at - back[sp] for sp, at in targets.items())
        words = (
            f"the hub holds less in {', '.join(topics)} than was copied (restored from a backup, "
            f"created again, or cut off): {len(lost)} partitions are set back by {offsets} "
            "offsets, and what it lacks of these is copied again"
        )
        self._emit(Event("hub_lost", words, {"partitions": len(lost), "offsets": offsets}))
        return {
            sp: Held(
                at,
                own(sp, bounds[sp].after_cuts(cuts), hub_logs),
                unknown=sp not in proven and not past.is_whole,
            )
            for sp, at in back.items()
        }

    def _cuts(
        self, lost: Mapping[SourcePartition, frozenset[str]], config: Config
    ) -> dict[TopicPartition, int]:
        """From where on the log of hub partitions that were cut off is another one than it was.

        It is known that one was cut off at an offset or before: so it was where the leader began to
        write that wrote there. Raises UnreadError where it does not say so.
        """
        cuts = cuts_of(self._observer.state.own_hub_ids(), lost)
        if not cuts:
            return {}
        reader, timeout = hub_reader_settings(config.hub), config.supervision.connect_timeout
        starts = self._connector.log_starts(cuts, reader, timeout)
        if late := {tp.topic for tp in cuts if starts.get(tp, 0) is None}:
            raise UnreadError(dict.fromkeys(late, "its leaders do not say since when they lead"))
        return least_cuts(cuts, {tp: at for tp, at in starts.items() if at is not None})

    def _earlier(self, begin: Positions, plan: Plan, config: Config) -> dict[TopicPartition, int]:
        """Bounds in hub topics of before the config was changed, where the hub still has them."""
        named = earlier_hub_ends(self._observer.state.own_hub_ends(begin), plan.routes)
        if not named:
            return {}
        there = self._hub.partition_counts(config.supervision.connect_timeout)
        return {tp: end for tp, end in named.items() if tp.topic in there}

    def _hub_logs(
        self,
        needs: Collection[frozenset[str]],
        reader: Mapping[str, str],
        timeout: float,
        *,
        alone: bool,
    ) -> TopicLogs:
        """What the hub topics hold, with all that was under way; `alone`: no lane writes there.

        `needs` are topics that are of use only together.
        """
        failpoint("before-settle")
        logs = (
            settled_logs(self._hub, needs, timeout, self._stop, self._emit, self._stood)
            if alone
            else later_logs(self._hub, frozenset[str]().union(*needs), timeout, self._stop)
        )
        whole = whole_logs(
            self._hub,
            lambda partitions, seconds: self._connector.log_ends(partitions, reader, seconds),
            logs,
            timeout=timeout,
            stop=self._stop,
        )
        failpoint("after-settle")
        return whole

    def _read(self, tail: TailPlan, plan: Plan, reader: Mapping[str, str]) -> TailFound:
        if not tail.ranges:
            return TailFound(0, 0, {})
        self._emit(Event("recovering", f"reading {tail.offsets} offsets of the hub tail"))
        compacted = [
            name for name, topic in plan.hub_topics.items() if "compact" in topic.cleanup_policy
        ]
        return self._connector.read_tail(tail, reader, compacted, self._cancellation)

    def _judged(
        self,
        config: Config,
        found: TailFound,
        begin: Positions,
        routes: Sequence[Route],
        logs: Collection[SourcePartition],
    ) -> Judged:
        """Whether what was found is of these logs, as their sources report."""
        return compare_origins(
            connector=self._connector,
            config=config,
            found=found,
            starts=begin,
            routes=routes,
            partitions=logs,
            cancellation=self._cancellation,
        )

    def _record(self, gaps: tuple[Gap, ...]) -> tuple[GapRecord, ...]:
        """Record what was found; returns what is new, or was settled once and is there again."""
        if not gaps:
            return ()
        now, epoch = datetime.now(UTC), self._observer.state.epoch
        known = self._gaps.load()
        found = [GapRecord(gap_id(gap), gap, now, epoch) for gap in gaps]
        new = tuple(record for record in found if is_new(record, known.get(record.id)))
        self._gaps.append(new)
        return new

    def _commit(
        self,
        positions: Positions,
        skips: Mapping[SourcePartition, Skip],
        doubtful: frozenset[SourcePartition],
        tail: TailPlan,
        bound: Ends,
        rewound: Collection[SourcePartition],
        hub_ids: Mapping[str, str],
    ) -> dict[SourcePartition, Hole]:
        """Commit what is whole as clean; what is not keeps the bound behind which it is.

        So does what is `doubtful`: it is where it was. All in one commit: what is clean in it says
        where the hub is now, and what comes later would no longer be known to be in doubt.
        """
        # A hub partition that the bound does not know would be read from its beginning each time.
        ends = {tp: log.earliest for tp, log in tail.ranges.items()} | dict(bound)
        # Of each by itself: before its own bound there may be records of a topic that is gone.
        kept = doubtful | set(skips)
        older: dict[SourcePartition, Ends] = {sp: {**ends, **tail.above.get(sp, {})} for sp in kept}
        self._observer.recovered(positions, older, rewound, hub_ids)
        entries = self._observer.state.entries
        return {
            sp: Hole(positions[sp], entries[sp].snapshot.snapshot_at_ms, skip, older[sp])
            for sp, skip in skips.items()
        }
