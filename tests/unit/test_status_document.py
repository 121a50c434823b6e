"""The status document of a moment: why partitions do not run, figures, time behind, lanes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aggregator.config import load_text
from aggregator.datapath.connector.reports import DONE, HELD, OUT_OF_RANGE, POISONED, REFUSED
from aggregator.model.values import (
    ClusterFacts,
    Lane,
    Pause,
    Positions,
    Route,
    SourcePartition,
    SourceState,
)
from aggregator.plan.health.delays import Delay
from aggregator.plan.lanes.slots import SlotPlan
from aggregator.plan.lifecycle.commands import Recovered
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import LaneLife, LaneOver, Partition, SourceLife, State
from aggregator.plan.plan import Plan
from aggregator.status.assemble import status
from aggregator.status.copied import Copied
from aggregator.status.figures import SourceFigures
from aggregator.status.live import Recent
from aggregator.status.schema import (
    LaneState,
    LaneStatus,
    Latency,
    PartitionState,
    PartitionStatus,
    Percentiles,
    Phase,
    QuarantineStatus,
    SourceStatus,
    Status,
)
from aggregator.status.view import Committed, LaneProgress, View, first_view
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


ROUTES = (Route("eu", "t", "hub.t", 2, 1), Route("us", "t", "hub.t", 1, 1))
UNION = LaneLife(Lane("union", (EU0, EU1, US0)), ROUTES, 1, "key")


class Shown:
    """A run of two sources in one lane, at one moment, of which a test changes something."""

    def __init__(self) -> None:
        config = load_text("", SETS)
        hub, slots = ClusterFacts("(hub)", "H", 1, {}), SlotPlan("local[3]", 3, 3)
        plan = Plan(hub, {}, {}, ROUTES, {}, (), (), slots)
        state = State(
            config,
            plan=plan,
            partitions=dict.fromkeys((EU0, EU1, US0), Partition(Stage.READING, lane="union")),
            lanes={"union": UNION},
            sources=dict.fromkeys(("eu", "us"), SourceLife(SourceState.RUNNING, AT)),
        )
        self.view: View = replace(
            first_view(config),
            state=state,
            phase=Phase.RUNNING,
            positions=Positions({EU0: 10, EU1: 20, US0: 30}),
        )
        self.measures(ends={EU0: 15, EU1: 20})

    def shows(self, **changes: Any) -> None:
        self.view = replace(self.view, **changes)

    def decides(self, **changes: Any) -> None:
        """The state is another one."""
        self.shows(state=replace(self.view.state, **changes))

    def measures(self, **changes: Any) -> None:
        self.shows(measured=replace(self.view.measured, **changes))

    def enters(self, sp: SourcePartition, stage: Stage, why: str) -> None:
        self.decides(partitions={**self.view.state.partitions, sp: Partition(stage, why)})

    def reads(self, states: dict[SourcePartition, str], why: str = "", of: int = 1) -> None:
        """The readers of the lane's life `of` report these states, with the reason if any."""
        reported = task(
            {EU0: 10, EU1: 20, US0: 30},
            lane="union",
            generation=of,
            states=states,
            reasons=dict.fromkeys(states, why) if why else {},
        )
        self.shows(progress={"union": LaneProgress(generation=of, report=lane_report(reported))})

    @property
    def document(self) -> Status:
        return status(self.view)

    def partition(self, sp: SourcePartition) -> PartitionStatus:
        (found,) = (
            it
            for it in self.document.partitions
            if (it.cluster, it.topic, it.partition) == (sp.cluster, sp.topic, sp.partition)
        )
        return found

    def states(self, *partitions: SourcePartition) -> list[tuple[PartitionState, str]]:
        return [(self.partition(sp).state, self.partition(sp).reason) for sp in partitions]

    def source(self, alias: str) -> SourceStatus:
        (found,) = (it for it in self.document.sources if it.alias == alias)
        return found

    def lane(self, name: str) -> LaneStatus:
        (found,) = (it for it in self.document.lanes if it.name == name)
        return found


@pytest.fixture
def shown() -> Shown:
    return Shown()


def test_no_position_of_a_partition_that_is_read_is_beyond_its_log_end() -> None:
    shown = Shown()
    shown.measures(ends={EU0: 9, EU1: 25})
    assert [(it.position, it.log_end) for it in shown.document.partitions] == [
        (10, 10),
        (20, 25),
        (30, None),
    ]
    # Of one that is not read, a log that ends below the position is what a person looks for.
    shown.enters(EU0, Stage.QUARANTINED, "cut")
    assert shown.document.partitions[0].log_end == 9


def test_the_lag_of_what_does_not_answer_is_unknown_wherever_it_is_shown() -> None:
    shown = Shown()
    shown.measures(ends={EU0: 10, EU1: 25, US0: 30}, stale=frozenset({EU0, EU1}))
    assert [(it.log_end, it.lag) for it in shown.document.partitions] == [
        (None, None),
        (None, None),
        (30, 0),
    ]
    assert (shown.source("eu").lag, shown.source("us").lag) == (None, 0)
    recent = Recent()
    recent.take(shown.view)
    now = recent.newest()
    assert now is not None
    assert [it.lag for it in now.sources] == [None, 0]
    assert (recent.history("eu").series.lag, recent.history("us").series.lag) == ((None,), (0.0,))
    # Of one broker among several: the lag of the others counts.
    shown.measures(stale=frozenset({EU0}))
    assert shown.source("eu").lag == 5


