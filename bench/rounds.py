"""The two benchmarks: clusters, topics, records, one launch of a tool, and what came of it."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException

from aggregator.embedded.cluster import EmbeddedCluster, start_clusters
from aggregator.embedded.processes import GuardedProcess
from aggregator.embedded.topics import create_topic, delete_topic
from aggregator.errors import AggregatorError
from bench.load import Values, preload, steady
from bench.measure import Check, Run, Sample, check, latencies, throughput
from bench.read import Ends, Tail, values_of
from bench.tools import BROKER_JAVA, SOURCE_PARTITIONS, TOOLS, Job, Tool, running

SOURCES = ("eu", "us")
POLL_SECONDS = 0.1
TELL_SECONDS = 5.0
START_SECONDS = 180.0
STALL_SECONDS = 120.0
"""So long without one more record in the hub, after the first: the run has failed."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How much of what. `records` is per source, `rate` for all sources together."""

    records: int = 200_000
    size: int = 1_000
    rounds: int = 3
    latency_rounds: int = 2
    rate: float = 1_000.0
    seconds: float = 40.0
    warm_up: float = 10.0


class RunFailedError(AggregatorError):
    """A run did not do what it should; the text goes into the result, so it names no paths."""


class Bench:
    """Two sources and a hub for all runs; a context manager that leaves nothing behind."""

    def __init__(self, options: Options, tell: Tell) -> None:
        self._options = options
        self._tell = tell
        self._values = Values(options.size)
        self._clusters = {
            name: EmbeddedCluster(name, java_options=BROKER_JAVA) for name in (*SOURCES, "hub")
        }
        self._exit = ExitStack()
        self._number = 0

    def __enter__(self) -> Bench:
        self._tell("starting two sources and a hub")
        for cluster in self._clusters.values():
            self._exit.callback(cluster.stop)
        start_clusters(list(self._clusters.values()))
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def run(self, benchmark: str) -> Iterator[Run]:
        """All rounds of `throughput` or `latency`, the tools in turn; failed runs as well."""
        measure = {"throughput": self._throughput, "latency": self._latency}[benchmark]
        count = self._options.rounds
        if benchmark == "latency":
            count = self._options.latency_rounds
        for number in range(1, count + 1):
            for tool in TOOLS:
                self._tell(f"{benchmark}, round {number} of {count}: {tool.name}")
                busy = round(os.getloadavg()[0], 1)
                values: Mapping[str, float] = {}
                notes: Mapping[str, float] = {}
                found: Check | None = None
                failure = ""
                with self._job(tool) as job:
                    try:
                        values, notes, found = measure(tool, job)
                        if not found.perfect:
                            failure = "the hub does not hold each record once"
                    except (AggregatorError, KafkaException, ValueError) as error:
                        failure = (str(error).splitlines() or ["no reason"])[0]
                        self._tell(f"FAILED: {failure}; the end of the tool's log:")
                        self._tell(_tail(job.folder / "tool.log"))
                yield Run(benchmark, tool.name, number, busy, values, notes, found, failure)

    @contextmanager
    def _job(self, tool: Tool) -> Iterator[Job]:
        """Topics and a folder that no other run has; gone with the block."""
        self._number += 1
        name = f"run{self._number}"
        servers = {alias: self._clusters[alias].bootstrap_servers for alias in SOURCES}
        hub = self._clusters["hub"].bootstrap_servers
        topic = f"bench-{name}"
        with ExitStack() as undo:
            for where in servers.values():
                create_topic(where, topic, partitions=SOURCE_PARTITIONS)
                undo.callback(delete_topic, where, topic)
            create_topic(hub, topic, partitions=tool.hub_partitions)
            undo.callback(delete_topic, hub, topic)
            folder = Path(tempfile.mkdtemp(prefix="aggregator-bench-"))
            undo.callback(shutil.rmtree, folder, ignore_errors=True)
            yield Job(name, topic, servers, hub, folder)

    def _throughput(self, tool: Tool, job: Job) -> tuple[dict[str, float], dict[str, float], Check]:
        records = self._options.records
        self._tell(f"  writing {records:,} records into each source")
        preload(job.sources, job.topic, records, self._values)
        expected = records * len(job.sources)
        ends = Ends(job.hub, job.topic, tool.hub_partitions)
        samples = [Sample(0.0, 0)]
        began = told = moved = time.monotonic()
        with running(tool, job) as child:
            while samples[-1].records < expected:
                time.sleep(POLL_SECONDS)
                # The moment before the question: the answer is never older than that.
                now, total = time.monotonic(), ends.total()
                if total > samples[-1].records:
                    moved = now
                samples.append(Sample(now - began, total))
                if now - told >= TELL_SECONDS:
                    told = now
                    self._tell(f"  {now - began:5.0f} s: {total:,} of {expected:,} in the hub")
                _alive(child)
                limit = STALL_SECONDS if total else START_SECONDS
                if now - moved > limit:
                    raise RunFailedError(
                        f"{total:,} of {expected:,} records, then none for {limit:g} s"
                    )
            values = throughput(samples, expected)
            stopping = time.monotonic()
        notes = {"stop_seconds": time.monotonic() - stopping}
        rate, start = values["records_per_second"], values["startup_seconds"]
        self._tell(f"  {rate:,.0f} records/s after a start of {start:.1f} s; counting")
        sent = dict.fromkeys(job.sources, records)
        return values, notes, check(sent, values_of(job.hub, job.topic, tool.hub_partitions))

    def _latency(self, tool: Tool, job: Job) -> tuple[dict[str, float], dict[str, float], Check]:
        options = self._options
        with (
            Tail(job.hub, job.topic, tool.hub_partitions) as tail,
            running(tool, job) as child,
        ):
            with steady(job.sources, job.topic, options.rate, self._values) as sent:
                self._wait(child, lambda: tail.count > 0, START_SECONDS, "no record in the hub")
                self._tell(f"  records arrive; warming up for {options.warm_up:g} s")
                _sleep(child, options.warm_up)
                self._tell(f"  measuring for {options.seconds:g} s")
                begin = time.time() * 1000
                before = sum(sent.values())
                tail.measure(begin, begin + options.seconds * 1000)
                _sleep(child, options.seconds)
                rate = (sum(sent.values()) - before) / options.seconds
            total = sum(sent.values())
            self._wait(
                child, lambda: tail.count >= total, STALL_SECONDS, "not all records in the hub"
            )
            measured = tail.latencies()
            values = latencies(measured)
        self._tell(f"  p50 {values['p50_ms']:.0f} ms, p99 {values['p99_ms']:.0f} ms; counting")
        notes = {"sent_per_second": rate, "measured": float(len(measured)), "max_ms": max(measured)}
        return values, notes, check(sent, values_of(job.hub, job.topic, tool.hub_partitions))

    def _wait(
        self, child: GuardedProcess, done: Callable[[], bool], seconds: float, problem: str
    ) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            _alive(child)
            if time.monotonic() > deadline:
                raise RunFailedError(f"{problem} within {seconds:g} s")
            time.sleep(POLL_SECONDS)


def _sleep(child: GuardedProcess, seconds: float) -> None:
    """Let the tool work for so long; RunFailedError as soon as it ends."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        _alive(child)
        time.sleep(min(left, 0.5))


def _alive(child: GuardedProcess) -> None:
    code = child.exit_code
    if code is not None:
        raise RunFailedError(f"ended by itself with code {code}")


def _tail(log: Path) -> str:
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-30:])
