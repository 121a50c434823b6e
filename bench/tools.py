"""The tools under test: their settings, and how each is started and stopped.

Same heap, acknowledgements, compression, batches, isolation and interval between stored positions.
This project runs with its defaults otherwise; MirrorMaker 2 is tuned as its documentation allows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from aggregator.config.kafka_settings import DEFAULTS, ENFORCED
from aggregator.config.schema import Config
from aggregator.datapath.jars import jars, java_command
from aggregator.extras.embedded.broker_settings import LOG4J, render_properties
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.model.errors import AggregatorError
from aggregator.plan.lanes.memory import DEFAULT_HEAP, HEAP
from bench.measure import LOOP, LOOP_ORIGIN, OURS, THEIRS, THEIRS_DEFAULTS, THEIRS_EXACTLY
from bench.works import Work

STOP_SECONDS = 300.0
MOST_TASKS = 8
"""MirrorMaker 2 gets a task per source partition, but for each source no more than these."""

BROKER_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
BROKER_CONFIG: Mapping[str, str] = {
    # The hub's topic of one run is gone before that of the next is filled.
    "log.segment.delete.delay.ms": "1000",
}

MIRROR_SETTINGS: Mapping[str, str] = {
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "replication.factor": "1",
    # Nothing beside the copying of records.
    "refresh.topics.enabled": "false",
    "refresh.groups.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.group.offsets.enabled": "false",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    # One broker in each cluster, and few positions to keep.
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
}
"""Settings of MirrorMaker 2 as a whole."""

EXACTLY_ONCE: Mapping[str, str] = {
    "hub.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}
"""What its documentation asks for in addition, for exactly-once support."""

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
    # Not so small that a long line stands still.
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


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: how to start it, how it ends when asked to, whether it keeps partition ids."""

    name: str
    settings: Callable[[Job], Mapping[str, object]]
    command: Callable[[Job], list[str]]
    good_exits: frozenset[int]
    keeps_partitions: bool = False

    def hub_partitions(self, work: Work) -> int:
        """The partitions of its hub topic."""
        return work.partitions if self.keeps_partitions else work.hub_partitions


def ours_settings(job: Job) -> dict[str, object]:
    """The config of this project; what is not here is the default."""
    sources = {
        alias: {"bootstrap_servers": servers, "topics": {"include": job.topic}}
        for alias, servers in job.sources.items()
    }
    return {
        "name": "bench",
        "hub": {
            "bootstrap_servers": job.hub,
            "producer": {"compression.type": job.work.compression},
        },
        "sources": sources,
        "topics": {
            "partitions": job.work.hub_partitions,
            "replication_factor": 1,
            "partition_by": "key",
        },
        "checkpoint": {"path": str(job.folder / "state")},
        "spark": {"conf": {HEAP: DEFAULT_HEAP}},
        "api": {"listen": "off"},
    }


def positions_seconds(job: Job) -> float:
    """How often this project stores positions by itself."""
    return Config.model_validate(ours_settings(job)).stream.checkpoint_interval


