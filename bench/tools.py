"""The two tools under test: their settings, and how each is started and stopped.

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

from aggregator.embedded.processes import GuardedProcess
from aggregator.embedded.settings import LOG4J, render_properties
from aggregator.errors import AggregatorError
from aggregator.jars import jars, java_command
from bench.measure import OURS, THEIRS

SOURCE_PARTITIONS = 6
HUB_PARTITIONS = 4
HEAP = "2g"
POSITIONS_SECONDS = 10
STOP_SECONDS = 120.0

BROKER_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")

MIRROR_SETTINGS: Mapping[str, str] = {
    "tasks.max": str(SOURCE_PARTITIONS),
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

MIRROR_HUB: Mapping[str, str] = {
    "offset.flush.interval.ms": str(POSITIONS_SECONDS * 1000),
    "producer.acks": "all",
    "producer.enable.idempotence": "true",
    # Connect's own default is 1; with idempotence 5 keep the order as well.
    "producer.max.in.flight.requests.per.connection": "5",
    "producer.compression.type": "lz4",
    "producer.batch.size": "131072",
    "producer.linger.ms": "5",
    "producer.buffer.memory": "67108864",
    "producer.max.request.size": "33554432",
}
"""Settings of its hub cluster: the producers get what this project's producers have."""

MIRROR_SOURCE: Mapping[str, str] = {
    "consumer.auto.offset.reset": "earliest",
    "consumer.isolation.level": "read_committed",
    "consumer.max.poll.records": "5000",
    "consumer.max.partition.fetch.bytes": "8388608",
    "consumer.fetch.max.bytes": "67108864",
}
"""Settings of each of its source clusters."""


@dataclass(frozen=True, slots=True)
class Job:
    """What one run copies: a topic of every source (alias -> servers) into the same at the hub."""

    name: str
    topic: str
    sources: Mapping[str, str]
    hub: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its hub topic's partition count, how to start it, and how it ends when asked to."""

    name: str
    hub_partitions: int
    settings: Callable[[Job], Mapping[str, object]]
    command: Callable[[Job], list[str]]
    good_exits: frozenset[int]


def ours_settings(job: Job) -> dict[str, object]:
    """The config of this project; what is not here is the default."""
    sources = {
        alias: {"bootstrap_servers": servers, "topics": {"include": job.topic}}
        for alias, servers in job.sources.items()
    }
    return {
        "name": "bench",
        "hub": {"bootstrap_servers": job.hub},
        "sources": sources,
        "topics": {"partitions": HUB_PARTITIONS, "replication_factor": 1, "partition_by": "key"},
        "stream": {"trigger": "realtime", "checkpoint_interval": f"{POSITIONS_SECONDS}s"},
        "checkpoint": {"path": str(job.folder / "state")},
        "spark": {"conf": {"spark.driver.memory": HEAP}},
        "api": {"listen": "off"},
    }


def mirror_settings(job: Job) -> dict[str, str]:
    """The properties of MirrorMaker 2.

    Aliases carry the job's name, so that the internal topics of one run are not those of another.
    """
    aliases = {f"{alias}-{job.name}": servers for alias, servers in job.sources.items()}
    settings = {"clusters": ", ".join([*aliases, "hub"]), "hub.bootstrap.servers": job.hub}
    settings |= MIRROR_SETTINGS
    settings |= {f"hub.{name}": value for name, value in MIRROR_HUB.items()}
    for alias, servers in aliases.items():
        settings[f"{alias}.bootstrap.servers"] = servers
        settings |= {f"{alias}.{name}": value for name, value in MIRROR_SOURCE.items()}
        settings[f"{alias}->hub.enabled"] = "true"
        settings[f"{alias}->hub.topics"] = job.topic
    return settings


def _ours_command(job: Job) -> list[str]:
    file = job.folder / "aggregator.yaml"
    file.write_text(yaml.safe_dump(ours_settings(job)), "utf-8")
    return [sys.executable, "-m", "aggregator", "run", "-c", str(file)]


def _mirror_command(job: Job) -> list[str]:
    file = job.folder / "mirror.properties"
    file.write_text(render_properties(mirror_settings(job)), "utf-8")
    log4j = job.folder / "log4j2.properties"
    # MirrorMaker ends by its shutdown hook, and its last words are worth having.
    log4j.write_text(LOG4J, "utf-8")
    # Both sets have some files: each once, and MirrorMaker's own first.
    files = dict.fromkeys([*jars("mirror"), *jars("broker")])
    options = [f"-Xmx{HEAP}", f"-Dlog4j2.configurationFile={log4j}"]
    class_path = os.pathsep.join(map(str, files))
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    return [java_command(), *options, "-cp", class_path, main, str(file)]


TOOLS = (
    Tool(OURS, HUB_PARTITIONS, ours_settings, _ours_command, frozenset({0})),
    # A JVM that ends by SIGTERM, its hooks done, says 143.
    Tool(THEIRS, SOURCE_PARTITIONS, mirror_settings, _mirror_command, frozenset({0, 143})),
)


@contextmanager
def running(tool: Tool, job: Job) -> Iterator[GuardedProcess]:
    """The tool as a child process while the block runs, stopped by SIGTERM with it.

    AggregatorError when it does not stop, or ends with an unexpected code. Killed when the block
    fails.
    """
    child = GuardedProcess(tool.command(job), job.folder / "tool.log", remove=job.folder)
    try:
        yield child
        if not child.terminate(STOP_SECONDS):
            raise AggregatorError(f"did not stop within {STOP_SECONDS:g} s of SIGTERM")
        if child.exit_code not in tool.good_exits:
            raise AggregatorError(f"ended with code {child.exit_code} after SIGTERM")
    finally:
        if child.alive:
            child.kill()


def described() -> dict[str, Mapping[str, object]]:
    """Every setting of both tools and the brokers, with words in place of addresses and folders."""
    job = Job("RUN", "TOPIC", {"eu": "EU", "us": "US"}, "HUB", Path("FOLDER"))
    described: dict[str, Mapping[str, object]] = {tool.name: tool.settings(job) for tool in TOOLS}
    described[f"{THEIRS} java"] = {"heap": f"-Xmx{HEAP}"}
    described["brokers java"] = {"options": " ".join(BROKER_JAVA)}
    return described
