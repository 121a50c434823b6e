"""What a tool's producer made of the records, as the hub keeps it: batches, bytes and requests.

The same for every tool in every language, as nothing is asked of the tool.
"""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from aggregator.datapath.jars import java_command
from aggregator.model.errors import AggregatorError

HEADER = struct.Struct(">qi")
"""Base offset of a batch, and the bytes behind this."""
COUNT_AT = 57
CONTROL_AT, CONTROL_BIT = 22, 0x20
KIB = 1024


class Batches(NamedTuple):
    """How many batches a topic holds, with how many records and bytes in all."""

    batches: int
    records: int
    size: int

    def figures(self) -> dict[str, float]:
        """Records and KiB of a batch, and bytes of a record, on average."""
        if not self.records:
            return {}
        return {
            "records_per_batch": self.records / self.batches,
            "batch_kib": self.size / self.batches / KIB,
            "bytes_per_record": self.size / self.records,
        }


def batches_of(data: Path, topic: str) -> Batches:
    """The batches of a topic in a broker's data folder; markers of transactions are left out."""
    found = [
        (records, size)
        for segment in data.glob(f"{topic}-*/*.log")
        for records, size in _batches(segment)
    ]
    return Batches(len(found), sum(it[0] for it in found), sum(it[1] for it in found))


def _batches(segment: Path) -> Iterator[tuple[int, int]]:
    """Records and bytes of each batch in a segment (KIP-98)."""
    with segment.open("rb") as file:
        while len(head := file.read(COUNT_AT + 4)) == COUNT_AT + 4:
            _, length = HEADER.unpack_from(head)
            size = HEADER.size + length
            # A segment is longer than what is in it while it is written.
            if length <= 0:
                return
            if not head[CONTROL_AT] & CONTROL_BIT:
                yield int.from_bytes(head[COUNT_AT:]), size
            file.seek(size - len(head), 1)


class Requests:
    """How many Produce requests a broker has answered, as it counts them itself."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]

    @property
    def java_options(self) -> tuple[str, ...]:
        """What the broker's Java needs for being asked."""
        prefix = "-Dcom.sun.management.jmxremote"
        return (
            f"{prefix}.port={self._port}",
            f"{prefix}.rmi.port={self._port}",
            f"{prefix}.host=127.0.0.1",
            f"{prefix}.authenticate=false",
            f"{prefix}.ssl=false",
            "-Djava.rmi.server.hostname=127.0.0.1",
        )

    def count(self) -> int:
        """Their number since it started. AggregatorError when it does not say."""
        program = Path(__file__).with_name("Requests.java")
        asked = subprocess.run(
            [java_command(), str(program), str(self._port)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if asked.returncode:
            raise AggregatorError(f"the hub does not count its requests: {asked.stderr.strip()}")
        return int(asked.stdout)
