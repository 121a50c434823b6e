"""Those who look at what a report changes see what they would in the whole of it."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from aggregator.datapath.connector.connector import Connector
from aggregator.datapath.connector.reports import LaneReport, TaskReport, join, parse_reports
from aggregator.datapath.hub_ledger import HubSnapshot, HubTail
from aggregator.datapath.spark.lane import LaneQuery
from aggregator.engine.commits.points import LanePoints, LaneStart
from aggregator.model.patched import Patched, may_differ
from aggregator.model.values import Positions, SourcePartition, TopicPartition
from aggregator.status.figures import Figures
from aggregator.status.view import LaneProgress
from aggregator.store.checkpoint.identity import Identity
from support.examples import examples
from support.task_reports import PLACES, Reporter, Step, message, since, steps, task_report

MAPS = st.dictionaries(st.integers(0, 5), st.integers(0, 2))
HUB = [TopicPartition("hub.orders", number) for number in range(PLACES)]


@examples(300)
@given(MAPS, MAPS, MAPS, MAPS)
def test_all_keys_with_other_values_are_among_those_that_may_differ(
    base: dict[int, int], patch: dict[int, int], other: dict[int, int], foreign: dict[int, int]
) -> None:
    maps = [base, Patched(base, patch), Patched(base, other), Patched(foreign, patch), foreign]
    assert maps[1] == {**base, **patch}
    for now in maps:
        for before in maps:
            found = may_differ(now, before)
            differ = {it for it in now.keys() | before.keys() if now.get(it) != before.get(it)}
            assert differ <= set(found) <= now.keys() | before.keys()


def test_of_maps_with_one_base_only_what_is_patched_may_differ() -> None:
    base = dict.fromkeys(range(100), 0)
    one, two = Patched(base, {1: 1, 2: 2}), Patched(base, {2: 2, 3: 3})
    assert set(may_differ(two, one)) == {1, 2, 3}
    assert set(may_differ(one, base)) == {1, 2}
    assert set(may_differ(base, one)) == {1, 2}
    assert may_differ(one, one) == ()
    assert len(may_differ(one, dict(base))) == 100


class FakeLanes:
    """The driver's side in Java, which answers as the test says."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[int] = []

    def reports(self, since: int) -> str:
        self.asked.append(since)
        return self.answers.pop(0)

    def put(self, spec: str) -> None:
        pass

    def answerFor(self, millis: int) -> None:  # noqa: N802
        pass


def test_the_connector_applies_changes_and_asks_again_for_what_it_lacks() -> None:
    other = task_report(number=7)
    lanes = FakeLanes(
        message(task_report(), seq=5),
        message(since(task_report(), task_report(point=8)), seq=6),
        message(since(other, task_report(point=9)), seq=7),
        message(other, since(other, task_report(point=9)), seq=7),
        message(seq=7),
    )
    classes = SimpleNamespace(Lanes=lanes, HubTail=None, SourceSamples=None, HubEnds=None)
    java = SimpleNamespace(lang=SimpleNamespace(System=None))
    jvm = SimpleNamespace(aggregator=SimpleNamespace(connector=classes), java=java)
    connector = Connector(cast(SparkSession, SimpleNamespace(_jvm=jvm)))
    connector.put("{}", "orders", 3)
    found = []
    for _ in range(5):
        connector.poll()
        (task,) = connector.report("orders", 3, 1).tasks
        found.append(task.point)
    assert found == [7, 8, 8, 9, 9]
    assert lanes.asked == [0, 5, 6, 0, 7]
    assert connector.news == 3


class Lane:
    """Two tasks: their newest reports as they come, and as if each had reported all."""

    def __init__(self) -> None:
        self._reporters = [Reporter(0), Reporter(1)]
        self._known: dict[tuple[int, int], TaskReport] = {}
        self._whole: dict[tuple[int, int], TaskReport] = {}
        for number in range(2):
            self._take(number, whole=True, is_read=True)

    def advance(self, step: Step) -> None:
        number, parts, places, state, whole, is_read = step
        self._reporters[number].advance(parts, places, state)
        self._take(number, whole=whole, is_read=is_read)

    def _take(self, number: int, *, whole: bool, is_read: bool) -> None:
        reporter, task = self._reporters[number], (0, number)
        texts = reporter.reports(self._known.get(task), whole=whole)
        if is_read:
            known = {("orders", 3): self._known}
            (self._known[task],) = parse_reports(message(*texts), known).tasks
            (self._whole[task],) = parse_reports(message(reporter.now)).tasks

    @property
    def report(self) -> LaneReport:
        return join(list(self._known.values()), 2)

    @property
    def whole_report(self) -> LaneReport:
        return join(list(self._whole.values()), 2)


