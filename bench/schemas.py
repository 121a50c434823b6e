"""What translating schema ids costs: the same framed records, copied with `pass` and `translate`.

`python -m bench.schemas --size 1000 --records 500000 --rounds 3` prints a line for each run. The
registries are two that know one schema each: they are asked once, and only Java's work is measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

from bench.bed import POLL_SECONDS, START_SECONDS, Bed, RunFailedError, check_alive
from bench.job import Job, Tool
from bench.load import Values
from bench.measure import OURS, Sample, throughput
from bench.ours import settings as ours_settings
from bench.read import Ends, values_of
from bench.tools import TOOLS, running
from bench.usage import cpu_seconds
from bench.works import WORKS

SOURCE_ID, HUB_ID = 7, 70_001
HEAD = 5
MODES = ("pass", "translate")


class Framed(Values):
    """The same values in Confluent's wire format, of the same size in all."""

    def __init__(self, size: int) -> None:
        super().__init__(size - HEAD)

    def make(self, source: str, number: int) -> bytes:
        """The value of a source's record `number`, behind a zero byte and the id."""
        return b"\x00" + SOURCE_ID.to_bytes(4, "big") + super().make(source, number)


class Registry(BaseHTTPRequestHandler):
    """Knows one schema: as number 7 at the sources, and what is registered is 70,001."""

    def do_GET(self) -> None:
        """The schema, and nothing else."""
        if self.path.endswith(f"/schemas/ids/{SOURCE_ID}"):
            self._answer(200, {"schema": '"bytes"'})
        else:
            self._answer(404, {"error_code": 40401, "message": "not found"})

    def do_POST(self) -> None:
        """Take a schema."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, {"id": HUB_ID})

    def _answer(self, code: int, document: Any) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_: Any) -> None:
        """No one reads it."""


def tool(mode: str, registry: str) -> Tool:
    """This project, with a mode of `topics.schemas`."""

    def settings(job: Job) -> dict[str, Any]:
        tree: dict[str, Any] = ours_settings(job)
        tree["topics"]["schemas"] = mode
        for alias, cluster in [("hub", tree["hub"]), *tree["sources"].items()]:
            cluster["schemas"] = {"registry": f"{registry}/{alias}"}
        return tree

    def command(job: Job) -> list[str]:
        file = job.folder / "aggregator.yaml"
        file.write_text(yaml.safe_dump(settings(job)), "utf-8")
        return [sys.executable, "-m", "aggregator", "run", "-c", str(file)]

    return replace(TOOLS[OURS], settings=settings, command=command)


def measure(job: Job, mode: str, registry: str) -> dict[str, float]:
    """Records per second and CPU seconds per million records of one run."""
    expected = job.work.records * job.work.sources
    ends = Ends(job.hub, job.topic, job.work.hub_partitions)
    samples = [Sample(0.0, 0)]
    began = time.monotonic()
    with running(tool(mode, registry), job) as child:
        while samples[-1].records < expected:
            time.sleep(POLL_SECONDS)
            now = time.monotonic() - began
            samples.append(Sample(now, ends.total(), cpu_seconds(child.pid)))
            check_alive(child)
            if now > START_SECONDS:
                raise RunFailedError(f"{samples[-1].records:,} of {expected:,} records")
    wanted = HUB_ID if mode == "translate" else SOURCE_ID
    found = {int.from_bytes(value[1:HEAD], "big") for value in some_values(job)}
    if found != {wanted}:
        raise RunFailedError(f"{mode}: ids {found}, and not {wanted}")
    return throughput(samples, expected)


def some_values(job: Job) -> list[bytes]:
    """The first thousand values of the hub's topic."""
    found = values_of(job.hub, job.topic, job.work.hub_partitions)
    return [it or b"" for it in itertools.islice(found, 1000)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; each mode in turn, every second round the other way round."""
    parser = argparse.ArgumentParser(prog="python -m bench.schemas", description=__doc__)
    parser.add_argument("--size", type=int, nargs="+", default=[1000, 100])
    parser.add_argument("--records", type=int, default=500_000, help="per source")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        for size in given.size:
            one(size, given.records, given.rounds, url)
        server.shutdown()
    return 0


def one(size: int, records: int, rounds: int, url: str) -> None:
    """All rounds with records of one size, and how the medians compare."""
    work = replace(WORKS["copy-1k"], size=size, records=records)
    bed = Bed(work, lambda words: print(words, file=sys.stderr, flush=True))
    bed.values = Framed(size)
    cost: dict[str, list[float]] = {mode: [] for mode in MODES}
    with bed:
        # Uncounted: brokers that have just started compile what they do.
        for number in range(rounds + 1):
            for mode in MODES if number % 2 else MODES[::-1]:
                with bed.job(TOOLS[OURS]) as job:
                    values = measure(job, mode, url)
                if number:
                    cost[mode].append(values["cpu_per_million"])
                print(
                    f"{size} bytes, round {number}, {mode}: "
                    f"{values['records_per_second']:,.0f} records/s, "
                    f"{values['cpu_per_million']:.2f} CPU s per million",
                    flush=True,
                )
    medians = {mode: statistics.median(it) for mode, it in cost.items()}
    print(f"{size} bytes: x {medians['translate'] / medians['pass']:.3f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
