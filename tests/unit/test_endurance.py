"""A day of ticks, by clocks of the test: what lives as long as a run does not grow with time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from aggregator.api import followers
from aggregator.api.followers import Followers
from aggregator.api.latest_status import StatusHolder
from aggregator.api.timeline import event_messages
from aggregator.config.schema import CheckpointConfig
from aggregator.features.timeline.recorder import KEPT, UNSAVED, Feed
from aggregator.features.verify.past_audits import AuditWatch
from aggregator.model.events import Event
from aggregator.model.values import Positions, SourcePartition
from aggregator.plan.health.delays import Delays
from aggregator.plan.health.stuck import Movement, follow
from aggregator.plan.lifecycle.stage import Stage
from aggregator.status.figures import Figures
from aggregator.store import state_store
from aggregator.store.controls import TABLE, ControlRow
from aggregator.store.state_store import StateStore
from support.flow_world import PARTITIONS, running
from support.sizes import largest, size
from support.statuses import status_with

DAY_SECONDS = 86_400
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
EU0 = SourcePartition("eu", "orders", 0)
EVENT_SECONDS = 40


def test_what_is_kept_of_statuses_and_figures_is_of_the_last_minutes() -> None:
    holder, figures, status = StatusHolder(), Figures(), status_with()
    first, second = largest(
        lambda: holder,
        lambda at: holder.put(BEGIN + timedelta(seconds=at), status.phase, lambda: status),
        DAY_SECONDS,
    )
    assert second <= first
    first, second = largest(lambda: figures, lambda at: figures.at(float(at)), DAY_SECONDS)
    assert second <= first


def test_what_is_kept_of_a_log_that_moves_is_of_what_waits() -> None:
    delays, movements = Delays(), dict[SourcePartition, Movement]()

    def tick(at: int) -> None:
        nonlocal movements
        ends = {EU0: at + 10_000}
        movements = follow(movements, Positions({EU0: at}), ends, float(at))
        delays.follow({EU0: at}, ends, {"eu": float(at)}, (), float(at))

    first, second = largest(lambda: (delays, movements), tick, DAY_SECONDS)
    assert second <= first


def test_events_that_no_table_takes_are_bounded() -> None:
    feed = Feed(str)
    for _ in range(UNSAVED + 10):
        feed.take(Event("kind", "words", {}, BEGIN))
    assert len(feed.unsaved()) == UNSAVED
    assert len(feed.after(0)) == KEPT


def test_the_state_of_a_run_whose_sources_come_and_go_does_not_grow() -> None:
    world = running()

    def tick(at: int) -> None:
        world.errors = {"us": "it is away"} if at % 20 < 10 else {}
        world.silent = {"eu": "no answer"} if at % 30 < 10 else {}
        world.paused = {"us"} if at % 70 < 10 else set()
        world.turn()

    first, second = largest(lambda: world.state, tick, 1_000)
    assert second <= 1.1 * first
    world.errors, world.silent, world.paused = {}, {}, set()
    world.until_all(Stage.READING, *PARTITIONS)


def test_a_day_of_lanes_that_fail_and_partitions_that_stick_leaves_nothing_in_the_state() -> None:
    world = running()
    most = dict.fromkeys(range(24), 0)
    for minute in range(0, 24 * 60, 6):
        world.now += 359.0
        world.logs[EU0].end += 1
        lanes = [world.lanes[name] for name in sorted(world.lanes)]
        for lane in lanes[:1] if minute % 42 == 0 else ():
            lane.active = False
        for lane in lanes if minute % 30 == 0 else ():
            world.stick(lane, EU0)
        world.unshown = {"orders"} if minute % 90 < 6 else set()
        for _ in range(4):
            world.turn()
        most[minute // 60] = max(most[minute // 60], size(world.state))
    assert most[23] <= 1.1 * most[2]
    assert len(world.messages("partitions_stuck")) > 24
    assert len(world.messages("lane_failed")) > 12


def test_a_gap_that_no_one_decides_about_is_found_and_logged_once() -> None:
    world = running(**{"sources.eu.on_gap": "stop"})
    log = world.logs[EU0]
    log.end += 20
    log.earliest = log.end - 1
    world.until_all(Stage.QUARANTINED, EU0)
    first, second = largest(lambda: (world.state, world.table), lambda _: world.turn(), 1_000)
    assert second <= 1.1 * first
    assert len(world.table) == len(world.messages("gap")) == 1


def test_looking_for_audits_keeps_what_is_in_the_table_and_no_more(tmp_path: Path) -> None:
    watch = AuditWatch(CheckpointConfig(path=str(tmp_path)))
    first, second = largest(lambda: watch, lambda _: watch.look(), 100)
    assert second <= first


def test_tables_of_notes_are_of_few_files_however_often_people_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_store, "TIDY_EVERY", 10)
    log = StateStore(str(tmp_path)).log(TABLE, ControlRow)
    files = []
    for _ in range(40):
        log.append([ControlRow(BEGIN, "eu", paused=True)])
        files.append(len(DeltaTable(str(tmp_path / TABLE)).file_uris()))
    assert max(files[20:]) <= max(files[:20]) <= 11
    assert len(log.items()) == 40


def test_those_that_follow_events_for_a_day_keep_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One reads all of them, one nothing, and others come and go."""
    monkeypatch.setattr(followers, "POLL_SECONDS", 0.0)
    feed, loop = Feed(str), asyncio.new_event_loop()
    all_of_them = Followers(9, event_messages(feed), lambda: feed.closed)
    reading, silent = (all_of_them.follow(0) for _ in range(2))
    heard = [loop.run_until_complete(anext(each)) for each in (reading, silent)]

    def tick(number: int) -> None:
        feed.take(Event("kind", f"{number}", {}, BEGIN + timedelta(seconds=number)))
        feed.saved(feed.unsaved())
        heard.append(loop.run_until_complete(anext(reading)))
        if number % 100 == 0:
            passing = all_of_them.follow(feed.last)
            loop.run_until_complete(anext(passing))
            loop.run_until_complete(passing.aclose())

    first, second = largest(lambda: (feed, all_of_them), tick, DAY_SECONDS // EVENT_SECONDS)
    assert second <= first
    assert len(heard) == 2 + DAY_SECONDS // EVENT_SECONDS
    for each in (reading, silent):
        loop.run_until_complete(each.aclose())
    loop.close()
