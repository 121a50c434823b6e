"""The write guard in the driver's JVM, asked as a producer asks its interceptor: per record."""

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

from aggregator.checkpoint.process import life_of, started_of
from aggregator.plan.lease import Life
from aggregator.stream.guard import Guard, shares_jvm


@pytest.fixture
def send(spark: SparkSession) -> Iterator[Callable[[], Any]]:
    """Hands a record to the interceptor, as KafkaProducer.send does, and gives back its answer."""
    jvm: Any = spark._jvm
    interceptor = jvm.aggregator.OriginTimestampInterceptor()
    record = jvm.org.apache.kafka.clients.producer.ProducerRecord("orders", "value")
    yield lambda: interceptor.onSend(record)
    Guard(spark).free("no such file")


def in_ms(seconds: float) -> int:
    return round((time.time() + seconds) * 1000)


def test_without_a_lease_records_pass(send: Callable[[], Any]) -> None:
    assert send().value() == "value"


def test_records_wait_for_the_lease_to_be_renewed(
    spark: SparkSession, send: Callable[[], Any]
) -> None:
    guard = Guard(spark)
    guard.until(in_ms(-1))
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[Any] = pool.submit(send)
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        guard.until(in_ms(600))
        assert waiting.result(30).value() == "value"


def test_records_of_a_fenced_writer_are_refused(
    spark: SparkSession, send: Callable[[], Any]
) -> None:
    """With an Error: KafkaProducer goes on when an interceptor throws an Exception."""
    guard = Guard(spark)
    guard.until(in_ms(-1))
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[Any] = pool.submit(send)
        guard.until(-1)
        with pytest.raises(Py4JJavaError, match=r"java.lang.Error: refused: another instance"):
            waiting.result(30)
    with pytest.raises(Py4JJavaError, match=r"java.lang.Error: refused: another instance"):
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


def test_where_tasks_run_in_the_drivers_jvm() -> None:
    assert all(map(shares_jvm, ("local", "local[4]", "local[*]", "local[2,4]")))
    assert not any(
        map(shares_jvm, ("local-cluster[2,8,1024]", "yarn", "spark://x:7077", "k8s://x"))
    )
