"""The status document as the board tells it: why partitions do not run, figures, time behind."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from aggregator.audit.document import (
    Copied,
    LaneState,
    Latency,
    PartitionState,
    PartitionStatus,
    Percentiles,
    Phase,
    SourceState,
    SourceStatus,
    Status,
)
from aggregator.config import load_text
from aggregator.connector.reports import DONE, HELD, OUT_OF_RANGE, POISONED, REFUSED
from aggregator.engine.board import Board, LaneNote, LaneProgress
from aggregator.engine.figures import SourceFigures
from aggregator.flow.commands import Recovered
from aggregator.flow.stage import Stage
from aggregator.flow.state import LaneLife, LaneOver, Partition, State
from aggregator.model import Lane, Route, SourcePartition
from aggregator.plan.behind import Delay
from support.reports import lane_report, task

EU0, EU1, US0 = (SourcePartition(*it) for it in (("eu", "t", 0), ("eu", "t", 1), ("us", "t", 0)))
SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=t",
    "sources.us.bootstrap_servers=127.0.0.1:11",
    "sources.us.topics.include=t",
)
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
NO_ACL = "TopicAuthorizationException: Not authorized to access topics: [t]"


@pytest.fixture
def board() -> Board:
    board = Board(load_text("", SETS))
    board.routes = (Route("eu", "t", "hub.t", 2, 1), Route("us", "t", "hub.t", 1, 1))
    for alias in ("eu", "us"):
        board.source(alias, SourceState.RUNNING)
    board.lanes["union"] = LaneNote(LaneState.RUNNING, 1, (EU0, EU1, US0))
    board.positions = {EU0: 10, EU1: 20, US0: 30}
    board.log_ends = {EU0: 15, EU1: 20}
    return board


def partition(board: Board, sp: SourcePartition) -> PartitionStatus:
    (found,) = (
        it
        for it in board.document().partitions
        if (it.cluster, it.topic, it.partition) == (sp.cluster, sp.topic, sp.partition)
    )
    return found


def source(board: Board, alias: str) -> SourceStatus:
    (found,) = (it for it in board.document().sources if it.alias == alias)
    return found


def reads(board: Board, states: dict[SourcePartition, str], why: str = "", of: int = 1) -> None:
    """The readers of the lane's life `of` tell these states, with the reason if there is one."""
    told = task(
        {EU0: 10, EU1: 20, US0: 30},
        lane="union",
        generation=of,
        states=states,
        reasons=dict.fromkeys(states, why) if why else {},
    )
    board.progress = {"union": LaneProgress(generation=of, report=lane_report(told))}


def test_what_its_source_refuses_is_held_for_that_reason(board: Board) -> None:
    reads(board, {EU1: REFUSED}, NO_ACL)
    found = partition(board, EU1)
    assert (found.state, found.reason, found.lane) == (PartitionState.HELD, NO_ACL, "union")
    other = partition(board, EU0)
    assert (other.state, other.reason) == (PartitionState.RUNNING, "")


@pytest.mark.parametrize(
    ("state", "reason"), [(OUT_OF_RANGE, "out of range"), (POISONED, "poisoned")]
)
def test_so_is_what_its_reader_cannot_go_on_with_otherwise(
    board: Board, state: str, reason: str
) -> None:
    reads(board, {EU1: state})
    found = partition(board, EU1)
    assert (found.state, found.reason) == (PartitionState.HELD, reason)


@pytest.mark.parametrize("state", [HELD, DONE])
def test_what_is_not_read_because_we_say_so_needs_no_reason(board: Board, state: str) -> None:
    reads(board, {EU1: state})
    found = partition(board, EU1)
    assert (found.state, found.reason) == (PartitionState.RUNNING, "")


def test_its_reader_knows_better_than_its_log_why_a_partition_does_not_move(board: Board) -> None:
    board.stuck = {EU0: "stands", EU1: "stands"}
    reads(board, {EU1: REFUSED}, NO_ACL)
    assert (partition(board, EU0).state, partition(board, EU0).reason) == (
        PartitionState.STUCK,
        "stands",
    )
    assert partition(board, EU1).reason == NO_ACL


def test_what_was_decided_about_it_goes_before(board: Board) -> None:
    reads(board, {EU0: REFUSED, EU1: REFUSED, US0: REFUSED}, NO_ACL)
    board.gapped, board.held = {EU0: "a gap"}, {EU1: "its lane failed"}
    board.paused = {"us": datetime.now(UTC)}
    found = [(partition(board, sp).state, partition(board, sp).reason) for sp in (EU0, EU1, US0)]
    assert found == [
        (PartitionState.QUARANTINED, "a gap"),
        (PartitionState.HELD, "its lane failed"),
        (PartitionState.PAUSED, ""),
    ]


def test_what_a_lane_has_given_up_is_told_by_the_lane_that_has_it_now(board: Board) -> None:
    reads(board, {EU1: OUT_OF_RANGE}, "its log begins later")
    note = board.lanes["union"]
    left = tuple(sp for sp in note.partitions if sp != EU1)
    board.lanes = {"union": replace(note, partitions=left)}
    assert partition(board, EU1).state is PartitionState.RUNNING


