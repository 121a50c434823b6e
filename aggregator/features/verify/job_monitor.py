"""Monitors a Spark job: reports its progress, and cancels it when asked to stop."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

LOOK_SECONDS = 0.5
REPORT_SECONDS = 10.0


@contextmanager
def watched(
    spark: SparkSession, what: str, stop: threading.Event, progress: Callable[[str], None]
) -> Iterator[None]:
    """While the block runs Spark jobs from this thread, report their progress every ten seconds.

    When `stop` is set they are cancelled: the block then gets the error of a failed job.
    """
    context = spark.sparkContext
    group = f"verify-{uuid.uuid4().hex}"
    context.setJobGroup(group, what, interruptOnCancel=True)
    over = threading.Event()

    def watch() -> None:
        report_at = time.monotonic() + REPORT_SECONDS
        while not over.wait(LOOK_SECONDS):
            if stop.is_set():
                # Again and again: one job may begin while another is cancelled.
                context.cancelJobGroup(group)
            elif time.monotonic() >= report_at:
                report_at = time.monotonic() + REPORT_SECONDS
                progress(f"{what}: {_tasks(spark, group)}")

    thread = threading.Thread(target=watch, name="verify-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _tasks(spark: SparkSession, group: str) -> str:
    tracker = spark.sparkContext.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in info.stageIds if info is not None else ():
            found = tracker.getStageInfo(stage)
            if found is not None:
                done, total = done + found.numCompletedTasks, total + found.numTasks
    return f"{done} of {total} tasks are done"
