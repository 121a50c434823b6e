"""Reads the origins of hub records by a Java process, also those in the headers of batches.

Python's clients do not show the headers of batches, where the origins are. So Java reads
(`HubOrigins.java`), in a process of its own or in the driver's (`driver_origins.py`), and says
it in lines.
"""

import json
import os
import selectors
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol, Self

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
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition

PROGRAM = "aggregator.connector.HubOrigins"
LOOK_SECONDS = 0.2
AT_ONCE = 1 << 16
SETTINGS = {
    "auto.offset.reset": "none",
    "enable.auto.commit": "false",
    "isolation.level": "read_uncommitted",
}


class OriginRun(NamedTuple):
    """Records of a hub partition that follow each other at both sides; none: it was read.

    `source` is None for a record without an origin; `origin` is the source's offset of the first.
    """

    tp: TopicPartition
    offset: int
    records: int
    source: SourcePartition | None
    origin: int


def parse_run(line: str, names: Sequence[TopicPartition]) -> OriginRun:
    """What a line of the process says; `names` are the partitions by their numbers."""
    number, *words = line.split(" ")
    tp = names[int(number)]
    if words == ["end"]:
        return OriginRun(tp, 0, 0, None, 0)
    offset, count, place, origin = int(words[0]), int(words[1]), words[2], int(words[3])
    parts = place.split("/")
    source = SourcePartition(parts[0], parts[1], int(parts[2])) if len(parts) == 3 else None
    return OriginRun(tp, offset, count, source, origin)


class OriginSource(Protocol):
    """Reads ranges of the hub; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def runs(self) -> Iterator[OriginRun | None]:
        """What it reads, each partition in its order; None when for a moment nothing comes.

        Never ends by itself. Raises ClusterError when the hub cannot be read.
        """

    def forget(self, tp: TopicPartition) -> None:
        """Have it read no more of a partition; it may have ended by itself."""


OpenOrigins = Callable[
    [ClusterConfig, Mapping[TopicPartition, OffsetRange], Iterable[SourcePartition], str],
    OriginSource,
]
"""Takes the hub, the ranges, the source partitions that batches may be of, and the name of the
client at the brokers."""


def origins_request(
    hub: ClusterConfig,
    ranges: Mapping[TopicPartition, OffsetRange],
    known: Iterable[SourcePartition],
    client: str,
) -> str:
    """What `HubOrigins.java` is asked: one line of JSON; see `OpenOrigins`."""
    wanted = {
        "consumer": {**jvm_settings(hub, "consumer"), **SETTINGS, "client.id": client},
        "ranges": [[*tp, log.earliest, log.latest] for tp, log in ranges.items()],
        "origin": origin_names(),
        "origins": origins_of_batches(known),
    }
    return json.dumps(wanted)


class ProcessOrigins:
    """An `OriginSource` in a Java process that it starts, for commands."""

    def __init__(
        self,
        hub: ClusterConfig,
        ranges: Mapping[TopicPartition, OffsetRange],
        known: Iterable[SourcePartition],
        client: str,
    ) -> None:
        self._names = list(ranges)
        self._request = origins_request(hub, ranges, known, client).encode() + b"\n"

    def __enter__(self) -> Self:
        clients = [jar for jar in jars("spark") if jar.name.startswith("kafka-clients-")]
        places = [connector_jar(), *clients, *spark_jars(), *codec_jars()]
        command = [java_command(), *SHORT_LIVED, "-cp", os.pathsep.join(map(str, places)), PROGRAM]
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        assert self._process.stdin is not None
        # By its input: arguments are seen by all.
        with suppress(BrokenPipeError):
            self._process.stdin.write(self._request)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()

    def runs(self) -> Iterator[OriginRun | None]:
        """As the protocol says."""
        for line in self._lines():
            if line is not None:
                yield parse_run(line, self._names)
            elif self._process.poll() is None:
                yield None
            else:
                raise ClusterError(f"hub: its batches cannot be read: {self._last_words()}")

    def forget(self, tp: TopicPartition) -> None:
        """As the protocol says."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{self._names.index(tp)}\n".encode())

    def _lines(self) -> Iterator[str | None]:
        """What it prints; None when for a moment nothing comes, or no more ever does."""
        assert self._process.stdout is not None
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(LOOK_SECONDS):
                    yield None
                    continue
                got = self._process.stdout.read(AT_ONCE)
                if not got:
                    self._process.wait()
                    yield None
                    continue
                *lines, rest = (rest + got).split(b"\n")
                yield from (line.decode() for line in lines)

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        thrown = [line for line in lines if "Exception" in line and not line.startswith("\t")]
        return (thrown or lines or ["Java has ended"])[-1]