def test_what_its_source_refuses_is_held_for_that_reason(shown: Shown) -> None:
    shown.reads({EU1: REFUSED}, NO_ACL)
    assert shown.states(EU1, EU0) == [(PartitionState.HELD, NO_ACL), (PartitionState.RUNNING, "")]
    assert shown.partition(EU1).lane == "union"


@pytest.mark.parametrize(
    ("state", "reason"), [(OUT_OF_RANGE, "out of range"), (POISONED, "poisoned")]
)
def test_so_is_what_its_reader_cannot_continue_with_otherwise(
    shown: Shown, state: str, reason: str
) -> None:
    shown.reads({EU1: state})
    assert shown.states(EU1) == [(PartitionState.HELD, reason)]


@pytest.mark.parametrize("state", [HELD, DONE])
def test_what_is_not_read_because_we_say_so_needs_no_reason(shown: Shown, state: str) -> None:
    shown.reads({EU1: state})
    assert shown.states(EU1) == [(PartitionState.RUNNING, "")]


def test_its_reader_knows_better_than_its_log_why_a_partition_does_not_move(shown: Shown) -> None:
    shown.measures(stuck={EU0: "does not move", EU1: "does not move"})
    shown.reads({EU1: REFUSED}, NO_ACL)
    assert shown.states(EU0, EU1) == [
        (PartitionState.STUCK, "does not move"),
        (PartitionState.HELD, NO_ACL),
    ]


def test_what_was_decided_about_it_goes_before(shown: Shown) -> None:
    shown.reads({EU0: REFUSED, EU1: REFUSED, US0: REFUSED}, NO_ACL)
    shown.enters(EU0, Stage.QUARANTINED, "a gap")
    shown.enters(EU1, Stage.HELD, "its lane failed")
    shown.shows(paused={"us": Pause(AT)})
    shown.decides(paused={"us": "paused since noon"})
    assert shown.states(EU0, EU1, US0) == [
        (PartitionState.QUARANTINED, "a gap"),
        (PartitionState.HELD, "its lane failed"),
        (PartitionState.PAUSED, "paused since noon"),
    ]


def test_what_is_to_start_says_what_it_waits_for_and_what_is_held_needs_no_route(
    shown: Shown,
) -> None:
    gone = SourcePartition("eu", "gone", 0)
    shown.enters(EU0, Stage.READY, "starts in lane us when another has let it go")
    shown.enters(gone, Stage.RESTING, "the hub refuses a record of it")
    assert shown.states(EU0, gone) == [
        (PartitionState.RUNNING, "starts in lane us when another has let it go"),
        (PartitionState.HELD, "the hub refuses a record of it"),
    ]
    assert shown.partition(gone).hub_topic == ""


def test_what_a_lane_has_given_up_is_reported_by_the_lane_that_has_it_now(shown: Shown) -> None:
    shown.reads({EU1: OUT_OF_RANGE}, "its log begins later")
    shown.decides(lanes={"union": replace(UNION, lane=Lane("union", (EU0, US0)))})
    assert shown.partition(EU1).state is PartitionState.RUNNING


def test_what_an_earlier_life_of_its_lane_reported_holds_no_more(shown: Shown) -> None:
    shown.decides(lanes={"union": replace(UNION, generation=2)})
    shown.reads({EU1: REFUSED}, NO_ACL, of=1)
    assert shown.partition(EU1).state is PartitionState.RUNNING
    shown.reads({EU1: REFUSED}, NO_ACL, of=2)
    assert shown.partition(EU1).state is PartitionState.HELD


def test_nor_what_one_reported_that_is_over_or_not_there_yet(shown: Shown) -> None:
    shown.reads({EU1: REFUSED}, NO_ACL)
    for reason in ("it broke", ""):
        over = LaneOver(UNION.lane, 1, 0, reason)
        shown.decides(lanes={}, over={"union": over})
        assert shown.partition(EU1).state is PartitionState.RUNNING
    shown.decides(lanes={"union": replace(UNION, key="")}, over={})
    assert shown.lane("union").state is LaneState.STARTING
    assert shown.partition(EU1).state is PartitionState.RUNNING


def test_a_source_is_as_long_behind_as_the_longest_of_its_partitions(shown: Shown) -> None:
    shown.measures(behind={EU0: Delay(7.12345, at_least=True), EU1: Delay(0.0)})
    found = [(it.seconds_behind, it.seconds_behind_at_least) for it in shown.document.partitions]
    assert found == [(7.123, True), (0.0, False), (None, False)]
    eu, us = shown.source("eu"), shown.source("us")
    assert (eu.seconds_behind, eu.seconds_behind_at_least) == (7.123, True)
    assert us.seconds_behind is None


