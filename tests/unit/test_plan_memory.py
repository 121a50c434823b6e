"""What the clients of a task may hold: together a share of the heap, each enough to work with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config import load_text
from aggregator.plan.lanes.memory import (
    LEAST_FETCH,
    MIB,
    MOST_BUFFER,
    MOST_FETCH,
    SHARE,
    buffer_memory,
    fetch_sizes,
    heap_bytes,
    heap_of,
)

GIB = 2**30
SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
)


@pytest.mark.parametrize(
    ("heap", "tasks", "fetch", "partition"),
    [
        # Kafka's own default is the most.
        (2 * GIB, 1, 50 * MIB, 8 * MIB),
        (2 * GIB, 10, 50 * MIB, 8 * MIB),
        (2 * GIB, 16, 32 * MIB, 8 * MIB),
        (2 * GIB, 64, 8 * MIB, 2 * MIB),
        (2 * GIB, 128, 4 * MIB, MIB),
        (2 * GIB, 10_000, 2 * MIB, MIB),
        (2 * GIB, 0, 50 * MIB, 8 * MIB),
    ],
)
def test_the_more_tasks_share_a_heap_the_less_each_fetches(
    heap: int, tasks: int, fetch: int, partition: int
) -> None:
    assert fetch_sizes(heap, tasks) == {
        "fetch.max.bytes": str(fetch),
        "max.partition.fetch.bytes": str(partition),
    }


@pytest.mark.parametrize(
    ("heap", "tasks", "least", "buffer"),
    [
        (2 * GIB, 1, MIB, 64 * MIB),
        (2 * GIB, 8, MIB, 64 * MIB),
        (2 * GIB, 16, MIB, 32 * MIB),
        # A record has to fit, whatever there is.
        (2 * GIB, 16, 40 * MIB, 40 * MIB),
        (2 * GIB, 1, 400 * MIB, 400 * MIB),
        (2 * GIB, 0, MIB, 64 * MIB),
    ],
)
def test_a_producer_buffers_its_share_and_at_least_a_record(
    heap: int, tasks: int, least: int, buffer: int
) -> None:
    assert buffer_memory(heap, tasks, least) == buffer


@given(st.integers(256 * MIB, 64 * GIB), st.integers(1, 2_000))
def test_all_together_hold_a_share_of_the_heap_unless_each_has_the_least(
    heap: int, tasks: int
) -> None:
    fetch = int(fetch_sizes(heap, tasks)["fetch.max.bytes"])
    assert LEAST_FETCH <= fetch <= MOST_FETCH
    assert fetch * tasks <= heap / SHARE or fetch == LEAST_FETCH
    buffer = buffer_memory(heap, tasks, 0)
    assert buffer <= MOST_BUFFER
    assert buffer * tasks <= heap / SHARE


@pytest.mark.parametrize(
    ("text", "size"),
    [("2g", 2**31), ("2GB", 2**31), ("512m", 2**29), ("512", 2**29), ("1t", 2**40), ("x", None)],
)
def test_sizes_are_read_as_spark_does(text: str, size: int | None) -> None:
    assert heap_bytes(text) == size


@pytest.mark.parametrize(
    ("conf", "local", "size"),
    [
        ({}, True, 2 * GIB),
        # Spark's own default of an executor.
        ({}, False, GIB),
        ({"spark.driver.memory": "4g", "spark.executor.memory": "1g"}, True, 4 * GIB),
        ({"spark.driver.memory": "4g", "spark.executor.memory": "1g"}, False, GIB),
        # Spark itself says what is wrong with it.
        ({"spark.driver.memory": "plenty"}, True, 2 * GIB),
    ],
)
def test_the_heap_is_that_of_the_process_in_which_tasks_run(
    conf: dict[str, str], local: bool, size: int
) -> None:
    assert heap_of(conf, local=local) == size
    given = load_text("", [*SETS, *(f"spark.conf.{name}={it}" for name, it in conf.items())])
    assert heap_of(given.spark.conf, local=local) == size
