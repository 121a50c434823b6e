"""What probes and readers tell while lanes run of sources that are not well."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from aggregator.audit.document import LaneState, SourceState
from aggregator.config import load_text
from aggregator.engine.board import Board, LaneNote, LaneProgress
from aggregator.engine.sources import SourcesWatch
from aggregator.engine.watch import Watched
from aggregator.events import Event
from aggregator.model import OffsetRange, Positions, SourcePartition
from aggregator.plan.suspects import Seen
from support.reports import lane_report, task

EU0, EU1, US0 = (SourcePartition(*it) for it in (("eu", "t", 0), ("eu", "t", 1), ("us", "t", 0)))
POSITIONS = Positions({EU0: 10, EU1: 20, US0: 30})
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
    note = world.board.lanes["union"]
    world.board.lanes["union"] = replace(note, state=LaneState.DONE)
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
