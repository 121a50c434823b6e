"""How far a backfill is: whatever crashes follow each other, each record is in the hub once."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.features.backfill.backfill_table import BackfillTable
from aggregator.features.backfill.progress import (
    Scanned,
    after_report,
    after_scan,
    commit_seconds,
    why_wrong,
)
from aggregator.features.backfill.ranges import Backfill, BackfillPart, BackfillState
from aggregator.model.values import LogId, OffsetRange, Ranges, SourcePartition, TopicPartition
from aggregator.store.state_store import StateStore
from support.backfills import LOG, SP, backfill
from support.examples import examples

HUB = [TopicPartition("orders", number) for number in range(3)]
HUB_LOGS = {tp: OffsetRange(0, 50) for tp in HUB}
OTHER = SourcePartition("eu", "orders", 1)


def test_without_anything_in_the_hub_it_reads_on_where_it_was() -> None:
    found = after_scan(backfill(), {}, {SP: OffsetRange(0, 500)}, HUB_LOGS)
    assert found.skips == {}
    assert found.backfill.positions == {SP: 0}
    assert found.backfill.bound == dict.fromkeys(HUB, 50)


def test_what_the_hub_holds_is_passed_or_skipped_and_what_the_live_flow_wrote_is_not_its() -> None:
    held = {SP: [(0, 30), (60, 80), (90, 400)], OTHER: [(0, 10)]}
    started = backfill(bound={HUB[0]: 7})
    found = after_scan(started, held, {SP: OffsetRange(0, 500)}, HUB_LOGS)
    assert found.backfill.positions == {SP: 30}
    assert list(found.skips[SP].ranges) == [(60, 80), (90, 100)]
    # As long as it skips anything, the bound is the one that the scan began with.
    assert found.backfill.bound == {HUB[0]: 7, HUB[1]: 0, HUB[2]: 0}
    assert found.behind == dict.fromkeys(HUB, 50)


def test_what_the_source_has_deleted_is_lost_but_for_what_the_hub_holds() -> None:
    log = {SP: OffsetRange(70, 500)}
    found = after_scan(backfill(), {SP: [(20, 30), (65, 80)]}, log, HUB_LOGS)
    assert found.backfill.positions == {SP: 80}
    assert found.backfill.parts[0].lost == 70 - 10 - 5
    gone = after_scan(backfill(), {}, {SP: OffsetRange(300, 500)}, HUB_LOGS)
    assert (gone.backfill.left, gone.backfill.parts[0].lost) == (0, 100)
    # The range of the log is not known: nothing is taken for lost.
    assert after_scan(backfill(), {}, {}, HUB_LOGS).backfill.positions == {SP: 0}


def test_the_bound_follows_what_was_acknowledged_once_nothing_is_skipped() -> None:
    started = backfill(bound={HUB[0]: 7})
    behind = dict.fromkeys(HUB, 50)
    after = after_report(started, {SP: 20}, {HUB[1]: 60}, behind, skipping=True)
    assert after.positions == {SP: 20}
    assert after.bound == {HUB[0]: 7}
    after = after_report(after, {SP: 40}, {HUB[1]: 60}, behind, skipping=False)
    assert after.positions == {SP: 40}
    assert after.bound == {HUB[0]: 50, HUB[1]: 60, HUB[2]: 50}
    # Never back, and never beyond its end.
    assert after_report(after, {SP: 10}, {}, behind, skipping=False).positions == {SP: 40}
    assert after_report(after, {SP: 900}, {}, behind, skipping=False).left == 0


def test_another_log_and_a_live_flow_that_was_set_back_end_it() -> None:
    live = {SP: 100}
    assert why_wrong(backfill(), LOG, live) == ""
    assert why_wrong(backfill(), LogId(), live) == ""
    assert "created again" in why_wrong(backfill(), LogId("eu-id", "new"), live)
    assert "another cluster" in why_wrong(backfill(), LogId("new", "orders-id"), live)
    assert "set back to 99" in why_wrong(backfill(), LOG, {SP: 99})
    through = backfill(parts=(BackfillPart(SP, 0, 100, 100),))
    assert why_wrong(through, LOG, {SP: 99}) == ""


def test_progress_is_committed_less_often_the_longer_it_runs() -> None:
    assert commit_seconds(5, 100) == 5
    assert commit_seconds(5, 3_600) == 36


def test_the_table_gives_back_what_was_put_and_the_newest_row_counts(tmp_path: Path) -> None:
    table = BackfillTable(StateStore(str(tmp_path)))
    assert table.load() == {}
    first = backfill(bound={HUB[0]: 7}, by="me", records_per_second=5.0)
    table.put(first)
    moved = replace(first.moved({SP: 10}, {SP: 3}), records=7)
    table.put(backfill(id="b2", bytes_per_second=9.0))
    table.put(moved)
    table.put(replace(backfill(id="b3"), state=BackfillState.FAILED, reason="why"))
    found = table.load()
    assert set(found) == {"b1", "b2", "b3"}
    assert replace(found["b1"], at=moved.at) == moved
    assert (found["b3"].state, found["b3"].reason) == (BackfillState.FAILED, "why")


@dataclass
class World:
    """A hub with other writers, and a lane of a backfill that is killed again and again.

    A record's hub partition is a function of its offset. What a lane has sent arrives per hub
    partition in order, and at a crash a part of it is left out: a suffix in each partition.
    """

    dice: random.Random
    size: int
    hub: dict[TopicPartition, list[int | None]] = field(
        default_factory=lambda: {tp: [] for tp in HUB}
    )

    def place(self, offset: int) -> TopicPartition:
        return HUB[(offset * 7 + offset // 5) % len(HUB)]

    def others_write(self) -> None:
        for tp in HUB:
            self.hub[tp] += [None] * self.dice.randrange(4)

    def scan(self, stored: Backfill) -> Scanned:
        logs = {tp: OffsetRange(0, len(records)) for tp, records in self.hub.items()}
        at = stored.positions.get(SP, self.size)
        held = sorted(
            offset
            for tp, records in self.hub.items()
            for offset in records[stored.bound.get(tp, 0) :]
            if offset is not None and offset >= at
        )
        ranges: list[tuple[int, int]] = []
        for offset in held:
            if ranges and ranges[-1][1] == offset:
                ranges[-1] = (ranges[-1][0], offset + 1)
            else:
                ranges.append((offset, offset + 1))
        found: dict[SourcePartition, Ranges] = {SP: ranges} if ranges else {}
        return after_scan(stored, found, {SP: OffsetRange(0, self.size)}, logs)

    def life(self, stored: Backfill) -> Backfill:
        """One life from the scan to a crash or the end; returns what is in the table then."""
        scanned = self.scan(stored)
        if self.dice.random() < 0.8:
            stored = scanned.backfill
        skips = scanned.skips.get(SP)
        skipped = {it for a, b in (skips.ranges if skips else ()) for it in range(a, b)}
        last = max(skipped, default=-1)
        at = scanned.backfill.positions.get(SP, self.size)
        ends: dict[TopicPartition, int] = {}
        while at < self.size:
            self.others_write()
            chunk = list(range(at, min(self.size, at + self.dice.randrange(1, 12))))
            wanted = [it for it in chunk if it not in skipped]
            crash = self.dice.random() < 0.25
            for tp in HUB:
                own = [it for it in wanted if self.place(it) == tp]
                arrived = own[: self.dice.randrange(len(own) + 1)] if crash else own
                self.hub[tp] += arrived
                if arrived and not crash:
                    ends[tp] = len(self.hub[tp])
            if crash:
                return stored
            at = chunk[-1] + 1
            after = after_report(
                scanned.backfill, {SP: at}, ends, scanned.behind, skipping=at <= last
            )
            if self.dice.random() < 0.5:
                stored = after
        return after_report(scanned.backfill, {SP: at}, ends, scanned.behind, skipping=False)


@examples(300)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 120))
def test_whatever_crashes_follow_each_other_each_record_is_there_once_and_in_order(
    seed: int, size: int
) -> None:
    world = World(random.Random(seed), size)
    # A part of the range was there before, from a live flow that continued elsewhere.
    for offset in range(size):
        if world.dice.random() < 0.2:
            world.hub[world.place(offset)].append(offset)
    before = {it for records in world.hub.values() for it in records}
    stored = backfill(parts=(BackfillPart(SP, 0, size, 0),))
    for _ in range(500):
        stored = world.life(stored)
        if not stored.left:
            break
    assert stored.left == 0
    there = sorted(it for records in world.hub.values() for it in records if it is not None)
    assert there == list(range(size))
    for records in world.hub.values():
        ours = [it for it in records if it is not None and it not in before]
        assert ours == sorted(ours)


def test_the_model_would_find_a_bound_that_is_too_young() -> None:
    def broken() -> None:
        for seed in range(200):
            world = World(random.Random(seed), 60)
            stored = backfill(parts=(BackfillPart(SP, 0, 60, 0),))
            while stored.left:
                stored = world.life(stored)
                now = {tp: len(records) for tp, records in world.hub.items()}
                stored = replace(stored, bound=now)
            there = [it for records in world.hub.values() for it in records if it is not None]
            assert len(there) == 60

    with pytest.raises(AssertionError):
        broken()
