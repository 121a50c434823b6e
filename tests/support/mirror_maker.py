"""MirrorMaker 2 itself, from its jars, as a child process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aggregator.datapath.jars import jars, java_command
from aggregator.extras.embedded.broker_settings import LOG4J, render_properties
from aggregator.extras.embedded.processes import GuardedProcess
from support.java_options import QUICK_START

CLASS = "org.apache.kafka.connect.mirror.MirrorMaker"
WORKER = "org.apache.kafka.connect.cli.ConnectStandalone"
GOOD_EXITS = (0, 143)
"""A JVM that ends by SIGTERM, its hooks done, says 143."""
SMALL: Mapping[str, str] = {
    "replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "offset.storage.partitions": "2",
    "status.storage.partitions": "1",
    "emit.heartbeats.enabled": "false",
    "emit.checkpoints.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "refresh.topics.interval.seconds": "5",
}
"""For clusters of one broker each."""


def write_properties(file: Path, settings: Mapping[str, str]) -> Path:
    """A properties file with these settings."""
    file.write_text(render_properties(settings), "utf-8")
    return file


@contextmanager
def mirror_maker(file: Path) -> Iterator[GuardedProcess]:
    """It runs with this file while the block does, and is stopped cleanly at its end."""
    child = _started(CLASS, file)
    try:
        yield child
        assert child.terminate(120), "it does not stop"
        assert child.exit_code in GOOD_EXITS, child.exit_code
    finally:
        if child.alive:
            child.kill()


@contextmanager
def connect_worker(folder: Path, address: str, port: int, connector: Path) -> Iterator[str]:
    """A worker of Kafka Connect with one connector; gives the URL of its REST API.

    It is killed at the end: a clean stop waits a minute for a connector that has just begun.
    """
    settings = {
        "bootstrap.servers": address,
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": str(folder / "offsets"),
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "plugin.discovery": "service_load",
    }
    worker = write_properties(folder / "worker.properties", settings)
    child = _started(WORKER, worker, connector)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        child.kill()


def _started(main: str, *files: Path) -> GuardedProcess:
    log4j = files[0].with_name("log4j2.properties")
    log4j.write_text(LOG4J, "utf-8")
    path = os.pathsep.join(map(str, dict.fromkeys([*jars("mirror"), *jars("broker")])))
    options = ["-Xmx256m", *QUICK_START.split(), f"-Dlog4j2.configurationFile={log4j}"]
    command = [java_command(), *options, "-cp", path, main, *map(str, files)]
    return GuardedProcess(command, files[0].with_name("mirror-maker.log"))
