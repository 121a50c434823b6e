"""What the tasks of a lane report, as the connector writes it and as the engine reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from aggregator.datapath.connector.reports import (
    DONE,
    HELD,
    OUT_OF_RANGE,
    POISONED,
    REFUSED,
    Counted,
    LaneReport,
    TaskReport,
    bucket_bounds,
    join,
    parse_reports,
)
from aggregator.model.values import SourcePartition, TopicPartition
from support.examples import examples
from support.java_tests import printed_by
from support.task_reports import Reporter, Step, message, since, steps, task_report

EU = [SourcePartition("eu", "orders", number) for number in range(3)]
US = [SourcePartition("us", "orders", number) for number in range(3)]


def of(*tasks: dict[str, Any], expected: int | None = None) -> LaneReport:
    """The lane that these tasks are of, where `expected` are all that it has."""
    found = parse_reports(message(*tasks)).tasks
    return join(found, len(tasks) if expected is None else expected)


@pytest.mark.slow
def test_the_bounds_of_the_buckets_are_those_of_the_connector(tmp_path: Path) -> None:
    assert [str(bound) for bound in bucket_bounds()] == printed_by("PrintBounds", tmp_path)


def test_without_news_there_is_only_the_number_to_ask_with() -> None:
    found = parse_reports(message(seq=42, unheard={"eu": 1500}, moves=3, over=["union#1@run"]))
    assert found == (42, [], {"eu": 1.5}, [], 3, frozenset({"union#1@run"}), [])


def test_hub_partitions_that_were_cut_off_as_they_are_reported() -> None:
    found = parse_reports(message(cuts=[["hub.orders", 2, 33], ["hub.orders", 2, 31]]))
    assert found.cuts == [(TopicPartition("hub.orders", 2), at) for at in (33, 31)]


def test_log_ends_that_have_changed_as_they_are_reported() -> None:
    parts = {"orders/0": [7, -1, 0], "orders/1": [8, 2_500, 1], "orders/2": [-1, -1, 1]}
    task = {"lane": "union", "generation": 3, "cluster": "eu", "parts": parts}
    (found,) = parse_reports(message(ends=[task])).ends
    assert (found.lane, found.generation) == ("union", 3)
    assert found.parts == {EU[0]: (7, None, 0), EU[1]: (8, 2.5, 1), EU[2]: (None, None, 1)}


def test_a_report_as_it_is_written() -> None:
    text = task_report(
        reading=1,
        task=2,
        states={"orders/1": "held", "orders/0": "refused"},
        reasons={"orders/0": "no ACL"},
        topics={"orders": [4, 400], "logs": [0, 0]},
        error="TimeoutException: no one there",
        ended=True,
        skipping=True,
        skipped=8,
        replayed=2,
        looped=1,
        retried=6,
    )
    (task,) = parse_reports(message(text)).tasks
    assert (task.lane, task.generation, task.task, task.cluster) == ("orders", 3, (1, 2), "eu")
    assert (task.point, task.at_ms, task.snapshot) == (7, 1_700_000_000_123, 5)
    assert task.positions == {EU[0]: 10, EU[1]: 20}
    assert task.ends == {TopicPartition("hub.orders", 0): 31, TopicPartition("hub.orders", 2): 33}
    assert task.states == {EU[0]: REFUSED, EU[1]: HELD}
    assert task.reasons == {EU[0]: "no ACL"}
    assert task.sent == {"orders": Counted(4, 400), "logs": Counted(0, 0)}
    assert task.error == "TimeoutException: no one there"
    assert task.ended
    assert task.skipping
    assert (task.skipped, task.replayed, task.looped, task.retried) == (8, 2, 1, 6)
    assert (task.age, task.flight) == ((0, 1, 2), (3, 0, 0))
    assert task.unknown == (("orders", "value", "17"),)


def test_the_number_of_a_partition_is_behind_the_last_slash() -> None:
    report = of(task_report(positions={"a/b/12": 5}))
    assert report.positions == {SourcePartition("eu", "a/b", 12): 5}


def test_a_lane_has_the_positions_states_and_reasons_of_all_its_tasks() -> None:
    report = of(
        task_report(reading=1, cluster="us", states={"orders/0": "done"}),
        task_report(states={"orders/1": "poisoned"}, reasons={"orders/1": "too large"}),
        task_report(task=1, positions={"orders/2": 30}, states={"orders/2": "out_of_range"}),
    )
    assert report.whole
    assert report.positions == {EU[0]: 10, EU[1]: 20, EU[2]: 30, US[0]: 10, US[1]: 20}
    assert report.states == {US[0]: DONE, EU[1]: POISONED, EU[2]: OUT_OF_RANGE}
    assert report.reasons == {EU[1]: "too large"}


def test_what_its_readers_cannot_read_is_reported_with_the_reason_or_else_the_state() -> None:
    report = of(
        task_report(
            states={"orders/0": "refused", "orders/1": "out_of_range"},
            reasons={"orders/0": "no ACL"},
        ),
        task_report(task=1, states={"orders/2": "held"}),
        task_report(reading=1, cluster="us", states={"orders/0": "poisoned", "orders/1": "done"}),
    )
    assert report.unread == {EU[0]: "no ACL", EU[1]: "out of range", US[0]: "poisoned"}


def test_tasks_are_in_order_whichever_reported_first() -> None:
    report = of(task_report(reading=1), task_report(task=1), task_report(reading=0, task=0))
    assert [task.task for task in report.tasks] == [(0, 0), (0, 1), (1, 0)]


def test_a_lane_is_whole_when_each_task_has_reported() -> None:
    assert of(task_report(), task_report(task=1)).whole
    assert not of(task_report(), expected=2).whole
    assert not of(expected=1).whole


def test_a_lane_has_ended_when_all_of_its_tasks_have() -> None:
    ended, running = task_report(ended=True), task_report(task=1)
    assert of(ended, task_report(task=1, ended=True)).ended
    assert not of(ended, running).ended
    assert not of(ended, expected=2).ended


def test_a_lane_is_skipping_until_all_of_its_tasks_have_reported_that_they_are_not() -> None:
    assert not of(task_report(), task_report(task=1)).skipping
    assert of(task_report(), task_report(task=1, skipping=True)).skipping
    assert of(task_report(), expected=2).skipping


def test_states_are_those_of_what_is_not_being_read() -> None:
    report = of(task_report(states={"orders/1": "held", "orders/2": "done"}))
    # The same number of another cluster is another partition.
    assert report.states == {EU[1]: HELD, EU[2]: DONE}


def test_errors_are_those_of_the_sources_that_give_nothing() -> None:
    report = of(
        task_report(error="TimeoutException"),
        task_report(task=1, error=""),
        task_report(reading=1, cluster="us"),
        task_report(reading=2, cluster="cn", error="refused"),
    )
    assert report.errors == {"eu": "TimeoutException", "cn": "refused"}


def test_records_of_all_topics_and_tasks_count() -> None:
    report = of(
        task_report(topics={"orders": [4, 400], "logs": [3, 1]}, replayed=2),
        task_report(task=1, topics={"orders": [10, 0]}, replayed=5),
        task_report(task=2, topics={}),
    )
    assert report.records == 17
    assert report.replayed == 7


def newest(known: dict[tuple[int, int], TaskReport], *tasks: dict[str, Any]) -> list[TaskReport]:
    """The reports in a message, which are then known."""
    found = parse_reports(message(*tasks), {("orders", 3): known})
    assert found.seq == 1
    known |= {task.task: task for task in found.tasks}
    return list(found.tasks)


def test_of_a_report_that_says_what_has_changed_all_else_is_as_in_its_base() -> None:
    base = task_report(states={"orders/1": "held"})
    now = task_report(
        point=8,
        positions={"orders/0": 11, "orders/1": 20},
        ends=[["hub.orders", 0, 32], ["hub.orders", 1, 1], ["hub.orders", 2, 33]],
        age=[1, 1, 2],
    )
    changes = since(base, now)
    assert changes == {
        "lane": "orders",
        "generation": 3,
        "reading": 0,
        "task": 0,
        "base": 1_000,
        "point": 8,
        "states": {},
        "positions": {"orders/0": 11},
        "ends": [["hub.orders", 0, 32], ["hub.orders", 1, 1]],
        "age": [1, 1, 2],
    }
    known: dict[tuple[int, int], TaskReport] = {}
    (before,) = newest(known, base)
    (found,) = newest(known, changes)
    assert [found] == parse_reports(message(now)).tasks
    # What has not changed is the same, which those who look at changes need not look at.
    assert found.sent is before.sent
    (idle,) = newest(known, since(base, base | {"point": 9, "snapshot": 6}))
    assert (idle.positions, idle.ends) == (before.positions, before.ends)
    assert idle.positions is before.positions


def test_changes_of_what_is_not_here_are_left_out_and_all_is_asked_for() -> None:
    known: dict[tuple[int, int], TaskReport] = {}
    newest(known, task_report())
    lacking, other = since(task_report(number=999), task_report(point=9)), task_report(task=1)
    found = parse_reports(message(lacking, other, seq=42), {("orders", 3): known})
    assert found.seq == 0
    assert [it.task for it in found.tasks] == [(0, 1)]
    # No one follows this one.
    found = parse_reports(message(lacking, seq=42), {("orders", 4): {}})
    assert (found.seq, found.tasks) == (42, [])


@examples(200)
@given(steps())
def test_what_has_changed_gives_the_whole_report_whatever_was_lost_before(
    taken: list[Step],
) -> None:
    reporters = [Reporter(0), Reporter(1)]
    known: dict[tuple[int, int], TaskReport] = {}
    for number, parts, places, state, whole, is_read in taken:
        reporters[number].advance(parts, places, state)
        texts = reporters[number].reports(known.get((0, number)), whole=whole)
        if is_read:
            (found,) = newest(known, *texts)
            assert [found] == parse_reports(message(reporters[number].now)).tasks


@pytest.mark.slow
def test_what_the_connector_reports_gives_the_whole_reports_of_its_tasks(tmp_path: Path) -> None:
    known: dict[tuple[int, int], TaskReport] = {}
    lines = printed_by("PrintReports", tmp_path, "RandomTask", "Specs")
    sizes = []
    for line in lines:
        printed = json.loads(line)
        found = parse_reports(json.dumps(printed["reported"]), {("eu", 3): known})
        assert found.seq == printed["reported"]["seq"]
        known |= {task.task: task for task in found.tasks}
        whole = parse_reports(message(*printed["all"])).tasks
        assert known == {task.task: task for task in whole}
        sizes += [len(task) for task in printed["reported"]["tasks"]]
    assert len(lines) > 300
    assert sum(size < 20 for size in sizes) > 100


@pytest.mark.parametrize("missing", ["positions", "snapshot", "ends", "ended", "states"])
def test_a_report_that_lacks_something_is_not_taken(missing: str) -> None:
    text = task_report()
    del text[missing]
    with pytest.raises(KeyError, match=missing):
        of(text)
