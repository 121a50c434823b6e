"""`python -m bench.topics`: the first start with thousands of topics that the hub does not have.

One source and one hub, a broker each. Every topic of the source holds one record. One more topic,
`ok`, is at the hub already and gets a steady load: how long it pauses shows what the others
cost it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from aggregator.extras.embedded.cluster import EmbeddedCluster, start_clusters
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.topics import admin, create_topic, end_offsets
from aggregator.extras.embedded.waiting import wait_until
from aggregator.kafka.admin.parallel import MOST_PARTITIONS, in_parts
from aggregator.model.errors import AggregatorError
from bench.usage import cpu_seconds, members, memory_bytes

OK = "ok"
BROKER_JAVA = ("-Xmx1g", "-XX:+UseParallelGC", "-Djava.awt.headless=true")
BROKER_CONFIG = {"log.index.size.max.bytes": "65536", "log.segment.bytes": "16777216"}
AT_ONCE = 100
"""Topics of a request by which the source gets them."""
OK_SECONDS = 0.1
"""The interval of the records for `ok`."""
POLL_SECONDS = 0.1
IDLE_SECONDS = 30.0
SECONDS = 1_800.0
_SPECS: Any = OffsetSpec  # it has no types
LATEST: OffsetSpec = _SPECS.latest()


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds from the launch until something was so, and what it took."""

    first_record: float
    all_created: float
    all_copied: float
    longest_silence: float
    cpu: float
    memory: int
    idle_cpu: float
    """Cores that it kept busy afterwards."""


