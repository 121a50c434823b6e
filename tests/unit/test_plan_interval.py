"""How long batches are: by the number of partitions, or as the config says; what a reload keeps."""

from __future__ import annotations

import pytest

from aggregator.config.schema import Config
from aggregator.plan.interval import interval_seconds, keep_interval, with_interval
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
    [(0, 30), (99, 30), (100, 60), (399, 60), (400, 120), (10_000, 120)],
)
def test_the_more_partitions_the_longer_a_batch(partitions: int, seconds: float) -> None:
    assert interval_seconds(config(), partitions) == seconds


def test_what_a_config_names_is_what_holds() -> None:
    assert interval_seconds(config(checkpoint_interval="30s"), 1_000) == 30
    assert interval_seconds(config(checkpoint_interval="7m"), 1) == 420


@pytest.mark.parametrize("trigger", ["microbatch", "available-now"])
def test_micro_batches_end_by_themselves(trigger: str) -> None:
    assert interval_seconds(config(trigger=trigger), 1_000) == 30


def test_an_interval_that_was_found_is_no_difference_to_a_config_that_names_none() -> None:
    running = with_interval(config(), 120.0)
    assert running.stream.checkpoint_interval == 120
    again = keep_interval(config(), running)
    assert again.stream.checkpoint_interval == 120
    assert plan_reload(running, again).keys == ()
    # Found anew it would be by the partitions, as before.
    assert interval_seconds(again, 1) == 30


def test_an_interval_that_is_named_is_taken_over() -> None:
    running = with_interval(config(), 120.0)
    named = keep_interval(config(checkpoint_interval="10s"), running)
    assert named.stream.checkpoint_interval == 10
    assert plan_reload(running, named).every_lane
    no_longer = keep_interval(config(), with_interval(named, 10.0))
    assert no_longer.stream.checkpoint_interval == 30
