"""For how long positions have been behind their logs, by what probes report each second."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import SourcePartition
from aggregator.plan.health.delays import (
    AT_END,
    MOST_SAMPLES,
    Delay,
    Delays,
    longest,
    longest_by_source,
)

EU0, EU1, US0 = (SourcePartition(*it) for it in (("eu", "t", 0), ("eu", "t", 1), ("us", "t", 0)))


class Watch:
    """Delays of EU0 alone, looked at when a probe has just reported its end."""

    def __init__(self) -> None:
        self.delays = Delays()

    def look(
        self, now: float, position: int, end: int | None, silent: Collection[str] = ()
    ) -> Delay | None:
        ends = {} if end is None else {EU0: end}
        return self.delays.follow({EU0: position}, ends, {"eu": now}, silent, now).get(EU0)

    @property
    def samples(self) -> int:
        return len(self.delays._logs[EU0].samples)


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_a_partition_at_its_end_is_not_behind(watch: Watch) -> None:
    assert watch.look(0, 10, 10) == AT_END == Delay(0.0)
    assert watch.look(1, 20, 20) == AT_END


def test_a_position_that_is_newer_than_the_probe_is_not_behind(watch: Watch) -> None:
    assert watch.look(0, 25, 20) == AT_END


def test_it_is_behind_since_its_log_was_first_reported_beyond_the_position(watch: Watch) -> None:
    watch.look(0, 10, 10)
    assert watch.look(1, 10, 11) == Delay(0.0)
    assert watch.look(2, 10, 11) == Delay(1.0)
    assert watch.look(5, 10, 99) == Delay(4.0)


def test_as_the_position_moves_only_what_is_still_beyond_it_counts(watch: Watch) -> None:
    for second in range(11):
        watch.look(second, 0, 10 * second)
    # At 4 s the log ended at 40, at 5 s at 50.
    assert watch.look(10, 45, 100) == Delay(5.0)
    assert watch.look(11, 50, 100) == Delay(5.0)
    assert watch.look(12, 100, 100) == AT_END
    assert watch.samples == 0


def test_what_was_behind_before_it_was_watched_is_behind_at_least_since_then(watch: Watch) -> None:
    assert watch.look(100, 10, 50) == Delay(0.0, at_least=True)
    assert watch.look(400, 10, 90) == Delay(300.0, at_least=True)
    assert watch.look(401, 49, 90) == Delay(301.0, at_least=True)
    # From here on, an end is known that was reported earlier and is not beyond the position.
    assert watch.look(402, 50, 90) == Delay(2.0)


def test_a_log_that_does_not_grow_counts_from_when_it_came_to_its_end(watch: Watch) -> None:
    watch.look(0, 10, 10)
    watch.look(1, 10, 20)
    for second in range(2, 5000):
        watch.look(second, 10, 20)
    assert watch.look(5000, 10, 20) == Delay(4999.0)
    assert watch.samples == 1


def test_an_idle_log_adds_no_delay_when_it_grows_again(watch: Watch) -> None:
    watch.look(0, 10, 10)
    watch.look(3600, 10, 10)
    assert watch.look(3601, 10, 11) == Delay(0.0)
    assert watch.look(3602, 10, 11) == Delay(1.0)


def test_a_position_that_went_back_is_behind_at_least_since_then(watch: Watch) -> None:
    watch.look(0, 100, 100)
    assert watch.look(1, 20, 100) == Delay(0.0, at_least=True)
    assert watch.look(9, 20, 120) == Delay(8.0, at_least=True)
    assert watch.look(10, 110, 120) == Delay(1.0)


def test_what_a_log_held_before_it_was_cut_is_forgotten(watch: Watch) -> None:
    watch.look(0, 10, 10)
    watch.look(1, 10, 20)
    watch.look(2, 10, 30)
    assert watch.look(3, 10, 25) == Delay(2.0)
    assert watch.look(4, 22, 25) == Delay(1.0)
    # Another topic of this name: the position is set to its beginning, and nothing is known of it.
    assert watch.look(5, 22, 4) == AT_END
    assert watch.look(6, 0, 4) == Delay(0.0, at_least=True)


def test_an_unknown_end_is_an_unknown_delay_and_nothing_is_forgotten(watch: Watch) -> None:
    watch.look(0, 10, 10)
    watch.look(1, 10, 20)
    assert watch.look(2, 10, None) is None
    assert watch.look(3, 10, 20) == Delay(2.0)


def test_of_a_silent_source_only_what_is_behind_is_known(watch: Watch) -> None:
    watch.look(0, 10, 10)
    assert watch.look(1, 10, 10, silent={"eu"}) is None
    assert watch.look(1, 10, 10, silent={"us"}) == AT_END
    watch.look(2, 10, 11)
    assert watch.look(60, 10, 11, silent={"eu"}) == Delay(58.0)


def test_the_moment_is_that_of_the_probe_and_not_that_of_the_look() -> None:
    delays = Delays()
    delays.follow({EU0: 1, US0: 1}, {EU0: 1, US0: 1}, {"eu": 0.0, "us": 0.0}, (), 0.5)
    ends, reported_at = {EU0: 2, US0: 2}, {"eu": 9.25, "us": 9.75}
    found = delays.follow({EU0: 1, US0: 1}, ends, reported_at, (), 10.0)
    assert found == {EU0: Delay(0.75), US0: Delay(0.25)}


def test_partitions_that_are_watched_no_more_are_forgotten() -> None:
    delays = Delays()
    both = {EU0: 0, EU1: 0}
    delays.follow(both, {EU0: 5, EU1: 5}, {"eu": 0.0}, (), 0.0)
    delays.forget(EU0)
    delays.forget(US0)
    assert delays.follow({EU1: 0}, {EU0: 5, EU1: 5}, {"eu": 1.0}, (), 1.0).keys() == {EU1}
    assert delays._logs.keys() == {EU1}


@pytest.mark.parametrize("hours", [1, 30])
def test_a_long_delay_is_known_to_a_twentieth_with_few_samples(watch: Watch, hours: int) -> None:
    end = hours * 3600
    watch.look(0, 0, 0)
    most = 0
    for second in range(1, end + 1):
        watch.look(second, 0, second)
        most = max(most, watch.samples)
    assert most <= MOST_SAMPLES
    # It reads on, a hundred times as fast: what is left is known to as much of the whole delay.
    for share in (10, 25, 50, 75, 90):
        position = end * share // 100
        found = watch.look(end, position, end)
        assert found is not None and not found.at_least
        truth = end - position
        assert truth - end / 20 <= found.seconds <= truth


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=60))
def test_whatever_is_reported_a_delay_is_never_longer_than_it_was_watched(
    reports: list[tuple[int, int]],
) -> None:
    watch = Watch()
    for second, (position, end) in enumerate(reports):
        found = watch.look(second, position, end)
        assert found is not None
        assert (found.seconds == 0 and not found.at_least) or end > position
        assert 0 <= found.seconds <= second
    assert watch.samples <= MOST_SAMPLES


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=80))
def test_of_a_log_that_only_grows_the_delay_is_exact_while_it_is_short(
    steps: list[tuple[int, int]],
) -> None:
    watch, ends = Watch(), [0]
    watch.look(0, 0, 0)
    position = 0
    for second, (grown, read) in enumerate(steps, start=1):
        ends.append(ends[-1] + grown)
        position = min(position + read, ends[-1])
        found = watch.look(second, position, ends[-1])
        since = next((at for at, end in enumerate(ends) if end > position), second)
        expected = Delay(float(second - since))
        if second <= 50:
            assert found == expected
        else:
            assert found is not None
            assert expected.seconds - 4 <= found.seconds <= expected.seconds


@pytest.mark.parametrize(
    ("delays", "expected"),
    [
        ([], None),
        ([None], None),
        ([None, AT_END], AT_END),
        ([Delay(3.0), Delay(7.0), None], Delay(7.0)),
        ([Delay(3.0, at_least=True), Delay(7.0)], Delay(7.0, at_least=True)),
    ],
)
def test_the_longest_of_some(delays: list[Delay | None], expected: Delay | None) -> None:
    assert longest(delays) == expected


def test_each_source_has_the_longest_of_its_partitions() -> None:
    delays: Mapping[SourcePartition, Delay] = {EU0: Delay(3.0), EU1: AT_END, US0: AT_END}
    assert longest_by_source(delays) == {"eu": Delay(3.0), "us": AT_END}
