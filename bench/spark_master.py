"""Runs a standalone Spark master with workers of its own, from the jars that pyspark holds."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from aggregator.datapath.jars import java_home
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.waiting import wait_until

HOST = "127.0.0.1"
DEPLOY = "org.apache.spark.deploy"
START_SECONDS = 60.0
END_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class WorkerSize:
    """What each worker offers: `cores` are threads, and `memory` is as Java writes it."""

    cores: int = 8
    memory: str = "1g"


@dataclass
class SparkMaster:
    """A running master; `url` is for `spark.master`, and the processes are its and the workers'."""

    url: str
    java_options: str = ""
    processes: list[GuardedProcess] = field(default_factory=list)

    def end(self) -> None:
        """Kill workers, executors and master."""
        for process in reversed(self.processes):
            # An executor is in the group of its worker.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(END_SECONDS)

    def start(self, log: Path, name: str, *arguments: str) -> GuardedProcess:
        """Start a class of Spark's `deploy` package, and end it with the others."""
        home = Path(pyspark.__file__).parent
        # `env` and `spark-class` become Java, so the pid is that of the JVM.
        command = [
            *("env", f"JAVA_HOME={java_home()}", f"SPARK_HOME={home}", f"SPARK_LOCAL_IP={HOST}"),
            *("SPARK_DAEMON_MEMORY=256m", f"SPARK_DAEMON_JAVA_OPTS={self.java_options}"),
            # They are killed, and what they leave otherwise is in `/tmp`, whatever TMPDIR says.
            f"SPARK_LOCAL_DIRS={log.absolute().parent}",
            *(str(home / "bin" / "spark-class"), f"{DEPLOY}.{name}", *arguments),
        ]
        process = GuardedProcess(command, log)
        self.processes.append(process)
        return process


@contextmanager
def spark_master(
    folder: Path, workers: int, size: WorkerSize = WorkerSize(), java_options: str = ""
) -> Iterator[SparkMaster]:
    """A master and its workers, which end with the block; logs and work are in `folder`.

    `java_options` are of these processes, not of executors. ClusterError when one does not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, *pages = free_ports(2 + workers)
    made = SparkMaster(f"spark://{HOST}:{port}", java_options)
    at = ("--host", HOST, "--port", str(port), "--webui-port", str(pages[0]))
    try:
        master = made.start(folder / "master.log", "master.Master", *at)
        wait_until(
            lambda: "Starting Spark master" in master.log_tail(100),
            seconds=START_SECONDS,
            what="a Spark master",
        )
        for number in range(workers):
            offer = ("--host", HOST, "--cores", str(size.cores), "--memory", size.memory)
            places = ("--webui-port", str(pages[1 + number]), "--work-dir")
            work = str(folder / f"work-{number}")
            log = folder / f"worker-{number}.log"
            made.start(log, "worker.Worker", *offer, *places, work, made.url)
        wait_until(
            lambda: master.log_tail(200).count("Registering worker") == workers,
            seconds=START_SECONDS,
            what=f"{workers} Spark workers",
        )
        yield made
    finally:
        made.end()
