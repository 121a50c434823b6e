"""Runs the tee of a config beside an instance: starts it, watches it, starts it again.

In a process of its own with low priority, so that whatever becomes of it, replication continues.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aggregator.config.in_force import InForce
from aggregator.config.mask import mask_text
from aggregator.config.schema import Config
from aggregator.features.child_process import (
    Child,
    ask_to_end,
    begin,
    close,
    hand_over,
    messages_of,
)
from aggregator.features.delta_sink.next_batch import plan_rest
from aggregator.features.delta_sink.sink_report import TeeReport
from aggregator.features.service import Now, Service
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import FOREVER, Loop
from aggregator.status.sink import TeeState, TeeStatus

TURN_SECONDS = 0.25
LAST_SECONDS = 3.0
"""A stop waits this long for a commit in flight; what is cut off lands later."""
CHANGE_SECONDS = 30.0
SILENT_SECONDS = 300.0
"""A tee that sends nothing for this long is ended, and another one started."""
WELL_SECONDS = 60.0
"""After a tee has run this long, the delays before a restart begin short again."""
LOCAL = "local[*]"
NOT_PASSED_ON = ("tee_progress",)
PROGRAM = "aggregator.features.delta_sink.sink_process"


def wants_tee(config: Config) -> bool:
    """Whether this config has a tee run beside an instance."""
    return config.tee.run == "beside"


def _used(config: Config) -> tuple[object, ...]:
    """The settings of a tee that may change while an instance runs."""
    schemas = {alias: it.schemas for alias, it in config.sources.items()}
    # Where no source has a registry of its own, all ids are the hub's.
    asks = config.tee.decode == "auto" and any(it.registry for it in schemas.values())
    return config.tee, config.topics, schemas if asks else None


def begin_tee() -> Child:
    """A process that waits for its job; OSError when it cannot be started."""
    return begin(PROGRAM)


@dataclass(slots=True)
class _Life:
    """One process: what it has sent."""

    config: Config
    began: float = field(default_factory=time.monotonic)
    heard_at: float = field(default_factory=time.monotonic)
    report: TeeReport | None = None
    at: datetime | None = None
    error: str = ""
    held: bool = False


@dataclass(frozen=True, slots=True)
class _Sums:
    """Of processes that have ended."""

    records: int = 0
    undecoded: int = 0
    lost: int = 0


class TeeBeside(Service):
    """Keeps a tee running while the config in force wants one, until it is stopped.

    Nothing here stops a run, or keeps it waiting for longer than LAST_SECONDS.
    """

    name = "tee"

    def __init__(
        self,
        in_force: InForce,
        emit: EventSink,
        begin: Callable[[], Child] = begin_tee,
    ) -> None:
        self._in_force = in_force
        self._emit = emit
        self._begin = begin
        self._life: _Life | None = None
        self._child: Child | None = None
        self._sums = _Sums()
        self._failures = 0
        self._in_a_row = 0
        self._last = ""
        self._rest = TURN_SECONDS
        self._loop = Loop(
            "tee-beside",
            self._turn,
            every=lambda: self._rest,
            on_error=lambda error: self._failed(str(error), held=False),
            # Its thread kills a tee that is late.
            stop_seconds=2 * LAST_SECONDS,
        )

    def follow(self, now: Now) -> None:
        """From now on a tee runs when the config has one, unless the run ends by itself."""
        if not now.until_done:
            self._loop.start()
            if self._rest == FOREVER and wants_tee(self._in_force.config):
                self._loop.wake()

    def status(self) -> TeeStatus | None:
        """Its status; None where no tee should run."""
        config = self._in_force.config
        if not self._loop.has_begun or not wants_tee(config):
            return None
        life, sums = self._life, self._sums
        report = life.report if life is not None else None
        known = report.topics if report is not None else ()
        problems: tuple[str, ...] = (self._last,) if life is None and self._last else ()
        if report is not None:
            problems = tuple(mask_text(it, config) for it in report.problems)
        waits = [it.lag for it in known]
        behind = [it.seconds_behind for it in known]
        return TeeStatus(
            state=_state_of(life, self._last),
            path=config.tee.path,
            at=life.at if life is not None else None,
            topics=len(known),
            records=sums.records + sum(it.records for it in known),
            undecoded=sums.undecoded + sum(it.undecoded for it in known),
            lost=sums.lost + sum(it.lost for it in known),
            lag=sum(it or 0 for it in waits) if waits and None not in waits else None,
            seconds_behind=max((it for it in behind if it is not None), default=None),
            failures=self._failures,
            problems=problems,
        )

    def end(self) -> None:
        """Ask the tee to end, and start none any more; returns at once."""
        self._loop.end()
        if (child := self._child) is not None:
            ask_to_end(child)

    def stop(self) -> None:
        """End it, and wait a moment for that."""
        self.end()
        self._loop.stop()

    def _turn(self) -> None:
        self._rest = TURN_SECONDS
        if wants_tee(config := self._in_force.config):
            self._live(config)
        else:
            # Until `follow` wakes it.
            self._rest = FOREVER

    def _live(self, config: Config) -> None:
        """One process, from its start to its end."""
        # Never on the executors of the stream.
        spark = config.spark.model_copy(update={"master": LOCAL})
        life = _Life(config)
        child = self._child = self._begin()
        self._life = life
        listener = threading.Thread(target=self._listen, args=(child, life), daemon=True)
        try:
            hand_over(child, config.model_copy(update={"spark": spark}))
            listener.start()
            wanted = self._watch(child, life)
        finally:
            if child.poll() is None:
                child.kill()
            code = child.wait()
            if listener.ident is not None:
                listener.join(LAST_SECONDS)
            if not listener.is_alive():
                close(child)
            self._child, self._life = None, None
            self._add(life)
        if wanted:
            self._rest = 0.0
            return
        well = life.report is not None and time.monotonic() - life.began > WELL_SECONDS
        self._in_a_row = 0 if well else self._in_a_row
        self._failed(life.error or f"it ended with exit code {code}", held=life.held)

    def _watch(self, child: Child, life: _Life) -> bool:
        """Until it has ended; whether that was wanted."""
        while child.poll() is None:
            now = self._in_force.config
            if self._loop.over.is_set():
                return self._wait_for(child, LAST_SECONDS)
            if _used(now) != _used(life.config):
                return self._wait_for(child, CHANGE_SECONDS)
            if time.monotonic() - life.heard_at > SILENT_SECONDS:
                life.error = life.error or f"it sent nothing for {SILENT_SECONDS:g} s"
                return False
            if life.report is not None and self._last:
                self._last, self._in_a_row = "", 0
                self._emit(Event("tee_back", "hub records land in Delta again"))
            self._loop.over.wait(TURN_SECONDS)
        return self._loop.over.is_set()

    def _wait_for(self, child: Child, seconds: float) -> bool:
        ask_to_end(child)
        deadline = time.monotonic() + seconds
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(TURN_SECONDS / 5)
        return True

    def _listen(self, child: Child, life: _Life) -> None:
        try:
            for news in messages_of(child):
                life.heard_at = time.monotonic()
                self._take(life, news)
        except Exception as error:  # a thread has no caller to raise to: the process ends, and why
            life.error = life.error or str(error)
            child.kill()

    def _take(self, life: _Life, news: dict[str, Any]) -> None:
        if (event := news.get("event")) is not None and event["kind"] not in NOT_PASSED_ON:
            self._emit(Event(event["kind"], event["message"], event["fields"]))
        if (report := news.get("report")) is not None:
            life.report, life.at = TeeReport.model_validate(report), datetime.now(UTC)
        if "error" in news:
            life.error, life.held = str(news["error"]), bool(news.get("held"))

    def _add(self, life: _Life) -> None:
        topics = life.report.topics if life.report is not None else ()
        self._sums = _Sums(
            self._sums.records + sum(it.records for it in topics),
            self._sums.undecoded + sum(it.undecoded for it in topics),
            self._sums.lost + sum(it.lost for it in topics),
        )

    def _failed(self, reason: str, *, held: bool) -> None:
        """It is no news that it failed again."""
        if self._loop.over.is_set():
            return
        self._failures += 1
        self._in_a_row += 1
        first, self._last = not self._last, mask_text(reason, self._in_force.config)
        if first:
            kind = "tee_held" if held else "tee_failed"
            self._emit(Event(kind, f"no hub records land in Delta: {self._last}"))
        self._rest = plan_rest(self._in_a_row)


def _state_of(life: _Life | None, last: str) -> TeeState:
    if life is None:
        return TeeState.WAITING if last else TeeState.STARTING
    if life.report is None:
        return TeeState.STARTING
    return TeeState.FAILING if life.report.problems else TeeState.RUNNING