def points() -> LanePoints:
    begun = LaneStart(0, HubSnapshot(0, {}), Positions(), {})
    query = cast(LaneQuery, SimpleNamespace(generation=3))
    return LanePoints(query, Identity({}, {}, {}), begun, LaneProgress(), 0.0)


class PlainPoints:
    """All positions of each new report, but those that were left."""

    def __init__(self) -> None:
        self.reported = Positions()
        self._points: tuple[int, ...] = ()
        self._left: set[SourcePartition] = set()

    def take(self, report: LaneReport) -> bool:
        points = tuple(task.point for task in report.tasks)
        if points == self._points and self._left >= report.stuck:
            return False
        self._points = points
        self._left |= report.stuck
        self.reported = self._without(report.positions)
        return True

    def leave(self, partitions: Iterable[SourcePartition]) -> None:
        self._left |= set(partitions)
        self.reported = self._without(self.reported)

    def _without(self, positions: Positions) -> Positions:
        return Positions({sp: at for sp, at in positions.items() if sp not in self._left})


@examples(300)
@given(steps(), st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_positions_are_those_of_the_newest_reports(
    taken: list[Step], leaves: set[int], moves: set[int]
) -> None:
    """Also where partitions are left, or others have moved positions of the lane meanwhile."""
    lane, own, plain = Lane(), points(), PlainPoints()
    positions = expected = Positions()
    for number, step in enumerate(taken):
        lane.advance(step)
        positions = positions.merged(own.take(lane.report))
        if plain.take(lane.whole_report):
            expected = expected.merged(plain.reported)
        assert own.reported == plain.reported
        assert list(own.reported) == list(plain.reported)
        assert positions == expected
        if number in leaves and plain.reported:
            left = [list(plain.reported)[number % len(plain.reported)]]
            own.leave(left)
            plain.leave(left)
            assert own.reported == plain.reported
        if number in moves and expected:
            moved = {list(expected)[number % len(expected)]: -number}
            positions, expected = positions.merged(moved), expected.merged(moved)
            own.take_all()


def test_a_report_without_other_positions_leaves_them_as_they_are() -> None:
    own, base = points(), task_report()
    (first,) = parse_reports(message(base)).tasks
    assert own.take(join([first], 1)) == first.positions
    reported, known = own.reported, {("orders", 3): {first.task: first}}
    (idle,) = parse_reports(message(since(base, base | {"point": 8, "snapshot": 9})), known).tasks
    assert own.take(join([idle], 1)) == {}
    assert own.reported is reported
    assert not own.take(join([idle], 1))


@examples(200)
@given(steps())
def test_records_and_figures_are_those_of_the_newest_reports(taken: list[Step]) -> None:
    lane, own, figures, plain = Lane(), points(), Figures(), Figures()
    for second, step in enumerate(taken):
        lane.advance(step)
        figures.take(lane.report)
        plain.take(lane.whole_report)
        assert figures.at(second) == plain.at(second)
        assert own.progress(lane.report).records == lane.whole_report.records


class PlainTail(HubTail):
    """Compares all ends of all tasks each time."""

    def heard(self, tasks: Iterable[TaskReport], now_ms: int) -> None:
        known, ends = self.newest.ends, dict[TopicPartition, int]()
        for task in tasks:
            for tp, end in task.ends.items():
                if tp in known and end > max(known[tp], ends.get(tp, 0)):
                    ends[tp] = end
        if ends:
            self._add(now_ms, ends)


@examples(300)
@given(steps(), st.lists(st.sampled_from(["", "", "read", "drop", "lower", "alone"]), max_size=30))
def test_hub_ends_are_those_of_the_newest_reports(taken: list[Step], others: list[str]) -> None:
    """Also where the hub was read, has lost something, or a topic of it was created again."""
    lane, tail, plain = Lane(), HubTail(), PlainTail()
    for second, step in enumerate(taken):
        lane.advance(step)
        happens = others[second] if second < len(others) else ""
        for each in (tail, plain):
            match happens:
                case "read":
                    each.read(HubSnapshot(second, dict.fromkeys(HUB[second % PLACES :], 1)))
                case "drop":
                    each.drop({"hub.orders"})
                case "lower":
                    each.lower({HUB[second % PLACES]: 1})
        but = 1 if happens == "alone" else 0
        tail.heard(lane.report.tasks[but:], second)
        plain.heard(lane.whole_report.tasks[but:], second)
        assert (tail.number, tail.newest) == (plain.number, plain.newest)
