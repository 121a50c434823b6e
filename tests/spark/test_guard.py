"""The write guard in the driver's JVM, asked as the task of a lane asks it: before each record."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from aggregator.datapath.spark.write_guard import Guard
from aggregator.plan.lease import Life
from aggregator.store.lease.process import life_of, started_of

REFUSED = r"IllegalStateException: refused: another instance writes in place of this one"


@pytest.fixture
def send(spark: SparkSession) -> Iterator[Callable[[], None]]:
    """Asks whether a record may be sent, and returns when it may."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    guard = loader.loadClass("aggregator.connector.WriteGuard")
    none = gateway.new_array(jvm.java.lang.Class, 0)
    asked = guard.getDeclaredMethod("await", none)
    asked.setAccessible(True)
    nothing = gateway.new_array(jvm.java.lang.Object, 0)
    yield lambda: asked.invoke(None, nothing)
    Guard(spark).free("no such file")


def in_ms(seconds: float) -> int:
    return round((time.time() + seconds) * 1000)


def test_without_a_lease_records_pass(send: Callable[[], None]) -> None:
    send()


def test_records_wait_for_the_lease_to_be_renewed(
    spark: SparkSession, send: Callable[[], None]
) -> None:
    guard = Guard(spark)
    guard.until(in_ms(-1), 0)
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[None] = pool.submit(send)
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        guard.until(in_ms(600), 600_000)
        waiting.result(30)


def test_records_of_a_fenced_writer_are_refused(
    spark: SparkSession, send: Callable[[], None]
) -> None:
    guard = Guard(spark)
    guard.until(in_ms(-1), 0)
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[None] = pool.submit(send)
        guard.until(-1, 0)
        with pytest.raises(Py4JJavaError, match=REFUSED):
            waiting.result(30)
    with pytest.raises(Py4JJavaError, match=REFUSED):
        send()


def test_one_that_gives_its_lock_back_leaves_no_lease_behind(
    spark: SparkSession, send: Callable[[], None]
) -> None:
    guard = Guard(spark)
    guard.until(-1, 0)
    guard.free("no such file")
    send()


def test_the_jvm_holds_a_lock_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    guard = Guard(spark)
    file = tmp_path / "jvm.lock"
    assert guard.hold(str(file))
    assert guard.hold(str(file))
    with file.open("r+") as other:
        with pytest.raises(BlockingIOError):
            fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        guard.free(str(file))
        guard.free(str(file))
        fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not guard.hold(str(file))
    assert guard.hold(str(file))
    guard.free(str(file))


def test_the_jvm_is_known_as_a_process(spark: SparkSession) -> None:
    pid = Guard(spark).process
    assert life_of(pid, started_of(pid)) is Life.RUNS
