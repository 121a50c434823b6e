"""The warning of a heap that is too small for the partitions."""

from __future__ import annotations

import pytest

from aggregator.config import load_text
from aggregator.plan.memory import heap_bytes, memory_warnings

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
)


@pytest.mark.parametrize(
    ("sets", "partitions"),
    [
        ((), 1024),
        (("spark.conf.spark.driver.memory=4g",), 2048),
        (("spark.conf.spark.driver.memory=4096",), 2048),
        # Where tasks run elsewhere this heap says nothing.
        (("spark.master=spark://master:7077",), 100_000),
        # Spark itself says what is wrong with it.
        (("spark.conf.spark.driver.memory=plenty",), 100_000),
    ],
)
def test_enough(sets: tuple[str, ...], partitions: int) -> None:
    assert memory_warnings(load_text("", [*SETS, *sets]), partitions) == ()


@pytest.mark.parametrize(
    ("sets", "partitions", "fix"),
    [
        ((), 1025, "spark.conf.spark.driver.memory: 4g"),
        ((), 2000, "spark.conf.spark.driver.memory: 5g"),
        (("spark.conf.spark.driver.memory=1024m",), 400, "spark.conf.spark.driver.memory: 2g"),
        (("spark.master=local[64]", "spark.conf.spark.driver.memory=1g"), 400, "memory: 2g"),
    ],
)
def test_too_little_names_what_is_enough(sets: tuple[str, ...], partitions: int, fix: str) -> None:
    config = load_text("", [*SETS, *sets])
    (warning,) = memory_warnings(config, partitions)
    assert f"for {partitions} source partitions" in warning
    assert warning.endswith(fix)
    better = f"spark.conf.spark.driver.memory={fix.rpartition(' ')[2]}"
    assert memory_warnings(load_text("", [*SETS, *sets, better]), partitions) == ()


@pytest.mark.parametrize(
    ("text", "size"),
    [("2g", 2**31), ("2GB", 2**31), ("512m", 2**29), ("512", 2**29), ("1t", 2**40), ("x", None)],
)
def test_sizes_are_read_as_spark_does(text: str, size: int | None) -> None:
    assert heap_bytes(text) == size
