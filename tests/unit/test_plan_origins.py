"""Whether what the hub holds is of the log that is there: by samples, and never by a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import LogId, PoisonRule, Route, Skip, SourcePartition
from aggregator.plan.positions.origins import (
    READS,
    HubSample,
    Judged,
    Print,
    SampleAnswers,
    SourceRecord,
    judge_origins,
    plan_foreign,
    plan_samples,
)
from aggregator.plan.positions.start import GapKind

SP = SourcePartition("eu", "orders", 0)
ROUTE = Route("eu", "orders", "hub.orders", 1, 1, poison=PoisonRule("aside"))

Log = Mapping[int, SourceRecord]


def sample(offset: int, *prints: tuple[int | None, int] | Print) -> HubSample:
    """What the hub topic holds by an offset: timestamps and contents."""
    whole = (it if isinstance(it, Print) else Print(*it, "hub.orders") for it in prints)
    return HubSample(offset, tuple(whole))


def held(log: Log) -> list[HubSample]:
    """The hub's copies of a log."""
    return [sample(at, (it.timestamp, it.content)) for at, it in log.items()]


def judged(
    samples: Sequence[HubSample],
    log: Log,
    route: Route = ROUTE,
    at: int = 0,
    end: int | None = None,
) -> Judged:
    answers = SampleAnswers({SP: log} if log else {}, {} if end is None else {SP: end})
    return judge_origins({SP: samples}, answers, {SP: at}, [route])


def log_of(first: int, *times: int, content: int = 0) -> Log:
    return {first + at: SourceRecord(time, content or 7 * time) for at, time in enumerate(times)}


def test_what_agrees_is_believed() -> None:
    log = log_of(5, 100, 200, 300)
    assert judged(held(log), log) == Judged()


def test_another_timestamp_is_another_log() -> None:
    other = log_of(5, 100, 200, 301)
    (why,) = judged(held(log_of(5, 100, 200, 300)), other).foreign.values()
    assert why == (
        "offset 7 is of 1970-01-01T00:00:00.300Z there and of 1970-01-01T00:00:00.301Z at the "
        "source"
    )


def test_two_records_by_one_origin_are_of_two_logs_though_one_of_them_is_ours() -> None:
    log = log_of(5, 100, 200)
    twice = [sample(5, (100, 700), (99, 700)), sample(6, (200, 1400))]
    assert judged(twice, log).foreign


@pytest.mark.parametrize("times", [(50, 50), (-1, -1)])
def test_where_timestamps_say_nothing_the_content_does(times: tuple[int, int]) -> None:
    hub = held(log_of(5, *times, content=1))
    assert judged(hub, log_of(5, *times, content=1)) == Judged()
    (why,) = judged(hub, log_of(5, *times, content=2)).foreign.values()
    assert "another key or value" in why


def test_logs_that_are_the_same_record_by_record_cannot_be_distinguished() -> None:
    """By design, as of a mirror that keeps the timestamps: then nothing is lost, either."""
    log = log_of(0, -1, -1, content=9)
    assert judged(held(log), log) == Judged()


def test_a_content_that_changes_on_the_way_is_not_compared() -> None:
    hub, log = held(log_of(5, 50, 50, content=1)), log_of(5, 50, 50, content=2)
    for route in (replace(ROUTE, transform="m:f"), replace(ROUTE, schemas="translate")):
        assert judged(hub, log, route) == Judged()
    aside = [sample(5, Print(50, 1, "aside"))]
    assert judged(aside, log) == Judged()


def test_timestamps_that_agree_and_differ_say_more_than_a_content_of_an_earlier_transform() -> None:
    assert judged(held(log_of(5, 50, 60, content=1)), log_of(5, 50, 60, content=2)) == Judged()


def test_a_timestamp_that_is_not_known_is_not_compared() -> None:
    log = log_of(5, 50)
    assert judged([sample(5, (None, log[5].content))], log) == Judged()
    # In one header, a record without a timestamp has the one of its arrival.
    assert judged([sample(5, (1_000, 3))], log_of(5, -1, content=3)) == Judged()