def measure(topics: int, partitions: int, keep: Path | None) -> Found:
    """One first start; its log is kept in `keep`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="topics-")))
        clusters = [
            EmbeddedCluster(name, config=BROKER_CONFIG, java_options=BROKER_JAVA)
            for name in ("eu", "hub")
        ]
        start_clusters(clusters)
        for cluster in clusters:
            stack.callback(cluster.stop)
        source, hub = (cluster.bootstrap_servers for cluster in clusters)
        names = [f"topic-{number:05}" for number in range(topics)]
        for servers in (source, hub):
            create_topic(servers, OK)
        _fill(source, names, partitions)
        _log(f"the source has {topics} topics of {partitions} partitions")
        settings = {
            "name": "bench",
            "hub": {"bootstrap_servers": hub},
            "sources": {"eu": {"bootstrap_servers": source, "topics": {"include": ".*"}}},
            "topics": {"replication_factor": 1},
            "checkpoint": {"path": str(folder / "state")},
            "api": {"listen": "off"},
        }
        (folder / "aggregator.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        stack.enter_context(_steady(source))
        return _start(folder, hub, names, keep or folder / "tool.log")


def _fill(servers: str, names: list[str], partitions: int) -> None:
    client = admin(servers)
    for at in range(0, len(names), AT_ONCE):
        group = [NewTopic(name, partitions, 1) for name in names[at : at + AT_ONCE]]
        for future in client.create_topics(group, operation_timeout=60).values():
            future.result()
    # A controller says that a topic is created before its broker has made it.
    wait_until(lambda: _have(client, set(names)), seconds=SECONDS, what="all topics")
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "acks": "all"})
    for name in names:
        producer.produce(name, b"v", partition=0)
        producer.poll(0)
    producer.flush(600)
    wait_until(lambda: _copied(client, names) >= len(names), seconds=SECONDS, what="a record each")


@contextmanager
def _steady(servers: str) -> Iterator[None]:
    stop = threading.Event()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})

    def work() -> None:
        while not stop.wait(OK_SECONDS):
            producer.produce(OK, b"v")
            producer.poll(0)
        producer.flush(10)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


class _Silence(threading.Thread):
    """Watches when `ok` grows at the hub."""

    def __init__(self, hub: str) -> None:
        super().__init__(daemon=True)
        self._hub = hub
        self.over = threading.Event()
        self.first = 0.0
        self.longest = 0.0

    def run(self) -> None:
        known, since = sum(end_offsets(self._hub, OK).values()), 0.0
        while not self.over.wait(POLL_SECONDS):
            found = sum(end_offsets(self._hub, OK).values())
            now = time.monotonic()
            if since:
                self.longest = max(self.longest, now - since)
            if found > known:
                known, since = found, now
                self.first = self.first or now


def _start(folder: Path, hub: str, names: list[str], log: Path) -> Found:
    silence = _Silence(hub)
    silence.start()
    began = time.monotonic()
    command = [sys.executable, "-m", "aggregator", "run", "-c", str(folder / "aggregator.yaml")]
    child = GuardedProcess(command, log)
    try:
        client = admin(hub)
        wanted = set(names)
        _until(child, lambda: silence.first > 0 or _have(client, wanted), "a first record")
        _until(child, lambda: _have(client, wanted), "all hub topics")
        created = time.monotonic() - began
        _log(f"all hub topics are there after {created:.1f} s")
        _until(child, lambda: _copied(client, names) >= len(names), "a record in each")
        copied = time.monotonic() - began
        _until(child, lambda: silence.first > 0, "a record of ok")
        cpu, memory = cpu_seconds(child.pid), memory_bytes(child.pid)
        end = time.monotonic() + IDLE_SECONDS
        _until(child, lambda: time.monotonic() > end, "the time passes")
        idle = (cpu_seconds(child.pid) - cpu) / IDLE_SECONDS
        silence.over.set()
        first = silence.first - began
        return Found(first, created, copied, silence.longest, cpu, memory, idle)
    finally:
        silence.over.set()
        child.kill()
        wait_until(lambda: not members(child.pid), seconds=60, what="its JVM does not end")


def _until(child: GuardedProcess, check: Callable[[], object], what: str) -> None:
    def done() -> bool:
        if not child.alive:
            raise AggregatorError(f"it ended with {child.exit_code}")
        return bool(check())

    wait_until(done, seconds=SECONDS, what=what)


def _have(client: AdminClient, wanted: set[str]) -> bool:
    time.sleep(POLL_SECONDS)
    return wanted <= client.list_topics(timeout=60).topics.keys()


def _copied(client: AdminClient, names: list[str]) -> int:
    there = client.list_topics(timeout=60).topics.keys() & set(names)
    asked = [TopicPartition(name, 0) for name in sorted(there)]
    time.sleep(POLL_SECONDS)
    total = 0
    for part in in_parts(asked, MOST_PARTITIONS):
        answers = client.list_offsets(dict.fromkeys(part, LATEST)).values()
        total += sum(it.result().offset for it in answers if it.exception() is None)
    return total


def _log(line: str) -> None:
    print(f"[{datetime.now(UTC):%H:%M:%S}] {line}", file=sys.stderr, flush=True)


def to_markdown(found: Found, topics: int, partitions: int) -> str:
    """The page of one measurement."""
    return "\n".join(
        [
            f"# The first start with {topics:,} topics",
            "",
            f"Written by `python -m bench.topics` on {datetime.now(UTC):%Y-%m-%d}, on a machine",
            f"with {os.cpu_count()} cores that brokers and load share: one source with {topics:,} "
            f"topics of {partitions} partitions, a record in",
            "each, and a hub without any of them. The topic `ok` is at the hub already and gets "
            f"{1 / OK_SECONDS:g} records a",
            "second.",
            "",
            "| from the launch until | seconds |",
            "|---|---|",
            f"| the first record of `ok` is at the hub | {found.first_record:.1f} |",
            f"| all hub topics are there | {found.all_created:.1f} |",
            f"| each has its record | {found.all_copied:.1f} |",
            f"| the longest time without a record of `ok` after its first | "
            f"{found.longest_silence:.1f} |",
            "",
            f"Until then it took {found.cpu:.0f} CPU seconds, and held "
            f"{found.memory / 1024 / 1024:,.0f} MiB of memory in all its",
            f"processes. Idle afterwards it keeps {found.idle_cpu:.2f} cores busy, with the "
            "records of `ok`.",
            "",
        ]
    )


def main() -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.topics", description=__doc__)
    parser.add_argument("--topics", type=int, default=5_000)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder")
    parser.add_argument("--log", type=Path, help="where to keep the log of the run")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    found = measure(given.topics, given.partitions, given.log)
    page = given.out / f"{datetime.now(UTC):%Y-%m-%d}-topics.md"
    page.write_text(to_markdown(found, given.topics, given.partitions), "utf-8")
    _log(f"written: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
