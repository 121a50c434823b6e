"""Reads hub partitions for scans where batches are copied as they are.

Python's clients do not show the headers of batches, where the origins are. So a Java process reads
(`HubOrigins.java`), and only its lines are read here.
"""

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import ClusterConfig
from aggregator.datapath.connector.build import (
    SHORT_LIVED,
    codec_jars,
    connector_jar,
    spark_jars,
)
from aggregator.datapath.connector.spec import origin_names, origins_of_batches
from aggregator.datapath.jars import jars, java_command
from aggregator.features.groups.hub_scan import Scan, ScanCourse
from aggregator.model.errors import ClusterError
from aggregator.model.values import SourcePartition, TopicPartition

PROGRAM = "aggregator.connector.HubOrigins"
LOOK_SECONDS = 0.2
AT_ONCE = 1 << 16
SETTINGS = {
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "isolation.level": "read_uncommitted",
    "client.id": "aggregator-groups",
}


def read_batch_scans(
    hub: ClusterConfig, known: Iterable[SourcePartition], course: ScanCourse
) -> None:
    """As `read_scans`, what is left; `known` are the source partitions that batches may be of."""
    left, at = course.left, course.at
    course.finish()
    names = list(left)
    with _reading(_request(hub, known, left, at)) as (process, errors):
        heard = time.monotonic()
        for line in _lines(process):
            now = time.monotonic()
            if line is None and process.poll() is not None:
                raise ClusterError(f"hub: its batches cannot be read: {_last_words(errors)}")
            course.check(now - heard)
            if line is not None:
                heard = now
                take_line(line, names, left, at)
            for tp in course.finish():
                _forget(process, names.index(tp))
            if not left:
                return


def _forget(process: subprocess.Popen[bytes], number: int) -> None:
    """Have it read no more of a range; it may have ended by itself."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(f"{number}\n".encode())


def take_line(
    line: str,
    names: Sequence[TopicPartition],
    left: Mapping[TopicPartition, Scan],
    at: dict[TopicPartition, int],
) -> None:
    """Hand what a line says to its scan, if that is one of those left; `at` is behind it then."""
    number, *words = line.split(" ")
    tp = names[int(number)]
    scan = left.get(tp)
    if scan is None:
        return
    if words == ["end"]:
        scan.done = True
        return
    offset, count, place, origin = int(words[0]), int(words[1]), words[2], int(words[3])
    at[tp] = offset + count
    parts = place.split("/")
    sp = SourcePartition(parts[0], parts[1], int(parts[2])) if len(parts) == 3 else None
    for more in range(count):
        if scan.done:
            return
        scan.take(offset + more, sp, origin + more if sp is not None else 0)


def _request(
    hub: ClusterConfig,
    known: Iterable[SourcePartition],
    scans: Mapping[TopicPartition, Scan],
    at: Mapping[TopicPartition, int],
) -> bytes:
    wanted = {
        "consumer": {**jvm_settings(hub, "consumer"), **SETTINGS},
        "ranges": [[*tp, at[tp], scan.end] for tp, scan in scans.items()],
        "origin": origin_names(),
        "origins": origins_of_batches(known),
    }
    return json.dumps(wanted).encode() + b"\n"


@contextmanager
def _reading(request: bytes) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    clients = [jar for jar in jars("spark") if jar.name.startswith("kafka-clients-")]
    places = [connector_jar(), *clients, *spark_jars(), *codec_jars()]
    command = [java_command(), *SHORT_LIVED, "-cp", os.pathsep.join(map(str, places)), PROGRAM]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0
        )
        try:
            assert process.stdin is not None
            # By its input: arguments are seen by all.
            process.stdin.write(request)
            yield process, errors
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str | None]:
    """What it prints; None when for a moment nothing comes, or no more ever does."""
    assert process.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(LOOK_SECONDS):
                yield None
                continue
            got = process.stdout.read(AT_ONCE)
            if not got:
                process.wait()
                yield None
                continue
            *lines, rest = (rest + got).split(b"\n")
            yield from (line.decode() for line in lines)


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    thrown = [line for line in lines if "Exception" in line and not line.startswith("\t")]
    return (thrown or lines or ["Java has ended"])[-1]
