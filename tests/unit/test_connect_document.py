"""Sources as connectors: what Connect's users see of each state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from aggregator.features.connectors.connector_json import (
    SourceConnector,
    altered,
    connector_of,
    ends_lanes,
    info,
    offsets_of,
    reset,
    status_of,
    task_states,
    tasks_of,
    topics_of,
)
from aggregator.features.positions.targets import MoveRequest
from aggregator.model.values import SourceState
from aggregator.status.schema import PartitionState, PartitionStatus, Phase, SourceStatus
from support.statuses import NOW, status_with

WORKER = "127.0.0.1:8083"


def partition(topic: str, number: int, **parts: Any) -> PartitionStatus:
    return PartitionStatus(
        cluster="eu", topic=topic, partition=number, hub_topic=f"{topic}.replica", **parts
    )


def connector(
    state: SourceState = SourceState.RUNNING,
    partitions: tuple[PartitionStatus, ...] = (),
    tasks: str = "1",
    reason: str = "",
    stopped: bool = False,
) -> SourceConnector:
    status = status_with(
        sources=(SourceStatus(alias="eu", state=state, since=NOW, reason=reason),),
        partitions=(
            *partitions,
            PartitionStatus(cluster="us", topic="other", partition=0, hub_topic="other"),
        ),
    )
    return connector_of("eu", {"tasks.max": tasks}, status, stopped=stopped)


TWO = (partition("a", 0, position=7), partition("a", 1, position=0), partition("b", 0))


def test_a_connector_that_runs() -> None:
    one = connector(partitions=TWO)
    assert info(one) == {
        "name": "eu",
        "config": {"tasks.max": "1"},
        "tasks": [{"connector": "eu", "task": 0}],
        "type": "source",
    }
    assert status_of(one, WORKER) == {
        "name": "eu",
        "connector": {"state": "RUNNING", "worker_id": WORKER},
        "tasks": [{"id": 0, "state": "RUNNING", "worker_id": WORKER}],
        "type": "source",
    }
    assert tasks_of(one) == [
        {
            "id": {"connector": "eu", "task": 0},
            "config": {
                "connector.class": "aggregator.SourceConnector",
                "task.assigned.topics": "a,b",
            },
        }
    ]
    assert topics_of(one) == {"eu": {"topics": ["a.replica", "b.replica"]}}


def test_topics_are_dealt_to_the_tasks_asked_for_but_to_no_more_than_there_are_topics() -> None:
    found = tasks_of(connector(partitions=TWO, tasks="8"))
    assert [it["config"]["task.assigned.topics"] for it in found] == ["a", "b"]


def test_the_offset_is_that_of_the_last_record_as_with_mirrormaker_2() -> None:
    place = {"cluster": "eu", "partition": 0, "topic": "a"}
    # Nothing was copied of a-1, and of b-0 nothing is known.
    assert offsets_of(connector(partitions=TWO)) == {
        "offsets": [{"partition": place, "offset": {"offset": 6}}]
    }


def test_offsets_that_are_patched_are_of_the_last_record_too() -> None:
    place = {"cluster": "eu", "partition": 0, "topic": "a"}
    rows: list[dict[str, Any]] = [
        {"partition": place, "offset": {"offset": 6}},
        {"partition": {**place, "partition": 1}, "offset": None},
    ]
    assert altered("eu", rows) == MoveRequest(source="eu", to_offsets={"a": {0: 7, 1: None}})


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "is empty"),
        ([{"partition": {"topic": "a"}, "offset": None}], r"offsets\[0\].partition has to name"),
        ([{"partition": {"cluster": "us", "partition": 0, "topic": "a"}}], "is of cluster us"),
        (
            [{"partition": {"cluster": "eu", "partition": 0, "topic": "a"}, "offset": {"at": 1}}],
            r"offsets\[0\].offset has no offset",
        ),
        (
            [{"partition": {"cluster": "eu", "partition": None, "topic": "a"}, "offset": None}],
            r"offsets\[0\].partition has a topic that is no text, or a partition",
        ),
        (
            [{"partition": {"cluster": "eu", "partition": 0, "topic": 5}, "offset": None}],
            r"offsets\[0\].partition has a topic that is no text, or a partition",
        ),
        (
            [
                {
                    "partition": {"cluster": "eu", "partition": 0, "topic": "a"},
                    "offset": {"offset": 2**63},
                }
            ],
            r"offsets\[0\].offset has no offset",
        ),
    ],
)
def test_offsets_that_are_not_right_are_refused_with_the_reason(
    rows: list[dict[str, Any]], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        altered("eu", rows)


@pytest.mark.parametrize(
    ("start", "target"),
    [
        ("earliest", {"to": "earliest"}),
        ("latest", {"to": "latest"}),
        ("1700000000000", {"to_time_ms": 1700000000000}),
    ],
)
def test_deleted_offsets_are_those_of_the_start(start: str, target: dict[str, Any]) -> None:
    assert reset("eu", start) == MoveRequest(source="eu", **target)


def test_what_holds_one_topic_up_is_one_failed_task() -> None:
    held = partition("a", 1, state=PartitionState.QUARANTINED, reason="5 records are gone")
    states = task_states(connector(partitions=(TWO[0], held, TWO[2]), tasks="2"), WORKER)
    assert states == [
        {"id": 0, "state": "FAILED", "worker_id": WORKER, "trace": "a-1: 5 records are gone"},
        {"id": 1, "state": "RUNNING", "worker_id": WORKER},
    ]


@pytest.mark.parametrize(
    ("states", "starts", "shown"),
    [
        (("PAUSED", "RUNNING"), False, "PAUSED"),
        (("PAUSED", "PAUSED"), False, "PAUSED"),
        (("HELD", "RUNNING"), True, "UNASSIGNED"),
        (("HELD", "PAUSED"), True, "UNASSIGNED"),
        (("HELD", "RUNNING"), False, "FAILED"),
        (("PAUSED", "HELD"), False, "FAILED"),
        (("QUARANTINED", "HELD"), True, "FAILED"),
        (("STUCK", "PAUSED"), False, "FAILED"),
    ],
)
def test_what_is_paused_or_has_not_begun_has_not_failed(
    states: tuple[str, str], starts: bool, shown: str
) -> None:
    parts = tuple(partition("a", at, state=PartitionState(it)) for at, it in enumerate(states))
    one = replace(connector(partitions=parts), starts=starts)
    (found,) = task_states(one, WORKER)
    assert found["state"] == shown
    # Only what has failed shows why, and names only those parts of it that have.
    waits = {"PAUSED", "RUNNING", *(["HELD"] if starts else [])}
    trace = [f"a-{at}: {it}" for at, it in enumerate(states) if it not in waits]
    assert found.get("trace") == ("\n".join(trace) or None)


def test_while_the_instance_starts_its_connectors_do() -> None:
    for phase, starts in ((Phase.STARTING, True), (Phase.STANDBY, True), (Phase.RUNNING, False)):
        status = status_with(phase=phase)
        assert connector_of("eu", {}, status, stopped=False).starts is starts


def test_lanes_are_ended_where_that_can_help_what_has_failed() -> None:
    held = partition("a", 1, state=PartitionState.QUARANTINED)
    stuck = partition("b", 0, state=PartitionState.STUCK)
    waiting = connector(partitions=(TWO[0], held, TWO[2]), tasks="2")
    # Of what has failed; of a task that has; and of one that has not, which was asked for.
    assert [ends_lanes(waiting, it) for it in (None, 0, 1)] == [False, False, True]
    mixed = connector(partitions=(TWO[0], held, stuck), tasks="2")
    assert [ends_lanes(mixed, it) for it in (None, 0, 1)] == [True, False, True]
    assert not ends_lanes(connector(SourceState.UNREACHABLE, TWO))


def test_a_trace_is_short() -> None:
    many = tuple(partition("a", at, state=PartitionState.STUCK) for at in range(30))
    (state,) = task_states(connector(partitions=many), WORKER)
    assert state["trace"].splitlines()[19:] == ["a-19: STUCK", "and 10 more"]


@pytest.mark.parametrize(
    ("state", "stopped", "shown", "tasks"),
    [
        (SourceState.RUNNING, False, "RUNNING", 1),
        (SourceState.CATCHING_UP, False, "RUNNING", 1),
        (SourceState.PAUSED, False, "PAUSED", 1),
        (SourceState.PAUSED, True, "STOPPED", 0),
        (SourceState.FAILED, False, "FAILED", 1),
        (SourceState.UNREACHABLE, False, "FAILED", 1),
    ],
)
def test_states(state: SourceState, stopped: bool, shown: str, tasks: int) -> None:
    one = connector(state, TWO, reason="why", stopped=stopped)
    found = status_of(one, WORKER)
    assert found["connector"]["state"] == shown
    assert [it["state"] for it in found["tasks"]] == [shown] * tasks
    assert found["connector"].get("trace") == ("why" if shown == "FAILED" else None)


def test_before_anything_is_known_it_is_unassigned() -> None:
    found = status_of(SourceConnector("eu", {}), WORKER)
    assert found["connector"]["state"] == "UNASSIGNED"
    assert found["tasks"] == []
