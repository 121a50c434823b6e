"""What probes and readers tell while lanes run: sources that are not well, logs that do not fit."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.audit.document import LaneState, SourceState
from aggregator.checkpoint.state import Entry, Snapshot, State
from aggregator.config import load_text
from aggregator.connector.reports import OUT_OF_RANGE, REFUSED
from aggregator.engine.board import Board, LaneNote, LaneProgress
from aggregator.engine.events import Event
from aggregator.engine.gapwatch import GapWatch
from aggregator.engine.sources import SourcesWatch
from aggregator.engine.watch import Watched
from aggregator.model import Lane, OffsetRange, Positions, SourcePartition
from aggregator.plan.suspects import Seen
from support.reports import lane_report, task

EU0, EU1, US0 = (SourcePartition(*it) for it in (("eu", "t", 0), ("eu", "t", 1), ("us", "t", 0)))
POSITIONS = Positions({EU0: 10, EU1: 20, US0: 30})
NOWHERE = Snapshot("union", 1, 1, 0, False, {})
SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=t",
    "sources.us.bootstrap_servers=127.0.0.1:11",
    "sources.us.topics.include=t",
)


class World:
    """One lane of both sources, whose probes and readers tell what the test says."""

    def __init__(self) -> None:
        config = load_text("", SETS)
        self.events: list[Event] = []
        self.board, self.sources = Board(config), SourcesWatch(config)
        self.board.positions = POSITIONS
        self.board.lanes["union"] = LaneNote(LaneState.RUNNING, 1, tuple(POSITIONS))
        self.sources.follow(set(POSITIONS))
        entries = {
            sp: Entry(at, 1, NOWHERE, f"{sp.cluster}-id", f"{sp.cluster}-t")
            for sp, at in POSITIONS.items()
        }
        observer: Any = SimpleNamespace(positions=POSITIONS, state=State(entries))
        self.gaps = GapWatch(self.sources, observer, self.events.append)
        self.reads({}, {})
        for alias in ("eu", "us"):
            self.probe(alias)
            self.board.source(alias, SourceState.RUNNING)

    def probe(self, alias: str, **told: Any) -> None:
        """A source answers its probe: as ever, but for what is `told`."""
        logs = {sp: OffsetRange(0, at + 5) for sp, at in POSITIONS.items() if sp.cluster == alias}
        seen = Seen(time.monotonic(), f"{alias}-id", {"t": f"{alias}-t"}, logs)
        seen = replace(seen, **told)
        self.sources._watches[alias].latest = Watched(
            seen.logs, "", time.monotonic(), seen, has_answered=True
        )

    def reads(self, states: dict[SourcePartition, str], errors: dict[str, str]) -> None:
        """The tasks of the lane report."""
        tasks = [
            task(
                {sp: at for sp, at in POSITIONS.items() if sp.cluster == alias},
                number=number,
                states={sp: state for sp, state in states.items() if sp.cluster == alias},
                error=errors.get(alias, ""),
            )
            for number, alias in enumerate(("eu", "us"))
        ]
        self.report = lane_report(*tasks)
        self.board.progress = {"union": LaneProgress(report=self.report)}

    def states(self) -> dict[str, tuple[SourceState, str]]:
        self.sources.tell(self.board, self.events.append)
        return {alias: (it.state, it.reason) for alias, it in self.board.sources.items()}

    def act(self, *partitions: SourcePartition) -> bool:
        """One look at the lane, which reads these partitions (all, if none are named)."""
        lane = Lane("union", partitions or tuple(POSITIONS))
        running: Any = {"union": SimpleNamespace(lane=lane, query=self)}
        return self.gaps.act(running)

    def suspects(self) -> set[SourcePartition]:
        return self.gaps.suspects(set(POSITIONS))


@pytest.fixture
def world() -> World:
    return World()


def test_a_source_that_gives_its_readers_nothing_has_failed_and_the_other_runs(
    world: World,
) -> None:
    assert {state for state, _ in world.states().values()} == {SourceState.RUNNING}
    world.reads({}, {"us": "SaslAuthenticationException: no"})
    assert world.states() == {
        "eu": (SourceState.RUNNING, ""),
        "us": (SourceState.FAILED, "SaslAuthenticationException: no"),
    }
    # What a lane that has ended told last says nothing about now.
    world.board.lanes["union"].state = LaneState.DONE
    assert world.states()["us"] == (SourceState.RUNNING, "")
    told = [event.message for event in world.events]
    assert told == [
        "source us is FAILED: SaslAuthenticationException: no",
        "source us is RUNNING",
    ]


def test_one_that_is_paused_is_paused_whatever_its_readers_told(world: World) -> None:
    world.reads({}, {"us": "SaslAuthenticationException: no"})
    world.board.paused = {"us": datetime.now(UTC)}
    assert world.states()["us"][0] is SourceState.PAUSED


def test_a_log_that_does_not_hold_its_position_is_told_once_and_taken_out(world: World) -> None:
    assert (world.act(), world.suspects()) == (False, set())
    world.reads({EU1: OUT_OF_RANGE, US0: REFUSED}, {})
    assert (world.act(), world.suspects()) == (True, {EU1})
    assert not world.act()
    assert [event.message for event in world.events] == [
        "eu/t-1: its log does not hold 20, where its reader stands"
    ]
    # One that does not run is no suspect, and what its old reader told does not make it one.
    assert world.gaps.suspects({EU0, US0}) == set()
    assert not world.act(EU0, US0)


def test_a_topic_that_was_created_again_and_is_longer_is_taken_out(world: World) -> None:
    world.probe("eu", topic_ids={"t": "another"})
    assert (world.act(), world.suspects()) == (True, {EU0, EU1})
    world.probe("us", cluster_id="another")
    assert (world.act(), world.suspects()) == (True, {EU0, EU1, US0})


def test_a_log_that_was_cut_is_taken_out_when_it_was_asked_after_its_reader_stood(
    world: World,
) -> None:
    short = {EU0: OffsetRange(0, 8), EU1: OffsetRange(0, 25)}
    asked_before = time.monotonic()
    assert not world.act()
    world.probe("eu", logs=short, asked_at=asked_before)
    assert not world.act()
    world.probe("eu", logs=short)
    assert (world.act(), world.suspects()) == (True, {EU0})


def test_a_topic_that_is_gone_is_news_once(world: World) -> None:
    world.probe("us", topic_ids={})
    assert (world.act(), world.act()) == (True, False)
    assert world.suspects() == set()


def test_log_ends_of_a_log_that_is_not_the_one_that_is_read_are_left_out(world: World) -> None:
    ends = {EU0: 99, US0: 99, US0._replace(partition=7): 1}
    assert world.gaps.own(ends) == ends
    world.probe("us", topic_ids={"t": "another"})
    assert world.gaps.own(ends) == {EU0: 99, US0._replace(partition=7): 1}
