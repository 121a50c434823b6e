"""The executors of an application on a standalone Spark master that is started for a test."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.spark_master import SparkMaster, WorkerSize, spark_master
from support.java_options import QUICK_START
from support.processes import Process, processes
from support.reading import wait_for

EXECUTOR = "CoarseGrainedExecutorBackend"


@dataclass
class Workers:
    """The workers of a running master."""

    master: SparkMaster
    folder: Path

    @property
    def url(self) -> str:
        """For `spark.master`."""
        return self.master.url

    def executors(self) -> list[int]:
        """Process ids of the newest application's executors that are there, oldest first.

        Those of one that was killed live on for a moment, or for long on a busy machine.
        """
        parents = {process.pid for process in self.master.processes}
        found = [it for it in processes() if it.parent in parents and EXECUTOR in it.command]
        newest = max(map(_application, found), default="")
        return sorted(it.pid for it in found if _application(it) == newest)

    def logged(self, words: str) -> int:
        """How often the executors of all applications have logged this."""
        logs = self.folder.glob("work-*/app-*/*/stderr")
        return sum(it.read_text("utf-8", "replace").count(words) for it in logs)

    def kill_executor(self) -> int:
        """kill -9 of the oldest of them that reads or writes; its process id.

        On a busy machine all tasks may have begun in the one that was there first, and the end
        of another may go unnoticed. AssertionError when none comes.
        """
        found = wait_for(
            lambda: [pid for pid in self.executors() if _has_tasks(pid)], "an executor with tasks"
        )
        os.kill(found[0], signal.SIGKILL)
        return found[0]


def _has_tasks(executor: int) -> bool:
    """Whether a task of a lane runs there: it has a producer, whose thread has its name."""
    try:
        tasks = [*Path(f"/proc/{executor}/task").iterdir()]
        return any((it / "comm").read_text().startswith("kafka-producer") for it in tasks)
    except OSError:  # it, or a thread of it, has just ended
        return False


def _application(executor: Process) -> str:
    """Its id, which grows with the time at which it was begun."""
    found = re.search(r"--app-id (\S+)", executor.command)
    return found[1] if found else ""


@contextmanager
def spark_workers(folder: Path, count: int = 2, cores: int = 8) -> Iterator[Workers]:
    """A master and `count` workers of `cores` cores each, which end with the block."""
    with spark_master(folder, count, WorkerSize(cores), QUICK_START) as made:
        yield Workers(made, folder)
