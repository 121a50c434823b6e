"""The clusters of one work, and for each run a topic at the hub and a folder of its own."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from aggregator.extras.embedded.broker_settings import HERE, Hosts
from aggregator.extras.embedded.cluster import EmbeddedCluster, start_clusters
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.topics import create_topic, delete_topic
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import AggregatorError
from bench.groups import commit, log_ends, planned
from bench.hub_log import Requests
from bench.job import Job, Tool
from bench.load import Values, preload
from bench.ours import EXECUTOR_CORES
from bench.spark_master import WorkerSize, spark_master
from bench.tools import BROKER_CONFIG, BROKER_JAVA
from bench.works import Work

HUB = "hub"
POLL_SECONDS = 0.1
START_SECONDS = 180.0
LINE_SECONDS = 30.0
FAR = Hosts("10.213.77.1", "10.213.77.2")
"""Both ends of a long line, in a private network that this machine has no other device for."""
STALL_SECONDS = 120.0
"""This long without one more record in the hub, after the first: the run has failed."""

WORKER = WorkerSize(EXECUTOR_CORES, "3g")
"""Room for one executor: Spark adds to its heap what Java needs beside it."""

STAMPED = {"message.timestamp.type": "LogAppendTime"}

Progress = Callable[[str], None]


class RunFailedError(AggregatorError):
    """A run did not do what it should; the text goes into the result, so it names no paths."""


class Bed:
    """Sources and hub of a work; a context manager that leaves nothing behind.

    What the tools copy is written once, for all runs. Records that flow come into a topic that no
    other run has.
    """

    def __init__(self, work: Work, progress: Progress) -> None:
        self.work = work
        self.values = Values(work.size, work.values)
        self._progress = progress
        self.requests = Requests()
        self._clusters = {
            name: EmbeddedCluster(
                name,
                java_options=(*BROKER_JAVA, *(self.requests.java_options if name == HUB else ())),
                config=BROKER_CONFIG,
                hosts=FAR if work.delay_ms and name == work.aliases[0] else HERE,
            )
            for name in (*work.aliases, HUB)
        }
        self._exit = ExitStack()
        self._number = 0

    def __enter__(self) -> Bed:
        self._progress(f"starting {self.work.sources} sources and a hub")
        try:
            if self.work.delay_ms:
                self._draw_line()
            for cluster in self._clusters.values():
                self._exit.callback(cluster.stop)
            start_clusters(list(self._clusters.values()))
            if self.work.kind.preloads:
                self._preload()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @contextmanager
    def job(self, tool: Tool) -> Iterator[Job]:
        """Topics and a folder for one run; what is of this run alone is gone with the block."""
        self._number += 1
        kept = self.work.kind.preloads
        topic = self._topic if kept else f"bench-{self._number}"
        servers = {name: it.bootstrap_servers for name, it in self._clusters.items()}
        hub = servers.pop(HUB)
        with ExitStack() as undo:
            for where in () if kept else servers.values():
                # The time that counts begins when the source has a record, not in who writes it.
                create_topic(where, topic, partitions=self.work.partitions, config=STAMPED)
                undo.callback(delete_topic, where, topic)
            for name in self.work.numbered(topic):
                create_topic(hub, name, partitions=tool.hub_partitions(self.work))
                undo.callback(delete_topic, hub, name)
            folder = Path(tempfile.mkdtemp(prefix="aggregator-bench-"))
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            brokers = tuple(it for each in self._clusters.values() for it in each.brokers)
            master = None
            if tool.workers:
                master = undo.enter_context(spark_master(folder / "spark", tool.workers, WORKER))
            yield Job(
                name=f"run{self._number}",
                topic=topic,
                sources=servers,
                hub=hub,
                folder=folder,
                work=self.work,
                brokers=brokers,
                requests=self.requests.count,
                master=master,
            )

    def _draw_line(self) -> None:
        """A long line, for the first source to listen at its end. RunFailedError if refused."""
        folder = Path(tempfile.mkdtemp(prefix="aggregator-bench-"))
        self._exit.callback(shutil.rmtree, folder, ignore_errors=True)
        command = [sys.executable, "-m", "bench.line", FAR.own, str(self.work.delay_ms)]
        line = GuardedProcess(command, folder / "line.log", remove=folder)
        self._exit.callback(line.kill)

        def drawn() -> bool:
            if not line.alive:
                raise RunFailedError(line.log_tail(1))
            with socket.socket() as probe, suppress(OSError):
                probe.bind((FAR.own, 0))
                return True
            return False

        wait_until(drawn, seconds=LINE_SECONDS, what="the long line is there")

    def _preload(self) -> None:
        self._progress(f"writing {self.work.records:,} records into each source")
        # Not by the long line: the records must be there.
        servers = {name: self._clusters[name].admin_servers for name in self.work.aliases}
        topics = self.work.numbered(self._topic)
        for number, topic in enumerate(topics):
            for where in servers.values():
                create_topic(where, topic, partitions=self.work.partitions)
            named = {self.work.numbered(alias)[number]: at for alias, at in servers.items()}
            records = self.work.records_of_topic
            preload(named, topic, records, self.values, self.work.compression)
        if self.work.groups:
            for where in servers.values():
                commit(where, planned(log_ends(where, topics), self.work.groups))

    @property
    def _topic(self) -> str:
        return f"bench-{self.work.name}"


def check_alive(child: GuardedProcess) -> None:
    """RunFailedError when the tool has ended."""
    code = child.exit_code
    if code is not None:
        raise RunFailedError(f"ended by itself with code {code}")


def let_work(child: GuardedProcess, seconds: float) -> None:
    """Let the tool work for this long; RunFailedError as soon as it ends."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        check_alive(child)
        time.sleep(min(left, 0.5))


def wait_for(
    child: GuardedProcess,
    done: Callable[[], bool],
    seconds: float,
    problem: str,
    poll: float = POLL_SECONDS,
) -> None:
    """Wait for the tool to have done something; RunFailedError when it ends or is late."""
    deadline = time.monotonic() + seconds
    while not done():
        check_alive(child)
        if time.monotonic() > deadline:
            raise RunFailedError(f"{problem} within {seconds:g} s")
        time.sleep(poll)