def test_what_an_earlier_life_of_its_lane_told_holds_no_more(board: Board) -> None:
    board.lanes = {"union": replace(board.lanes["union"], generation=2)}
    reads(board, {EU1: REFUSED}, NO_ACL, of=1)
    assert partition(board, EU1).state is PartitionState.RUNNING
    reads(board, {EU1: REFUSED}, NO_ACL, of=2)
    assert partition(board, EU1).state is PartitionState.HELD


@pytest.mark.parametrize("state", [LaneState.FAILED, LaneState.DONE, LaneState.STARTING])
def test_nor_what_one_told_that_is_over(board: Board, state: LaneState) -> None:
    reads(board, {EU1: REFUSED}, NO_ACL)
    board.lanes = {"union": replace(board.lanes["union"], state=state)}
    assert partition(board, EU1).state is PartitionState.RUNNING


def test_a_source_is_as_long_behind_as_the_longest_of_its_partitions(board: Board) -> None:
    board.behind = {EU0: Delay(7.12345, at_least=True), EU1: Delay(0.0)}
    found = [(it.seconds_behind, it.seconds_behind_at_least) for it in board.document().partitions]
    assert found == [(7.123, True), (0.0, False), (None, False)]
    eu, us = source(board, "eu"), source(board, "us")
    assert (eu.seconds_behind, eu.seconds_behind_at_least) == (7.123, True)
    assert us.seconds_behind is None


def test_lag_is_the_sum_of_what_is_known(board: Board) -> None:
    assert (source(board, "eu").lag, source(board, "us").lag) == (5, None)
    assert (board.lag("eu"), board.lag("us")) == (5, None)


def test_a_source_has_the_figures_of_what_its_tasks_reported(board: Board) -> None:
    copied = (Copied(topic="a", records=3, bytes=30), Copied(topic="b", records=1, bytes=7))
    latency = Latency(age_ms=Percentiles(p50=9, p95=12, p99=90))
    board.figures = {"eu": SourceFigures(copied, 5, 2, latency)}
    found = source(board, "eu")
    assert (found.records, found.bytes, found.copied) == (4, 37, copied)
    assert (found.skipped, found.looped, found.latency) == (5, 2, latency)
    nothing = source(board, "us")
    assert (nothing.records, nothing.bytes, nothing.copied) == (0, 0, ())
    assert nothing.latency == Latency()


def test_the_document_with_all_of_it_survives_json(board: Board) -> None:
    board.behind = {EU0: Delay(7.0, at_least=True)}
    board.figures = {
        "eu": SourceFigures(
            (Copied(topic="a", records=3, bytes=30),),
            latency=Latency(flight_ms=Percentiles(p50=1, p95=2, p99=3)),
        )
    }
    status = board.document()
    assert Status.model_validate_json(status.model_dump_json()) == status
    told = json.loads(status.model_dump_json())["sources"][0]
    assert told["copied"] == [{"topic": "a", "records": 3, "bytes": 30}]
    assert told["latency"] == {"age_ms": None, "flight_ms": {"p50": 1, "p95": 2, "p99": 3}}
    assert (told["seconds_behind"], told["seconds_behind_at_least"]) == (7.0, True)


def test_sources_that_are_catching_up_are_named(board: Board) -> None:
    assert board.catching_up == frozenset()
    board.source("us", SourceState.CATCHING_UP)
    assert board.catching_up == {"us"}


# --- what is decided ------------------------------------------------------------------------


def test_the_board_shows_what_a_step_has_decided(board: Board) -> None:
    config = board.config
    hole = Recovered(partitions=2, tail=30, found=7, seconds=1.23456)
    state = State(
        config,
        partitions={
            EU0: Partition(Stage.READING, lane="union"),
            EU1: Partition(Stage.QUARANTINED, "a gap"),
            US0: Partition(Stage.READY, "starts in lane us when another has let it go"),
        },
        lanes={"union": LaneLife(Lane("union", (EU0,)), (), 3, "key", 1, frozenset({EU0}))},
        over={"us": LaneOver(Lane("us", (US0,)), 2, 4, "it broke")},
        recovered=(AT, hole),
    )
    board.follow(state, {})
    union, us = board.lanes["union"], board.lanes["us"]
    assert (union.state, union.generation, union.restarts, union.leaving) == (
        *(LaneState.RUNNING, 3, 1),
        ("eu",),
    )
    assert (us.state, us.restarts, us.reason) == (LaneState.FAILED, 4, "it broke")
    assert board.gapped == {EU1: "a gap"}
    assert board.waiting.keys() == {US0}
    recovery = board.document().recovery
    assert recovery is not None
    assert (recovery.partitions, recovery.tail, recovery.found, recovery.seconds) == (
        *(2, 30, 7),
        1.235,
    )
    # As all stops each lane is shown as it ended.
    board.phase, board.ended = Phase.STOPPING, {}
    board.follow(state, {})
    assert board.lanes["union"].state is LaneState.DRAINING
    for problem, shown in (("", LaneState.DONE), ("late", LaneState.FAILED)):
        board.ended = {"union": problem}
        board.follow(state, {})
        assert (board.lanes["union"].state, board.lanes["union"].reason) == (shown, problem)
