"""What a run is of, and what every tool under test has in common: clients, heap, how it is asked.

Same heap, acknowledgements, compression, batches, isolation and interval between stored positions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aggregator.config.kafka_settings import DEFAULTS, ENFORCED
from aggregator.datapath.jars import java_command
from aggregator.extras.embedded.broker import Broker
from aggregator.extras.embedded.broker_settings import LOG4J, render_properties
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.plan.lanes.memory import DEFAULT_HEAP
from aggregator.plan.lanes.producer import ZSTD_LEVEL
from bench.spark_master import SparkMaster
from bench.works import Work

BY_SIGTERM = frozenset({0, 143})
"""A JVM that ends by SIGTERM, its hooks done, says 143."""

PRODUCER: Mapping[str, str] = {
    **DEFAULTS["producer"],
    **ENFORCED["producer"],
    # Connect's own default is 1; with idempotence 5 keep the order as well.
    "max.in.flight.requests.per.connection": "5",
}
"""Producers of the others get what this project's producers have."""

CONSUMER: Mapping[str, str] = {
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "max.poll.records": "5000",
    "max.partition.fetch.bytes": "8388608",
    "fetch.max.bytes": "67108864",
    # Not so small that a long line stalls.
    "receive.buffer.bytes": "-1",
}
"""Consumers of the others."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one run copies: a topic of every source (alias -> servers) into the same at the hub."""

    name: str
    topic: str
    sources: Mapping[str, str]
    hub: str
    folder: Path
    work: Work
    brokers: tuple[Broker, ...] = ()
    """Those of all clusters, the hub's last."""
    requests: Callable[[], int] | None = None
    """How many Produce requests the hub has answered so far."""
    master: SparkMaster | None = None
    """Where the tool's tasks run, if not in its own process."""

    @property
    def topics(self) -> tuple[str, ...]:
        """All its topics."""
        return self.work.numbered(self.topic)

    def groups(self, child: GuardedProcess) -> tuple[int, ...]:
        """The process groups of the tool: its own, and those of workers that its tasks run on."""
        beside = self.master.processes if self.master else ()
        return (child.pid, *(it.pid for it in beside))


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: how to start it, how it ends when asked to, whether it keeps partition ids.

    `cutover` is the command that takes groups to the hub; without one, the tool does so itself.
    `workers` are processes of a Spark cluster that is there before it starts.
    """

    name: str
    settings: Callable[[Job], Mapping[str, object]]
    command: Callable[[Job], list[str]]
    good_exits: frozenset[int]
    keeps_partitions: bool = False
    cutover: Callable[[Job, Sequence[str]], list[str]] | None = None
    workers: int = 0

    def hub_partitions(self, work: Work) -> int:
        """The partitions of its hub topic."""
        return work.partitions if self.keeps_partitions else work.hub_partitions


def producer(job: Job) -> dict[str, str]:
    """The producer's settings of the others: this project's, with the level of zstd it has."""
    settings = {**PRODUCER, "compression.type": job.work.compression}
    if job.work.compression == "zstd":
        settings["compression.zstd.level"] = ZSTD_LEVEL
    return settings


def properties(job: Job, name: str, settings: Mapping[str, str]) -> Path:
    """The file of a client's settings, in the folder of the run."""
    file = job.folder / f"{name}.properties"
    file.write_text(render_properties(settings), "utf-8")
    return file


def java(job: Job, files: list[Path]) -> list[str]:
    """Java with the heap that each tool has, and a class path."""
    log4j = job.folder / "log4j2.properties"
    # MirrorMaker ends by its shutdown hook, and its last words are worth having.
    log4j.write_text(LOG4J, "utf-8")
    options = [f"-Xmx{DEFAULT_HEAP}", f"-Dlog4j2.configurationFile={log4j}"]
    return [java_command(), *options, "-cp", os.pathsep.join(map(str, files))]
