"""A standalone Spark master with workers of its own, started from the jars that pyspark holds."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from aggregator.datapath.jars import java_home
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from support.java_options import QUICK_START
from support.processes import Process, processes
from support.reading import wait_for

HOST = "127.0.0.1"
EXECUTOR = "CoarseGrainedExecutorBackend"
DEPLOY = "org.apache.spark.deploy"


@dataclass
class Workers:
    """A running master; `url` is what `spark.master` is to be."""

    url: str
    processes: list[GuardedProcess] = field(default_factory=list)

    def executors(self) -> list[int]:
        """Process ids of the newest application's executors that are there, oldest first.

        Those of one that was killed live on for a moment, or for long on a busy machine.
        """
        parents = {process.pid for process in self.processes}
        found = [it for it in processes() if it.parent in parents and EXECUTOR in it.command]
        newest = max(map(_application, found), default="")
        return sorted(it.pid for it in found if _application(it) == newest)

    def kill_executor(self) -> int:
        """kill -9 of the oldest of them that reads or writes; its process id.

        On a busy machine all tasks may have begun in the one that was there first, and of the end
        of another nobody needs to take notice. AssertionError when none comes.
        """
        found = wait_for(
            lambda: [pid for pid in self.executors() if _has_tasks(pid)], "an executor with tasks"
        )
        os.kill(found[0], signal.SIGKILL)
        return found[0]

    def end(self) -> None:
        """Leave nothing: workers and executors at once."""
        for process in reversed(self.processes):
            # An executor is in the group of its worker.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


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
    """A master and so many workers of so many cores, gone with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    port, *pages = free_ports(2 + count)
    made = Workers(f"spark://{HOST}:{port}")
    try:
        _start(
            made,
            folder / "master.log",
            "master.Master",
            "--host",
            HOST,
            "--port",
            str(port),
            "--webui-port",
            str(pages[0]),
        )
        wait_for(
            lambda: "Starting Spark master" in made.processes[0].log_tail(100), "a Spark master"
        )
        for number in range(count):
            _start(
                made,
                folder / f"worker-{number}.log",
                "worker.Worker",
                "--host",
                HOST,
                "--cores",
                str(cores),
                "--memory",
                "1g",
                "--webui-port",
                str(pages[1 + number]),
                "--work-dir",
                str(folder / f"work-{number}"),
                made.url,
            )
        wait_for(
            lambda: made.processes[0].log_tail(200).count("Registering worker") == count,
            f"{count} Spark workers",
        )
        yield made
    finally:
        made.end()


def _start(made: Workers, log: Path, name: str, *arguments: str) -> None:
    home = Path(pyspark.__file__).parent
    # `env` and `spark-class` become Java, so the pid is that of the JVM.
    command = [
        *("env", f"JAVA_HOME={java_home()}", f"SPARK_HOME={home}", f"SPARK_LOCAL_IP={HOST}"),
        *("SPARK_DAEMON_MEMORY=256m", f"SPARK_DAEMON_JAVA_OPTS={QUICK_START}"),
        *(str(home / "bin" / "spark-class"), f"{DEPLOY}.{name}", *arguments),
    ]
    made.processes.append(GuardedProcess(command, log))
