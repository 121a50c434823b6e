"""Ends a streaming query between two batches, which Spark's own `stop()` cannot do.

`stop()` interrupts the running batch: what it had written by then is unknown, and a restart would
write it twice. A query runs its next batch only while its state is not TERMINATED, so setting that
state, and nothing else, lets the batch finish and report its end. One moment must be avoided:
between a batch's first look at the state and its last one, before its job starts, the query
interrupts itself. So the state is set while a job runs, and `ended_cleanly` tells afterwards.

This is the one place that reaches into Spark's runtime; checked against Spark 4.2.0
(StreamExecution.state, MicroBatchExecution.executeOneBatch and runBatch), and held by tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

POLL_SECONDS = 0.1
RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"


def wait_for_job(
    spark: SparkSession,
    query: StreamingQuery,
    timeout_seconds: float,
    tick: Callable[[], None],
    idle_seconds: float | None = None,
) -> bool:
    """Wait until a job of the query is running; False when none is in time, or the query ended.

    With `idle_seconds`, also False when by then the query waits for data: no job is to come. One
    that is on its way to its first job, which takes seconds in a new session, does not.
    """
    tracker = spark.sparkContext.statusTracker()
    began = time.monotonic()
    while query.isActive and time.monotonic() < began + timeout_seconds:
        for job in tracker.getJobIdsForGroup(str(query.runId)):
            info = tracker.getJobInfo(job)
            if info is not None and info.status == "RUNNING":
                return True
        patient = idle_seconds is None or time.monotonic() < began + idle_seconds
        if not patient and _waits_for_data(query):
            return False
        tick()
        time.sleep(POLL_SECONDS)
    return False


def _waits_for_data(query: StreamingQuery) -> bool:
    """Whether the query is between two looks for data, of which the last one found none."""
    status = query.status
    return not status["isTriggerActive"] and str(status["message"]).startswith("Waiting for")


def end_after_batch(spark: SparkSession, query: StreamingQuery) -> None:
    """Ask the query to start no further batch. Returns at once; the running batch goes on."""
    runtime = spark._jvm
    for package in RUNTIME.split("."):
        runtime = getattr(runtime, package)
    terminated = getattr(getattr(runtime, "TERMINATED$"), "MODULE$")
    query._jsq.streamingQuery().state().set(terminated)


def wait_for_end(query: StreamingQuery, timeout_seconds: float, tick: Callable[[], None]) -> bool:
    """Wait until the query's thread has ended; False when it has not in time.

    Raises StreamingQueryException when the query failed. `tick` is called between looks.
    """
    # Not awaitTermination: it answers from the state, which end_after_batch has changed already.
    thread = query._jsq.streamingQuery().queryExecutionThread()
    deadline = time.monotonic() + timeout_seconds
    while thread.isAlive():
        if time.monotonic() > deadline:
            return False
        tick()
        thread.join(round(POLL_SECONDS * 1000))
    error = query.exception()
    if error is not None:
        raise error
    return True


def ended_cleanly(query: StreamingQuery) -> bool:
    """Whether the last batch that began also reported its end, once the query's thread is gone."""
    context = query._jsq.streamingQuery().getLatestExecutionContext()
    if not context.isCurrentBatchConstructed():
        return True
    progress = query.lastProgress
    return progress is not None and progress.batchId == context.batchId()
