"""How long batches are: by the number of partitions, or as the config says; what a reload keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.schema import Config
from aggregator.plan.interval import batch_seconds, interval_seconds, keep_interval, with_interval
from aggregator.plan.reload import plan_reload


def config(**stream: object) -> Config:
    return Config.model_validate(
        {
            "hub": {"bootstrap_servers": "h:1"},
            "sources": {"eu": {"bootstrap_servers": "e:1", "topics": {"include": "x"}}},
            "stream": stream,
        }
    )


@pytest.mark.parametrize(
    ("partitions", "seconds"),
    [(0, 60), (99, 60), (100, 120), (10_000, 120)],
)
def test_the_more_partitions_the_longer_a_batch(partitions: int, seconds: float) -> None:
    assert interval_seconds(config(), partitions) == seconds


def test_what_a_config_names_is_what_holds() -> None:
    assert interval_seconds(config(checkpoint_interval="30s"), 1_000) == 30
    assert interval_seconds(config(checkpoint_interval="7m"), 1) == 420


@pytest.mark.parametrize("trigger", ["microbatch", "available-now"])
def test_micro_batches_end_by_themselves(trigger: str) -> None:
    assert interval_seconds(config(trigger=trigger), 1_000) == 60


def test_an_interval_that_is_in_force_stays_when_partitions_come_or_the_config_is_read_again() -> (
    None
):
    running = with_interval(config(), 60.0)
    assert interval_seconds(running, 1_000) == 60
    again = keep_interval(config(), running)
    assert interval_seconds(again, 1_000) == 60
    assert plan_reload(running, again).keys == ()


def test_an_interval_that_is_named_is_taken_over() -> None:
    running = with_interval(config(), 120.0)
    named = keep_interval(config(checkpoint_interval="10s"), running)
    assert named.stream.checkpoint_interval == 10
    assert plan_reload(running, named).every_lane


@given(st.integers(1, 10_000), st.floats(1, 3600), st.integers(1, 100))
def test_batches_are_no_longer_than_the_interval_and_neighbours_differ(
    generation: int, interval: float, lanes: int
) -> None:
    one = batch_seconds(generation, interval, lanes)
    other = batch_seconds(generation + 1, interval, lanes)
    assert interval * 0.5 <= one <= interval or one == 1.0
    assert abs(one - other) > 0.07 * interval or 1.0 in (one, other)


def test_the_more_lanes_there_are_the_further_apart_they_end() -> None:
    def between_the_first_and_the_last(lanes: int) -> float:
        lengths = [batch_seconds(number, 120.0, lanes) for number in range(1, lanes + 1)]
        return max(lengths) - min(lengths)

    assert between_the_first_and_the_last(4) < 24
    assert 50 < between_the_first_and_the_last(20) < 60
