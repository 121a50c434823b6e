"""Ends a streaming query between two batches, which Spark's own `stop()` cannot do.

`stop()` interrupts the running batch: what it had written by then is unknown, and a restart would
write it twice. A query runs its next batch only while its state is not TERMINATED, so setting that
state, and nothing else, lets the batch finish and report its end. One moment must be avoided:
between a batch's first look at the state and its last one, before its job starts, the query
interrupts itself. So the state is set while a job runs, and `ended_cleanly` tells afterwards.

Between a batch's end and the next one a query asks its sources for their newest offsets. One that
hangs there has nothing unfinished: it is stopped as soon as `is_between_batches` says so.

This is the one place that reaches into Spark's runtime; checked against Spark 4.2.0
(StreamExecution.state, MicroBatchExecution.executeOneBatch and runBatch), and held by tests.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aggregator.stream.scratch import has_ended

POLL_SECONDS = 0.1
HANGS_AFTER_SECONDS = 0.5
"""A query that is between two batches for so long is waiting for a source that does not answer."""
LETTING_GO = "StreamExecution.stopSources("
RUNTIME = "org.apache.spark.sql.execution.streaming.runtime"


def wait_for_job(
    spark: SparkSession,
    query: StreamingQuery,
    scratch: Path,
    timeout_seconds: float,
    tick: Callable[[], None],
    idle_seconds: float | None = None,
) -> bool:
    """Wait until a job of the query is running; False when none is in time, or the query ended.

    Also False when the query hangs between two batches, and, with `idle_seconds`, when by then it
    waits for data: no job is to come. One that is on its way to its first job, which takes seconds
    in a new session, does neither.
    """
    tracker = spark.sparkContext.statusTracker()
    began = between = time.monotonic()
    while query.isActive and time.monotonic() < began + timeout_seconds:
        if not is_between_batches(query, scratch):
            between = time.monotonic()
        elif time.monotonic() > between + HANGS_AFTER_SECONDS:
            return False
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


def wait_for_end(
    query: StreamingQuery, scratch: Path, timeout_seconds: float, tick: Callable[[], None]
) -> bool:
    """Wait until the query's thread has ended; False when it has not in time, or hangs.

    Raises StreamingQueryException when the query failed. `tick` is called between looks.
    """
    # Not awaitTermination: it answers from the state, which end_after_batch has changed already.
    thread = query._jsq.streamingQuery().queryExecutionThread()
    deadline = time.monotonic() + timeout_seconds
    between = time.monotonic()
    while thread.isAlive():
        if not is_between_batches(query, scratch):
            between = time.monotonic()
        elif time.monotonic() > between + HANGS_AFTER_SECONDS:
            return False
        if time.monotonic() > deadline:
            return False
        tick()
        thread.join(round(POLL_SECONDS * 1000))
    error = query.exception()
    if error is not None:
        raise error
    return True


def stop_now(query: StreamingQuery, timeout_seconds: float) -> bool:
    """Interrupt the query; False when it goes on for so long.

    It counts as stopped when it only lets its sources go any more: for that it waits for one that
    hangs, for minutes.
    """
    # In a thread of its own, because Spark's `stop` waits for that as well.
    threading.Thread(target=_stop, args=(query,), name="stop-query", daemon=True).start()
    thread = query._jsq.streamingQuery().queryExecutionThread()
    deadline = time.monotonic() + timeout_seconds
    while thread.isAlive() and not any(
        str(frame).find(LETTING_GO) >= 0 for frame in thread.getStackTrace()
    ):
        if time.monotonic() > deadline:
            return False
        thread.join(round(POLL_SECONDS * 1000))
    return True


def _stop(query: StreamingQuery) -> None:
    # That it takes too long is seen by who waits for the query's thread.
    with contextlib.suppress(Exception):
        query.stop()


def is_between_batches(query: StreamingQuery, scratch: Path) -> bool:
    """Whether the batch that the query is at has ended: what it was to write is written."""
    context = query._jsq.streamingQuery().getLatestExecutionContext()
    return context is not None and has_ended(scratch, context.batchId())


def ended_cleanly(query: StreamingQuery, scratch: Path) -> bool:
    """Whether the last batch that began also ended, once the query's thread is gone."""
    context = query._jsq.streamingQuery().getLatestExecutionContext()
    if context is None or not context.isCurrentBatchConstructed():
        return True
    return has_ended(scratch, context.batchId())