def mirror_settings(job: Job, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The properties of MirrorMaker 2, tuned."""
    settings = default_settings(job)
    settings["tasks.max"] = str(min(job.work.partitions, MOST_TASKS))
    settings["hub.offset.flush.interval.ms"] = f"{positions_seconds(job) * 1000:.0f}"
    settings |= {f"hub.producer.{name}": value for name, value in _producer(job).items()}
    for alias in _mirror_aliases(job):
        settings |= {f"{alias}.consumer.{name}": value for name, value in CONSUMER.items()}
    return settings | dict(extra or {})


def exactly_once_settings(job: Job) -> dict[str, str]:
    """The same with exactly-once support."""
    return mirror_settings(job, EXACTLY_ONCE)


def default_settings(job: Job) -> dict[str, str]:
    """MirrorMaker 2 as it comes: one task a source, its own producers and consumers.

    Only compression, acknowledgements and where to start are as for the others.
    """
    aliases = _mirror_aliases(job)
    settings = {"clusters": ", ".join([*aliases, "hub"]), "hub.bootstrap.servers": job.hub}
    settings |= MIRROR_SETTINGS
    settings["hub.producer.compression.type"] = job.work.compression
    settings["hub.producer.acks"] = "all"
    for alias, servers in aliases.items():
        settings[f"{alias}.bootstrap.servers"] = servers
        settings[f"{alias}.consumer.auto.offset.reset"] = "earliest"
        settings[f"{alias}->hub.enabled"] = "true"
        settings[f"{alias}->hub.topics"] = job.topic
    return settings


def _mirror_aliases(job: Job) -> dict[str, str]:
    """With the job's name, so that the internal topics of one run are not those of another."""
    return {f"{alias}-{job.name}": servers for alias, servers in job.sources.items()}


def loop_settings(job: Job) -> dict[str, object]:
    """The producer's and the consumers' properties of the plain loop."""
    return {"producer": _producer(job), "consumer": dict(CONSUMER)}


def _producer(job: Job) -> dict[str, str]:
    return {**PRODUCER, "compression.type": job.work.compression}


def _ours_command(job: Job) -> list[str]:
    file = job.folder / "aggregator.yaml"
    file.write_text(yaml.safe_dump(ours_settings(job)), "utf-8")
    return [sys.executable, "-m", "aggregator", "run", "-c", str(file)]


def _mirror(job: Job, settings: Mapping[str, str]) -> list[str]:
    file = job.folder / "mirror.properties"
    file.write_text(render_properties(settings), "utf-8")
    # Both sets have some files: each once, and MirrorMaker's own first.
    files = dict.fromkeys([*jars("mirror"), *jars("broker")])
    return [*_java(job, list(files)), "org.apache.kafka.connect.mirror.MirrorMaker", str(file)]


def _loop_command(job: Job, *options: str) -> list[str]:
    def written(name: str, settings: Mapping[str, str]) -> str:
        file = job.folder / f"{name}.properties"
        file.write_text(render_properties(settings), "utf-8")
        return str(file)

    files = [written("producer", {**_producer(job), "bootstrap.servers": job.hub})]
    for alias, servers in job.sources.items():
        files.append(written(alias, {**CONSUMER, "bootstrap.servers": servers}))
    source = Path(__file__).with_name("Loop.java")
    return [*_java(job, jars("broker")), str(source), *options, job.topic, *files]


def _loop_origin_command(job: Job) -> list[str]:
    return _loop_command(job, "--origin")


def _java(job: Job, files: list[Path]) -> list[str]:
    log4j = job.folder / "log4j2.properties"
    # MirrorMaker ends by its shutdown hook, and its last words are worth having.
    log4j.write_text(LOG4J, "utf-8")
    options = [f"-Xmx{DEFAULT_HEAP}", f"-Dlog4j2.configurationFile={log4j}"]
    return [java_command(), *options, "-cp", os.pathsep.join(map(str, files))]


BY_SIGTERM = frozenset({0, 143})
"""A JVM that ends by SIGTERM, its hooks done, says 143."""


def _mirror_tool(name: str, settings: Callable[[Job], Mapping[str, str]]) -> Tool:
    def command(job: Job) -> list[str]:
        return _mirror(job, settings(job))

    return Tool(name, settings, command, BY_SIGTERM, keeps_partitions=True)


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(OURS, ours_settings, _ours_command, frozenset({0})),
        _mirror_tool(THEIRS, mirror_settings),
        _mirror_tool(THEIRS_EXACTLY, exactly_once_settings),
        _mirror_tool(THEIRS_DEFAULTS, default_settings),
        Tool(LOOP, loop_settings, _loop_command, BY_SIGTERM),
        Tool(LOOP_ORIGIN, loop_settings, _loop_origin_command, BY_SIGTERM),
    )
}


def start(tool: Tool, job: Job) -> GuardedProcess:
    """Start the tool as a child process, which does not outlive this one."""
    return GuardedProcess(tool.command(job), job.folder / "tool.log", remove=job.folder)


@contextmanager
def running(tool: Tool, job: Job) -> Iterator[GuardedProcess]:
    """The tool as a child process while the block runs, stopped by SIGTERM with it.

    AggregatorError when it does not stop, or ends with an unexpected code. Killed when the block
    fails.
    """
    child = start(tool, job)
    try:
        yield child
        stop(tool, child)
    finally:
        if child.alive:
            child.kill()


def stop(tool: Tool, child: GuardedProcess) -> None:
    """SIGTERM; AggregatorError when it does not end, or with an unexpected code."""
    if not child.terminate(STOP_SECONDS):
        raise AggregatorError(f"did not stop within {STOP_SECONDS:g} s of SIGTERM")
    if child.exit_code not in tool.good_exits:
        raise AggregatorError(f"ended with code {child.exit_code} after SIGTERM")


def described(work: Work) -> dict[str, Mapping[str, object]]:
    """Every setting of a work's tools and brokers, with words in place of addresses and folders."""
    sources = {alias: f"{alias.upper()}:9092" for alias in work.aliases}
    job = Job("RUN", "TOPIC", sources, "HUB:9092", Path("FOLDER"), work)
    described: dict[str, Mapping[str, object]] = {
        name: TOOLS[name].settings(job) for name in work.tools
    }
    described["heap"] = {"of each tool's JVM": f"-Xmx{DEFAULT_HEAP}"}
    described["brokers"] = {"java": " ".join(BROKER_JAVA), **BROKER_CONFIG}
    return described