def test_lag_is_the_sum_of_what_is_known(shown: Shown) -> None:
    assert (shown.source("eu").lag, shown.source("us").lag) == (5, None)


def test_a_source_has_the_figures_of_what_its_tasks_reported(shown: Shown) -> None:
    copied = (Copied(topic="a", records=3, bytes=30), Copied(topic="b", records=1, bytes=7))
    latency = Latency(age_ms=Percentiles(p50=9, p95=12, p99=90))
    shown.shows(figures={"eu": SourceFigures(copied, 5, 2, 7, latency, read_bytes=44)})
    found = shown.source("eu")
    assert (found.records, found.bytes, found.copied) == (4, 37, copied)
    assert (found.skipped, found.looped, found.retried, found.latency) == (5, 2, 7, latency)
    assert found.read_bytes == 44
    nothing = shown.source("us")
    assert (nothing.records, nothing.bytes, nothing.copied) == (0, 0, ())
    assert nothing.latency == Latency()


def test_a_source_is_paused_since_it_was_paused(shown: Shown) -> None:
    paused_at = AT + timedelta(hours=1)
    shown.shows(paused={"us": Pause(paused_at)})
    assert (shown.source("eu").since, shown.source("us").since) == (AT, paused_at)


def test_the_document_with_all_of_it_survives_json(shown: Shown) -> None:
    shown.measures(behind={EU0: Delay(7.0, at_least=True)})
    shown.shows(
        figures={
            "eu": SourceFigures(
                (Copied(topic="a", records=3, bytes=30),),
                latency=Latency(flight_ms=Percentiles(p50=1, p95=2, p99=3)),
            )
        },
        services={"quarantine": QuarantineStatus(topic="q", records=4, sources={"eu": 4})},
        committed=Committed(7, 2, 1_000, "the disk is full"),
    )
    made = shown.document
    again = Status.model_validate_json(made.model_dump_json())
    assert again.model_dump() == made.model_dump()
    parsed = json.loads(made.model_dump_json())
    assert (parsed["checkpoint"]["seq"], parsed["checkpoint"]["error"]) == (7, "the disk is full")
    eu = parsed["sources"][0]
    assert (eu["quarantined"], parsed["quarantine"]["records"]) == (4, 4)
    (copied,) = eu["copied"]
    assert copied == {"topic": "a", "records": 3, "bytes": 30, "dropped": 0, "without_id": 0}
    flight = {"p50": 1, "p95": 2, "p99": 3, "longer_from": None}
    assert eu["latency"] == {"age_ms": None, "flight_ms": flight}
    assert (eu["seconds_behind"], eu["seconds_behind_at_least"]) == (7.0, True)


def test_what_the_config_in_force_does_not_name_is_shown_no_more(shown: Shown) -> None:
    shown.decides(lanes={"union": UNION, "us": replace(UNION, lane=Lane("us", (US0,)))})
    shown.enters(US0, Stage.HELD, "it waits")
    shown.shows(config=load_text("", SETS[:3]))
    found = shown.document
    assert [it.alias for it in found.sources] == ["eu"]
    assert [it.name for it in found.lanes] == ["union"]
    assert {it.cluster for it in found.partitions} == {"eu"}


def test_lanes_are_shown_as_they_run_fail_and_end(shown: Shown) -> None:
    shown.decides(
        lanes={"union": replace(UNION, generation=3, restarts=1, leaving=frozenset({EU0}))},
        over={"us": LaneOver(Lane("us", (US0,)), 2, 4, "it broke")},
    )
    union, us = shown.lane("union"), shown.lane("us")
    assert (union.state, union.generation, union.restarts, union.leaving) == (
        *(LaneState.RUNNING, 3, 1),
        ("eu",),
    )
    assert (us.state, us.restarts, us.reason) == (LaneState.FAILED, 4, "it broke")
    # As all stops each lane is shown as it ended.
    shown.shows(phase=Phase.STOPPING)
    assert shown.lane("union").state is LaneState.DRAINING
    for problem, state in (("", LaneState.DONE), ("late", LaneState.FAILED)):
        shown.shows(ended={"union": problem})
        assert (shown.lane("union").state, shown.lane("union").reason) == (state, problem)


def test_of_a_recovery_what_was_written_since_is_shown(shown: Shown) -> None:
    found = Recovered(partitions=2, tail=30, found=7, seconds=1.23456)
    shown.decides(recovered=(AT, found))
    shown.shows(progress={"union": LaneProgress(replayed=9)}, replayed_before=4)
    recovery = shown.document.recovery
    assert recovery is not None
    assert (recovery.partitions, recovery.tail, recovery.found, recovery.seconds) == (
        *(2, 30, 7),
        1.235,
    )
    assert recovery.replayed == 5


def test_before_anything_is_known_the_document_says_that_it_starts() -> None:
    found = status(first_view(load_text("", SETS)))
    assert (found.phase, found.sources, found.partitions) == (Phase.STARTING, (), ())
