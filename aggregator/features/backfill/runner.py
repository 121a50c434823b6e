"""The backfills of a running instance: one at a time, beside the live flow, each in turn.

Used by the engine's thread alone. A failure of one is reported, and retried later; it never
ends the live flow. Nothing has to be committed in time: a position that is older than the hub only
makes the next scan find more.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.errors import PySparkException

from aggregator.datapath.connector.reports import DAMAGED, OUT_OF_RANGE, POISONED
from aggregator.datapath.spark.lane import LaneQuery
from aggregator.features.backfill.backfill_report import backfill_status, worth_showing
from aggregator.features.backfill.backfill_table import BackfillTable
from aggregator.features.backfill.lane import CANCEL_SECONDS, BackfillSight, BackfillTry, Tools
from aggregator.features.backfill.progress import commit_seconds, why_wrong
from aggregator.features.backfill.ranges import (
    Backfill,
    BackfillState,
    busy_with,
    find_active,
    next_id,
)
from aggregator.model.errors import AggregatorError, CheckpointError, RefusedError
from aggregator.model.events import Event
from aggregator.model.failpoint import failpoint
from aggregator.model.values import SourcePartition
from aggregator.plan.lifecycle.failures import DELAYS_SECONDS, TRIES_ALLOWED
from aggregator.plan.topics.refused_records import is_refusal
from aggregator.status.schema import BackfillStatus
from aggregator.store.lease.writer import lost_seconds

SETTLE_SECONDS = 1.0
"""The hub is not asked before: a request of a dead instance may still be in flight."""
TICK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class _Rest:
    """Why a backfill waits after a failed try, until when, and its position then."""

    reason: str
    until: float
    count: int
    left: int


class Backfills:
    """All ordered backfills; `again` requests discovery."""

    def __init__(self, tools: Tools, table: BackfillTable, again: Callable[[], None]) -> None:
        self._tools = tools
        self._table = table
        self._emit = tools.emit
        self._again = again
        self._all: dict[str, Backfill] = {}
        self._try: BackfillTry | None = None
        self._generation = 0
        self._rests: dict[str, _Rest] = {}
        self._waits: dict[str, str] = {}
        self._refused: frozenset[tuple[str, str]] = frozenset()
        self._not_before = time.monotonic() + SETTLE_SECONDS

    def load(self) -> None:
        """Load what was ordered so far; CheckpointError when it cannot be read."""
        self._all = self._table.load()

    @property
    def writing(self) -> Mapping[SourcePartition, int]:
        """The partitions that a lane, or its last task, may still write, and where that ends."""
        work = self._try
        return {} if work is None or not work.key else work.backfill.ends

    @property
    def problems(self) -> dict[str, str]:
        """Active ones of which every try has failed: a run with an end gives them up."""
        return {
            str(self._all[name]): rest.reason
            for name, rest in self._rests.items()
            if rest.count >= TRIES_ALLOWED and self._all[name].is_active
        }

    @property
    def is_busy(self) -> bool:
        """Whether a run with an end still has something to do."""
        given_up = {it for it, rest in self._rests.items() if rest.count >= TRIES_ALLOWED}
        done = self._waits.keys() | given_up
        left = [it for it in self._all.values() if it.is_active and it.id not in done]
        return self._try is not None or bool(left)

    def statuses(self) -> tuple[BackfillStatus, ...]:
        """The status of each."""
        return tuple(self.status(it) for it in worth_showing(self._newest()))

    def status(self, backfill: Backfill) -> BackfillStatus:
        """The status of one."""
        name, work = backfill.id, self._try
        if not backfill.is_active:
            return backfill_status(backfill)
        rest = self._rests.get(name)
        reason = rest.reason if rest is not None else ""
        doing = self._waits.get(name, "waits for its turn")
        if work is not None and work.backfill.id == name:
            if work.query is None:
                doing = "waits for its last task" if work.after else "asks the hub what it holds"
            else:
                doing = "ends" if work.after else "reads"
                report = work.query.report
                reason = next(iter([*report.unread.values(), *report.errors.values()]), reason)
        elif rest is not None and name not in self._waits:
            doing = "waits for its next try"
        return backfill_status(backfill, doing, reason)

    def order(self, backfill: Backfill) -> Backfill:
        """Store a backfill, which begins when its turn has come; returns it with its id.

        Raises RefusedError when another one reads its range, CheckpointError when it cannot be
        noted.
        """
        both = busy_with(self._all.values()).keys() & {it.partition for it in backfill.parts}
        if both:
            raise RefusedError([f"another backfill reads {sp}" for sp in sorted(both)])
        ordered = replace(backfill, id=next_id(self._all))
        self._table.put(ordered)
        self._all[ordered.id] = ordered
        words = f"{ordered}: {ordered.left:,} offsets to read"
        self._emit_event("backfill_ordered", words, ordered)
        return ordered

    def cancel(self, name: str) -> Backfill:
        """Cancel a backfill; what was written stays. Raises as `order` does."""
        backfill = find_active(self._all, name)
        work = self._try
        if work is not None and work.backfill.id == name:
            backfill = work.backfill
            work.release(BackfillState.CANCELLED, "", time.monotonic() + CANCEL_SECONDS)
        cancelled = self._put(replace(backfill, state=BackfillState.CANCELLED, reason=""))
        self._emit_event("backfill_cancelled", f"{cancelled} was cancelled", cancelled)
        return cancelled

    def turn(self, sight: BackfillSight | None) -> None:
        """Continue the current one, or begin the next; `sight` is None without a snapshot.

        AggregatorError for a lane that does not stop.
        """
        work = self._try
        if work is None:
            if sight is not None and time.monotonic() >= self._not_before:
                self._begin(sight)
        elif work.query is not None:
            self._follow(work, work.query, sight)
        elif work.key:
            if sight is not None and not work.is_open(lost_seconds(sight.config)):
                self._try = None
        else:
            self._start(work, sight)

    def end(self, timeout_seconds: float) -> None:
        """Stop cleanly: its lane reports its position, where the next start continues."""
        work = self._try
        if work is None:
            return
        work.release(BackfillState.ACTIVE, "", time.monotonic() + timeout_seconds)
        work.wait_for_scan()
        try:
            while work.query is not None:
                self._tools.connector.poll()
                self._follow(work, work.query, None)
                time.sleep(TICK_SECONDS)
        except AggregatorError as error:
            # The lanes of the live flow must end all the same.
            self._emit_event("backfill_failed", f"{work.backfill}: {error}", work.backfill)
        self._try = None

    def kill(self) -> None:
        """End its lane at once and commit nothing."""
        if self._try is not None:
            self._try.close()
            self._try = None

    def _newest(self) -> Iterator[Backfill]:
        work = self._try
        for it in self._all.values():
            own = work is not None and work.backfill.id == it.id and it.is_active
            yield work.backfill if own and work is not None else it

    def _begin(self, sight: BackfillSight) -> None:
        """Begin the first that can; those before it say what they wait for."""
        self._waits = {}
        for backfill in [it for it in self._all.values() if it.is_active]:
            wrong = why_wrong(backfill, sight.log(backfill), sight.live)
            if wrong:
                self._fail(backfill, wrong)
                continue
            if why := _why_not(backfill, sight):
                self._waits[backfill.id] = why
                continue
            rest = self._rests.get(backfill.id)
            if rest is not None and (
                time.monotonic() < rest.until or sight.snapshot.began < rest.until
            ):
                if time.monotonic() >= rest.until:
                    self._again()
                continue
            self._generation += 1
            seen = replace(sight, refused=sight.refused | self._refused)
            self._try = BackfillTry(self._tools, backfill, seen, self._generation)
            return

    def _start(self, work: BackfillTry, sight: BackfillSight | None) -> None:
        """Start the lane, when the scan has ended."""
        try:
            scanned = work.scanned()
            if scanned is None:
                if sight is not None and self._is_stale(work, sight):
                    work.release(BackfillState.ACTIVE, "", time.monotonic())
                return
            if sight is None and work.after is None:
                return
            if work.after is not None or (sight is not None and self._is_stale(work, sight)):
                # Reasons against it by now are reported when it begins again.
                self._try = None
                return
            if scanned.foreign:
                self._try = None
                self._fail(work.backfill, scanned.foreign)
                return
            failpoint("backfill-scanned")
            if not work.backfill.left:
                self._done(work.backfill)
                self._try = None
                return
            assert sight is not None
            work.start(scanned, sight)
        except (AggregatorError, PySparkException) as error:
            self._try = None
            if work.after is None:
                self._try_again(work.backfill, str(error))
            return
        self._put_or_report(work.backfill)
        words = f"{work.backfill} reads {work.backfill.left:,} offsets"
        self._emit_event("backfill_started", words, work.backfill)

    def _follow(self, work: BackfillTry, query: LaneQuery, sight: BackfillSight | None) -> None:
        """Take the lane's report, and see whether it must end, or has ended."""
        report, now = query.report, time.monotonic()
        if sight is not None and work.after is None:
            self._look_for_an_end(work, sight, now)
        if work.after is not BackfillState.FAILED and not report.stuck:
            # If the log has been replaced, nothing of the scan is trusted.
            work.take(report)
        if not query.active or report.stuck:
            failure = query.failure() or "its query has ended"
            failure = next((report.unread[sp] for sp in report.stuck), failure)
            if work.after in (None, BackfillState.ACTIVE):
                work.after, work.reason = BackfillState.ACTIVE, failure
            work.close()
            self._finish(work)
        elif work.after is not None:
            if report.ended or now >= work.ends_by:
                work.close()
                self._finish(work)
        elif sight is not None:
            late = now + sight.config.supervision.stop_timeout
            ends = (OUT_OF_RANGE, DAMAGED, POISONED)
            stuck = [it for it, state in report.states.items() if state in ends]
            if not work.backfill.left:
                work.release(BackfillState.DONE, "", late)
            elif stuck:
                reason = f"{stuck[0]}: {report.unread.get(stuck[0], '')}"
                work.release(BackfillState.ACTIVE, reason, late)
            elif now - work.committed >= commit_seconds(
                sight.config.stream.checkpoint_interval, now - work.started
            ):
                failpoint("backfill-point")
                work.committed = now
                self._put_or_report(work.backfill)

    def _look_for_an_end(self, work: BackfillTry, sight: BackfillSight, now: float) -> None:
        late = now + sight.config.supervision.stop_timeout
        if wrong := why_wrong(work.backfill, sight.log(work.backfill), sight.live):
            work.release(BackfillState.FAILED, wrong, late)
        elif why := _why_not(work.backfill, sight) or self._changed(work, sight):
            self._waits[work.backfill.id] = why
            work.release(BackfillState.ACTIVE, "", late)

    def _finish(self, work: BackfillTry) -> None:
        """Its lane has ended; what may still be under way is waited for in `turn`."""
        match work.after:
            case BackfillState.DONE:
                self._done(work.backfill)
            case BackfillState.FAILED:
                self._fail(work.backfill, work.reason)
            case BackfillState.CANCELLED:
                self._put_or_report(replace(work.backfill, state=BackfillState.CANCELLED))
            case _:
                self._put_or_report(work.backfill)
                if work.reason:
                    self._try_again(work.backfill, work.reason)

    def _is_stale(self, work: BackfillTry, sight: BackfillSight) -> bool:
        """Whether its lane may not start as it was meant to when the scan began."""
        wrong = why_wrong(work.backfill, sight.log(work.backfill), sight.live)
        return bool(wrong or _why_not(work.backfill, sight) or self._changed(work, sight))

    def _changed(self, work: BackfillTry, sight: BackfillSight) -> str:
        """Why its lane has to restart: its topic has another route by now."""
        seen = replace(sight, refused=sight.refused | self._refused)
        now = [replace(it, partitions=0) for it in seen.routes(work.backfill)]
        same = now == [replace(it, partitions=0) for it in work.routes]
        return "" if same else "restarts: its topic has another route"

    def _done(self, backfill: Backfill) -> None:
        done = self._put_or_report(replace(backfill, state=BackfillState.DONE, reason=""))
        lost = sum(part.lost for part in backfill.parts)
        words = f"{backfill} is done: {backfill.records:,} records were written"
        if lost:
            words += f", {lost:,} offsets were deleted at the source before they were read"
        self._emit_event("backfill_done", words, done)

    def _fail(self, backfill: Backfill, reason: str) -> None:
        failed = self._put_or_report(replace(backfill, state=BackfillState.FAILED, reason=reason))
        self._emit_event("backfill_failed", f"{backfill} has failed: {reason}", failed)

    def _try_again(self, backfill: Backfill, reason: str) -> None:
        before = self._rests.get(backfill.id)
        count = 1 if before is None or before.left != backfill.left else before.count + 1
        delay = DELAYS_SECONDS[min(count, len(DELAYS_SECONDS)) - 1]
        if is_refusal(reason):
            self._refused |= {(backfill.cluster, backfill.topic)}
        rest = _Rest(reason, time.monotonic() + delay, count, backfill.left)
        self._rests[backfill.id] = rest
        self._all[backfill.id] = backfill
        words = f"{backfill}: next try in {delay:.0f} s: {reason}"
        self._emit_event("backfill_failed", words, backfill)

    def _put_or_report(self, backfill: Backfill) -> Backfill:
        """Store the state of a backfill; a failed write is made up by the next change."""
        try:
            return self._put(backfill)
        except CheckpointError as error:
            self._all[backfill.id] = backfill
            self._emit_event("checkpoint_error", f"{backfill} is not noted: {error}", backfill)
            return backfill

    def _put(self, backfill: Backfill) -> Backfill:
        backfill = replace(backfill, at=datetime.now(UTC))
        self._table.put(backfill)
        self._all[backfill.id] = backfill
        return backfill

    def _emit_event(self, kind: str, words: str, backfill: Backfill) -> None:
        fields: dict[str, str | int] = {"backfill": backfill.id, "source": backfill.cluster}
        self._emit(Event(kind, words, fields))


def _why_not(backfill: Backfill, sight: BackfillSight) -> str:
    """Why a backfill must not be read now, in words; "" when it may."""
    if not sight.routes(backfill):
        return "waits: its topic is not selected now, or its source does not answer"
    left = [part.partition for part in backfill.parts if part.left]
    if unknown := [sp for sp in left if sp not in sight.live]:
        # Where the live flow reads from is not known: perhaps from within the range.
        return f"waits: {unknown[0]} has no position in the checkpoint"
    reasons = (sight.rests(sp) for sp in left)
    return next((f"waits: {it}" for it in reasons if it), "")
