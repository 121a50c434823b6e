"""Keeps the claims of a run in their table, in a thread of its own, off the critical path."""

import time
from datetime import UTC, datetime, timedelta
from functools import partial

from aggregator.config.in_force import InForce
from aggregator.features.completeness.claim_table import CompletenessTable
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import Loop
from aggregator.plan.completeness.claims import Claim
from aggregator.store.state_store import StateStore

TICK_SECONDS = 0.5
MAINTAIN_SECONDS = 3_600.0
STOP_SECONDS = 5.0
"""How long a clean stop waits for the last rows at most."""


class Keeper:
    """Reads once what was claimed before, then writes what is claimed.

    `earlier` is None until that was read: before it nothing may be claimed, as it would go back.
    A table that cannot be read or written is an event and `failing`; the run continues.
    """

    def __init__(self, in_force: InForce, emit: EventSink) -> None:
        self.earlier: tuple[Claim, ...] | None = None
        self.failing = ""
        self._in_force = in_force
        self._emit = emit
        self._table = CompletenessTable(StateStore.of(in_force.config.checkpoint))
        self._newest: tuple[Claim, ...] = ()
        self._written: dict[tuple[str | None, str], Claim] = {}
        self._next_rows = 0.0
        self._began = time.monotonic()
        self._next_care = time.monotonic() + MAINTAIN_SECONDS
        self._loop = Loop(
            "completeness",
            partial(self._turn, last=False),
            every=self._rest,
            on_error=self._fail,
            finish=partial(self._turn, last=True),
            stop_seconds=STOP_SECONDS,
        )

    def start(self) -> None:
        """Begin to read, then to write."""
        self._loop.start()

    def stop(self) -> None:
        """Write what is left, if the table takes it soon, and end."""
        self._loop.stop()

    def take(self, claims: tuple[Claim, ...]) -> None:
        """Take what is claimed now; never waits."""
        self._newest = claims
        if self._is_due(claims):
            self._loop.wake()

    def _rest(self) -> float:
        """`take` wakes it when there is something to write."""
        if self.failing or self.earlier is None:
            return TICK_SECONDS
        return max(0.0, self._next_care - time.monotonic())

    def _is_due(self, claims: tuple[Claim, ...]) -> bool:
        """Whether something has to be written now."""
        is_new = time.monotonic() >= self._next_rows and any(self._is_news(it) for it in claims)
        return is_new or self._is_of_others(claims)

    def _is_news(self, claim: Claim) -> bool:
        return self._written.get((claim.source, claim.topic)) != claim

    def _unseen(self, claims: tuple[Claim, ...]) -> list[Claim]:
        """What was claimed of what is not claimed now, as while no source answers that feeds it.

        Until it is as old as rows may become.
        """
        now, seen = {(it.source, it.topic) for it in claims}, dict[tuple[str | None, str], Claim]()
        seen |= {(it.source, it.topic): it for it in self.earlier or ()}
        seen |= self._written
        keep = self._in_force.config.completeness.keep
        oldest_ms = time.time_ns() // 1_000_000 - int(keep * 1_000)
        is_new = time.monotonic() - self._began < keep
        return [
            it
            for key, it in seen.items()
            if key not in now and (is_new if it.up_to_ms is None else it.up_to_ms > oldest_ms)
        ]

    def _is_of_others(self, claims: tuple[Claim, ...]) -> bool:
        """Whether other topics flow than what is written says: a restart has to know it."""
        for it in claims:
            before = self._written.get((it.source, it.topic))
            # Where nothing of a source flowed the claim without a hub topic says so.
            before = before or self._written.get((it.source, ""))
            if before is not None and before.topics != it.topics:
                return True
        return False

    def _fail(self, error: Exception) -> None:
        if not self.failing:
            words = f"how far the hub is complete is not kept: {error}"
            self._emit(Event("completeness_failed", words))
        self.failing = str(error)

    def _turn(self, *, last: bool) -> None:
        done = self._keep(last=last)
        if done and self.failing:
            self._emit(Event("completeness_back", "how far the hub is complete is kept"))
            self.failing = ""

    def _keep(self, *, last: bool) -> bool:
        """Read and write what is due; whether there was anything."""
        is_first = self.earlier is None
        if is_first:
            self.earlier = self._table.newest()
        claims, care = self._newest, time.monotonic() >= self._next_care
        if not (care or last or self._is_due(claims)):
            return is_first
        config = self._in_force.config.completeness
        rows = [it for it in claims if self._is_news(it)]
        # At first and every hour all of them: a start reads no further back, and a row that expires
        # must not be the last one.
        if care or not self._written:
            rows = [*claims, *self._unseen(claims)]
        if rows:
            self._next_rows = time.monotonic() + config.interval
            self._table.append(rows, time.time_ns() // 1_000_000)
            self._written |= {(it.source, it.topic): it for it in rows}
        if care and not last:
            self._next_care = time.monotonic() + MAINTAIN_SECONDS
            self._table.maintain(datetime.now(UTC) - timedelta(seconds=config.keep))
        return is_first or care or bool(rows)
