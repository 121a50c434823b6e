"""Keeps the events of deduplicated hub topics: read at a start, written while it runs.

In a thread of its own. What is dropped is decided by the tasks; until a hub topic's events are
known here, the partitions that go there wait, and nothing else does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from aggregator.config.in_force import InForce
from aggregator.config.kafka_settings import hub_reader_settings
from aggregator.features.dedup.event_table import ROW_BYTES, DedupTable, Rule, TopicLife
from aggregator.features.service import Now, Service
from aggregator.model.errors import ClusterError
from aggregator.model.events import Event, EventSink
from aggregator.model.failpoint import failpoint
from aggregator.model.loop import FOREVER, Loop
from aggregator.status.copied import DedupStatus
from aggregator.store.checkpoint.rows import to_moment
from aggregator.store.state_store import StateStore

if TYPE_CHECKING:
    from aggregator.datapath.connector.event_claims import DedupConnector

TICK_SECONDS = 0.25
WRITE_SECONDS = 15.0
MAINTAIN_SECONDS = 3_600.0
STOP_SECONDS = 20.0
"""How long a clean stop waits for the last rows at most: the next start reads what is missing."""


class DedupKeeper(Service):
    """`known` is replaced as a whole, so that it can be read from any thread.

    `topic_id` says which topic there is at the hub by a name, "" if the hub does not say, or is a
    ClusterError.

    A failure is reported once, and retried at the next tick.
    """

    name = "dedup"

    def __init__(
        self,
        in_force: InForce,
        connector: DedupConnector,
        topic_id: Callable[[str], str],
        emit: EventSink,
    ) -> None:
        self.known: tuple[DedupStatus, ...] = ()
        self._is_off = False
        self._in_force = in_force
        self._connector = connector
        self._topic_id = topic_id
        self._emit = emit
        self._table = DedupTable(StateStore.of(in_force.config.checkpoint))
        self._reported: dict[str, str] = {}
        self._written: dict[Rule, tuple[list[int], float]] = {}
        self._lives: dict[Rule, TopicLife] = {}
        self._next_care = time.monotonic() + MAINTAIN_SECONDS
        self._loop = Loop(
            "dedup",
            partial(self._turn, last=False),
            every=lambda: FOREVER if self._is_off else TICK_SECONDS,
            on_error=partial(self._fail, "dedup"),
            finish=partial(self._turn, last=True),
            stop_seconds=STOP_SECONDS,
        )

    def follow(self, now: Now) -> None:
        """Work when the config in force has topics with dedup."""
        if self._is_off and now.config.topics.has_dedup:
            self._loop.wake()

    def status(self) -> tuple[DedupStatus, ...]:
        """Each hub topic that has its events once."""
        return self.known

    def start(self) -> None:
        """Begin to look which hub topics have their events once."""
        self._loop.start()

    def stop(self) -> None:
        """Write what is left, if the table takes it soon, and end. When all lanes have ended."""
        self._loop.end()
        self._connector.cancel()
        self._loop.stop()

    def _turn(self, *, last: bool) -> None:
        self._keep(last=last)
        self._reported.pop("dedup", None)

    def _keep(self, *, last: bool) -> None:
        self._is_off = not self._in_force.config.topics.has_dedup
        if self._is_off:
            self.known = ()
            return
        states = self._connector.stand()
        for it in states:
            self._try(it["topic"], partial(self._follow, it, last=last))
        self.known = tuple(
            DedupStatus(
                hub_topic=it["topic"],
                by=it["by"],
                ready=it["ready"],
                events=it["events"],
                bytes=it["bytes"],
            )
            for it in states
        )
        if states and time.monotonic() >= self._next_care and not last:
            self._next_care = time.monotonic() + MAINTAIN_SECONDS
            longest = max(it["window_ms"] for it in states)
            self._table.maintain(datetime.now(UTC) - timedelta(milliseconds=longest))

    def _follow(self, state: dict[str, Any], *, last: bool) -> None:
        rule = Rule(state["topic"], state["by"])
        if not state["ready"]:
            if not state["blocked"] and not last:
                self._begin(rule, state["window_ms"])
            return
        if state["uncertain"] and not last:
            self._settle(rule, state["uncertain"])
        before, due = self._written.get(rule, ([], 0.0))
        is_due = time.monotonic() >= due
        if is_due and not last and self._is_another(rule):
            # Its events are those of records that are gone: it begins as at a start.
            self._connector.forget(*rule)
            self._written.pop(rule, None)
            words = f"hub topic {rule.hub_topic} was created again: what it held is forgotten"
            self._emit(Event("dedup_forgotten", words, {"topic": rule.hub_topic}))
            return
        # Also where nothing is written: so a claim that gets uncertain is looked for close by.
        ends = self._connector.covered(*rule)
        if last:
            # Nothing is sent any more: what was acknowledged by the first call is all.
            ends = self._connector.covered(*rule)
        if last or is_due:
            self._write(rule, ends, before)

    def _begin(self, rule: Rule, window_ms: int) -> None:
        """Learn what the hub holds: from the table, and from the hub where that does not say."""
        began, now_ms = time.monotonic(), time.time_ns() // 1_000_000
        since = to_moment(now_ms - window_ms)
        topic_id = self._topic_id(rule.hub_topic)
        newest = self._table.mark(rule, since)
        is_known = newest is not None and _same(newest.life.topic_id, topic_id)
        mark = newest if is_known else None
        # What a try before this one has found may be of an earlier life.
        self._connector.forget(*rule)
        found = self._read(rule, mark.ends if mark else ())
        if not _same(self._topic_id(rule.hub_topic), topic_id):
            raise ClusterError(f"hub: {rule.hub_topic} was created again while it was read")
        if mark is not None and not found["remade"]:
            life = TopicLife(mark.life.number, topic_id or mark.life.topic_id)
            loaded = self._load(rule, life, since)
        else:
            number = max(now_ms, newest.life.number + 1 if newest else 0)
            life, loaded = TopicLife(number, topic_id), 0
        if mark is not None and found["remade"]:
            # By its id it is the same topic: the next start must know that it has lost records.
            self._table.append(rule, life, b"", (), now_ms)
        self._lives[rule] = life
        failpoint("before-events-known")
        self._connector.begin(*rule, found["ends"])
        words = (
            f"hub topic {rule.hub_topic} has each event once, by {rule.by}: {loaded} events of the "
            f"table, {found['read']} records of the hub read, {time.monotonic() - began:.1f} s"
        )
        fields: dict[str, str | int] = {"topic": rule.hub_topic, "events": loaded}
        self._emit(Event("dedup_ready", words, {**fields, "read": found["read"]}))

    def _load(self, rule: Rule, life: TopicLife, since: datetime) -> int:
        loaded = 0
        for events in self._table.events(rule, life, since):
            self._connector.load(*rule, events)
            loaded += len(events) // ROW_BYTES
        return loaded

    def _is_another(self, rule: Rule) -> bool:
        """Whether the hub topic was created again since its events were read."""
        try:
            return not _same(self._lives[rule].topic_id, self._topic_id(rule.hub_topic))
        except ClusterError:
            # No answer is no news: what is written meanwhile is as right as before.
            return False

    def _settle(self, rule: Rule, count: int) -> None:
        """See what became of records whose tasks are gone."""
        found = self._read(rule, ())
        words = (
            f"hub topic {rule.hub_topic}: {count} records of tasks that are gone looked for in "
            f"{found['read']} of the hub; {found['released']} are not there"
        )
        self._emit(Event("dedup_settled", words, {"topic": rule.hub_topic}))

    def _read(self, rule: Rule, ends: Sequence[int]) -> Any:
        config = self._in_force.config
        timeout = config.supervision.connect_timeout
        return self._connector.read(*rule, hub_reader_settings(config.hub), ends, timeout)

    def _write(self, rule: Rule, ends: list[int], before: list[int]) -> None:
        while True:
            events = self._connector.fresh(*rule)
            if not events and ends == before:
                break
            # Only with the last of them everything below the mark is in the table.
            rest = self._connector.more(*rule)
            now_ms = time.time_ns() // 1_000_000
            failpoint("before-events-kept")
            self._table.append(rule, self._lives[rule], events, None if rest else ends, now_ms)
            failpoint("after-events-kept")
            self._connector.kept(*rule)
            if not rest:
                break
        self._written[rule] = (ends, time.monotonic() + WRITE_SECONDS)

    def _try(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # a thread has no caller to raise to: it becomes an event
            self._fail(what, error)
        else:
            self._reported.pop(what, None)

    def _fail(self, what: str, error: Exception) -> None:
        words = f"events of {what} cannot be kept or read: {error}"
        if self._reported.get(what) != words and not self._loop.over.is_set():
            self._emit(Event("dedup_failed", words))
        self._reported[what] = words


def _same(one: str, other: str) -> bool:
    """Whether two ids are of one topic; one that is not known proves nothing."""
    return not one or not other or one == other