def test_what_the_source_does_not_hold_any_more_proves_nothing() -> None:
    hub = held(log_of(5, 100, 200, 300))
    assert judged(hub, log_of(7, 300)) == Judged()
    assert judged(hub, {}, end=500) == Judged()
    assert judged(hub, {}, end=6) == Judged()


def test_but_what_lies_at_or_beyond_the_end_is_of_another_log() -> None:
    hub = held(log_of(5, 100, 200))
    for end in (2, 5):
        assert judged(hub, {}, at=2, end=end).foreign
    # A position beyond the end is a gap of its own.
    assert judged(hub, {}, at=3, end=2) == Judged()


def test_of_a_source_that_does_not_answer_nothing_is_believed_yet() -> None:
    hub = held(log_of(5, 100, 200))
    answers = SampleAnswers({SP: log_of(5, 100)}, silent={SP: "no answer"})
    assert judge_origins({SP: hub}, answers, {SP: 0}, [ROUTE]) == Judged({}, {SP: "no answer"})
    answers = replace(answers, records={SP: log_of(5, 101)})
    assert judge_origins({SP: hub}, answers, {SP: 0}, [ROUTE]).foreign.keys() == {SP}


def test_each_partition_is_judged_by_itself() -> None:
    other = SP._replace(partition=1)
    hub = held(log_of(5, 100))
    answers = SampleAnswers({SP: log_of(5, 100), other: log_of(5, 99)})
    found = judge_origins({SP: hub, other: hub}, answers, {SP: 0, other: 0}, [ROUTE])
    assert found.partitions == {other}


def test_the_finding_names_what_was_compared_and_what_it_means() -> None:
    found = {SP: Skip([(3, 5), (8, 9)])}
    (gap,) = plan_foreign(Judged({SP: "so"}), found, {SP: 2}, [ROUTE], {SP: LogId("C", "T")})
    assert (gap.kind, gap.position, gap.start, gap.end) == (GapKind.FOREIGN_ORIGIN, 2, 3, 9)
    assert gap.then == gap.now == LogId("C", "T")
    for words in ("hub.orders", "3 records", "eu/orders-0 at 3 to 8", ": so.", "alias eu"):
        assert words in gap.reason


def test_the_ends_are_asked_for_first_and_many_partitions_share_the_questions() -> None:
    own = [sample(at, (1, 1)) for at in range(9)]
    wanted, enough = plan_samples({SP: own, SP._replace(partition=1): own[:1]})
    assert wanted == {SP: [0, 8, *range(1, 8)], SP._replace(partition=1): [0]}
    assert enough == READS // 2
    many = {SP._replace(partition=it): own for it in range(READS)}
    assert plan_samples(many)[1] == 2
    assert plan_samples({}) == ({}, READS)


times = st.lists(st.integers(-1, 3), min_size=1, max_size=8)


@given(times, times, st.booleans(), st.sets(st.integers(0, 7)))
def test_whatever_is_there_is_only_believed_when_nothing_speaks_against_it(
    ours: list[int], theirs: list[int], plain: bool, gone: set[int]
) -> None:
    log = {at: SourceRecord(time, at) for at, time in enumerate(ours) if at not in gone}
    hub = [sample(at, (time, at)) for at, time in enumerate(theirs)]
    route = ROUTE if plain else replace(ROUTE, transform="m:f")
    both = [(log[at], it.prints[0]) for at, it in enumerate(hub) if at in log]
    differs = any(a.timestamp >= 0 and a.timestamp != b.timestamp for a, b in both)
    found = judged(hub, log, route, end=len(ours))
    beyond = not log and len(ours) <= 0
    assert bool(found.foreign) is (differs or beyond)
    assert not found.silent
    # A log's own copies are always believed.
    assert judged(held(log), log, route) == Judged() if log else True
