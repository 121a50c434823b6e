"""`python -m bench.many`: hundreds of sources, thousands of topics that the hub does not have.

The sources share a few brokers: each is an alias with topics of its own. Every topic holds one
record. One more topic, `ok`, is at the hub already and gets a steady load: how long it pauses shows
what the others cost it. Then what an instance of that size costs, and how fast it answers.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from aggregator.extras.embedded.cluster import EmbeddedCluster, start_clusters
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.topics import admin, create_topic, end_offsets
from aggregator.extras.embedded.waiting import wait_until
from aggregator.kafka.admin.parallel import MOST_PARTITIONS, in_parts
from aggregator.model import values
from aggregator.model.errors import AggregatorError
from bench.bed import let_work, wait_for
from bench.groups import commit
from bench.usage import cpu_seconds, members, memory_bytes

OK = "ok"
HUB = "hub"
BROKER_JAVA = ("-Xmx1g", "-XX:+UseParallelGC", "-Djava.awt.headless=true")
BROKER_CONFIG = {"log.index.size.max.bytes": "65536", "log.segment.bytes": "16777216"}
AT_ONCE = 100
"""Topics of a request by which a source gets them."""
OK_SECONDS = 0.1
"""The interval of the records for `ok`."""
POLL_SECONDS = 0.1
TICK_SECONDS = 0.01
IDLE_SECONDS = 60.0
LOAD_SECONDS = 60.0
SECONDS = 1_800.0
TIMES = 5
PATHS = ("/health", "/api/status", "/api/overview", "/api/flow", "/api/lag", "/metrics")
_SPECS: Any = OffsetSpec  # it has no types
LATEST: OffsetSpec = _SPECS.latest()

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much there is: `topics` of all sources together, with `partitions` each."""

    sources: int
    brokers: int
    topics: int
    partitions: int
    groups: int
    rate: float

    @property
    def aliases(self) -> list[str]:
        """The sources' names."""
        return [f"s{number:03}" for number in range(1, self.sources + 1)]

    def topics_of(self, alias: str) -> list[str]:
        """The topics of a source."""
        own = range(self.topics // self.sources)
        return [f"{alias}-t{number:04}" for number in own]


@dataclass(frozen=True, slots=True)
class Cost:
    """What an instance costs: cores of its Python process and of its JVM."""

    python: float
    java: float


@dataclass(frozen=True, slots=True)
class Answer:
    """How an instance answers a path: the median of some requests, and its size."""

    seconds: float
    size: int


@dataclass(frozen=True, slots=True)
class Found:
    """Seconds from a launch until something was so, and what it took."""

    first_record: float
    all_created: float
    all_copied: float
    longest_silence: float
    cpu: float
    memory: int
    idle: Cost
    loaded: Cost
    cpu_per_million: float
    answers: Mapping[str, Answer]
    commands: Mapping[str, float]
    checkpoint: int
    """Bytes of all its files."""
    stop: float
    again: float
    """From the launch after a clean stop to the first record."""
    recovered: float
    """The same after kill -9."""


@dataclass(frozen=True, slots=True)
class World:
    """Running clusters, with the records that are there: the hub, and where each source is."""

    scale: Scale
    folder: Path
    log: Path
    hub: str
    servers: Mapping[str, str]
    port: int
    """Of the API."""

    @property
    def first(self) -> str:
        """Where `ok` is."""
        return self.servers[self.scale.aliases[0]]

    @property
    def topics(self) -> list[str]:
        """All topics but `ok`; their names are the same at the hub."""
        return [name for alias in self.scale.aliases for name in self.scale.topics_of(alias)]

    def by_broker(self) -> dict[str, list[str]]:
        """The topics that each broker has."""
        found: dict[str, list[str]] = {}
        for alias, servers in self.servers.items():
            found.setdefault(servers, []).extend(self.scale.topics_of(alias))
        return found

    def fill(self) -> None:
        """Create the topics with a record each, the groups, and the file of the config."""
        for servers in (self.first, self.hub):
            create_topic(servers, OK)
        for servers, names in self.by_broker().items():
            _fill(servers, names, self.scale.partitions)
        for number in range(self.scale.groups):
            alias = self.scale.aliases[number % self.scale.sources]
            own = {values.TopicPartition(name, 0): 1 for name in self.scale.topics_of(alias)}
            commit(self.servers[alias], {f"bench-{number:03}": own})
        (self.folder / "aggregator.yaml").write_text(yaml.safe_dump(self._config()), "utf-8")

    def _config(self) -> dict[str, object]:
        first = self.scale.aliases[0]
        return {
            "name": "bench",
            "hub": {"bootstrap_servers": self.hub},
            "sources": {
                alias: {
                    "bootstrap_servers": servers,
                    "topics": {"include": [f"{alias}-.*", *([OK] if alias == first else [])]},
                    "shared_cluster_id": self.scale.sources > self.scale.brokers,
                }
                for alias, servers in self.servers.items()
            },
            "topics": {"replication_factor": 1},
            "checkpoint": {"path": str(self.folder / "state")},
            "api": {"listen": f"127.0.0.1:{self.port}"},
        }

    def command(self, *words: str) -> list[str]:
        """A command of the aggregator for this config."""
        file = str(self.folder / "aggregator.yaml")
        return [sys.executable, "-m", "aggregator", *words, "-c", file]


@contextmanager
def _world(scale: Scale, folder: Path, log: Path) -> Iterator[World]:
    """The clusters while the block runs; the sources are dealt out to their brokers in turn."""
    names = [*(f"c{number}" for number in range(1, scale.brokers + 1)), HUB]
    clusters = [
        EmbeddedCluster(name, config=BROKER_CONFIG, java_options=BROKER_JAVA) for name in names
    ]
    with ExitStack() as stack:
        for cluster in clusters:
            stack.callback(cluster.stop)
        start_clusters(clusters)
        *brokers, hub = (cluster.bootstrap_servers for cluster in clusters)
        servers = dict(zip(scale.aliases, itertools.cycle(brokers), strict=False))
        (port,) = free_ports(1)
        made = World(scale, folder, log, hub, servers, port)
        made.fill()
        yield made


def measure(scale: Scale, say: Say, keep: Path | None) -> Found:
    """A first start, what it costs when it runs, and two more; its log is kept as `keep`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="many-")))
        world = stack.enter_context(_world(scale, folder, keep or folder / "tool.log"))
        say(f"{scale.sources} sources have {scale.topics} topics of {scale.partitions} partitions")
        stack.enter_context(_steady(world.first))
        with _running(world) as child:
            started = _first_start(world, child, say)
            # What was begun by then, such as the first commits of all lanes, is over.
            let_work(child, IDLE_SECONDS)
            idle = _cost(child, IDLE_SECONDS)
            say(f"idle: {idle}")
            sent, loaded = _loaded(world, child)
            say(f"{sent / LOAD_SECONDS:,.0f} records/s: {loaded}")
            answers = {path: _answer(world.port, path) for path in PATHS}
            say(f"answers: {answers}")
            commands = _commands(world, say)
            memory, state = memory_bytes(child.pid), _size(folder / "state")
            began = time.monotonic()
            if not child.terminate(SECONDS):
                raise AggregatorError("it did not stop")
            stop = time.monotonic() - began
        again = _first_record(world, say)
        recovered = _first_record(world, say)
    return Found(
        **started,
        memory=memory,
        idle=idle,
        loaded=loaded,
        cpu_per_million=(loaded.python + loaded.java) * LOAD_SECONDS / sent * 1e6,
        answers=answers,
        commands=commands,
        checkpoint=state,
        stop=stop,
        again=again,
        recovered=recovered,
    )


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
    """A record for `ok` now and then, while the block runs."""
    with _producing(servers, itertools.repeat(OK), OK_SECONDS, 1):
        yield


@contextmanager
def _producing(
    servers: str, topics: Iterator[str], seconds: float, records: int
) -> Iterator[list[int]]:
    """`records` of them every `seconds`, while the block runs; the list has their number."""
    stop, sent = threading.Event(), [0]
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    # Otherwise it asks for each topic, and all before it, as its first record comes.
    producer.list_topics(timeout=60)

    def work() -> None:
        due = time.monotonic()
        while not stop.wait(max(0.0, due - time.monotonic())):
            for topic in itertools.islice(topics, records):
                producer.produce(topic, b"v" * 100)
            sent[0] += records
            producer.poll(0)
            due += seconds
        producer.flush(60)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield sent
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


@contextmanager
def _running(world: World) -> Iterator[GuardedProcess]:
    """The application while the block runs; killed with it, if it has not ended."""
    child = GuardedProcess(world.command("run"), world.log)
    try:
        yield child
    finally:
        child.kill()
        wait_until(lambda: not members(child.pid), seconds=60, what="its JVM does not end")


def _first_start(world: World, child: GuardedProcess, say: Say) -> dict[str, float]:
    """Seconds from now, which is the launch."""
    silence = _Silence(world.hub)
    silence.start()
    began = time.monotonic()
    try:
        client, wanted = admin(world.hub), set(world.topics)
        wait_for(
            child, lambda: silence.first > 0 or _have(client, wanted), SECONDS, "no first record"
        )
        wait_for(child, lambda: _have(client, wanted), SECONDS, "not all hub topics")
        created = time.monotonic() - began
        say(f"all hub topics are there after {created:.1f} s")
        wait_for(
            child,
            lambda: _copied(client, world.topics) >= len(wanted),
            SECONDS,
            "no record in each",
        )
        copied = time.monotonic() - began
        wait_for(child, lambda: silence.first > 0, SECONDS, "no record of ok")
    finally:
        silence.over.set()
    say(f"all is copied after {copied:.1f} s")
    return {
        "first_record": silence.first - began,
        "all_created": created,
        "all_copied": copied,
        "longest_silence": silence.longest,
        "cpu": cpu_seconds(child.pid),
    }


def _first_record(world: World, say: Say) -> float:
    """Seconds from a launch to its first record of `ok`; then it is killed."""
    silence = _Silence(world.hub)
    with _running(world) as child:
        began = time.monotonic()
        silence.start()
        try:
            wait_for(child, lambda: silence.first > 0, SECONDS, "no record of ok")
        finally:
            silence.over.set()
        say(f"a first record after {silence.first - began:.1f} s")
        # A commit has to be behind it, or the next start would have less to recover.
        let_work(child, IDLE_SECONDS / 4)
    return silence.first - began


def _cost(child: GuardedProcess, seconds: float) -> Cost:
    """Cores that it keeps busy from now on."""
    before = _split(child)
    let_work(child, seconds)
    python, java = (now - then for now, then in zip(_split(child), before, strict=True))
    return Cost(python / seconds, java / seconds)


def _split(child: GuardedProcess) -> tuple[float, float]:
    """CPU seconds of its Python process, and of all others of its group."""
    ticks = {pid: int(it[11]) + int(it[12]) for pid, it in members(child.pid).items()}
    own = ticks.pop(child.pid, 0)
    each = os.sysconf("SC_CLK_TCK")
    return own / each, sum(ticks.values()) / each


def _loaded(world: World, child: GuardedProcess) -> tuple[int, Cost]:
    """How many records were sent to all topics in turn, and what that cost."""
    with ExitStack() as stack:
        counts = []
        brokers = world.by_broker()
        for servers, topics in brokers.items():
            rate = world.scale.rate / len(brokers)
            records = max(1, round(rate * TICK_SECONDS))
            turns = itertools.cycle(topics)
            counts.append(stack.enter_context(_producing(servers, turns, records / rate, records)))
        let_work(child, LOAD_SECONDS / 4)
        before = sum(it[0] for it in counts)
        cost = _cost(child, LOAD_SECONDS)
        return sum(it[0] for it in counts) - before, cost


def _answer(port: int, path: str) -> Answer:
    seconds, size = [], 0
    for _ in range(TIMES):
        began = time.monotonic()
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            size = len(answer.read())
        seconds.append(time.monotonic() - began)
    return Answer(statistics.median(seconds), size)


def _commands(world: World, say: Say) -> dict[str, float]:
    """Seconds that commands take beside it."""
    groups = [f"bench-{number:03}" for number in range(world.scale.groups)]
    found = {}
    for words in (("status",), ("lag",), ("plan",), ("groups", "translate", *groups)):
        began = time.monotonic()
        with (world.folder / "command.log").open("w", encoding="utf-8") as log:
            ended = subprocess.run(
                world.command(*words), stdout=log, stderr=subprocess.STDOUT, check=False
            )
        name = " ".join(words[:2])
        found[name] = time.monotonic() - began
        say(f"{name}: {found[name]:.1f} s, exit code {ended.returncode}")
    return found


def _size(folder: Path) -> int:
    return sum(it.stat().st_size for it in folder.rglob("*") if it.is_file())


def _have(client: AdminClient, wanted: set[str]) -> bool:
    return wanted <= client.list_topics(timeout=60).topics.keys()


def _copied(client: AdminClient, names: Sequence[str]) -> int:
    there = client.list_topics(timeout=60).topics.keys() & set(names)
    asked = [TopicPartition(name, 0) for name in sorted(there)]
    total = 0
    for part in in_parts(asked, MOST_PARTITIONS):
        answers = client.list_offsets(dict.fromkeys(part, LATEST)).values()
        total += sum(it.result().offset for it in answers if it.exception() is None)
    return total


def to_markdown(found: Found, scale: Scale) -> str:
    """The page of one measurement."""
    partitions = scale.topics * scale.partitions
    lines = [
        f"# {scale.sources} sources, {scale.topics:,} topics, {partitions:,} partitions",
        "",
        f"Written by `python -m bench.many` on {datetime.now(UTC):%Y-%m-%d}, on a machine with",
        f"{os.cpu_count()} cores that brokers and load share. The sources are aliases of "
        f"{scale.brokers} brokers, each with topics of",
        f"its own, a record in each; {scale.groups} consumer groups have offsets there. The hub, "
        "of one broker,",
        "has none of these topics. The topic `ok` is at the hub already and gets "
        f"{1 / OK_SECONDS:g} records a second.",
        "",
        "| from the launch until | seconds |",
        "|---|---|",
        f"| the first record of `ok` is at the hub | {found.first_record:.1f} |",
        f"| all hub topics are there | {found.all_created:.1f} |",
        f"| each has its record | {found.all_copied:.1f} |",
        f"| the longest time without a record of `ok` after its first | "
        f"{found.longest_silence:.1f} |",
        f"| a clean stop (from SIGTERM) | {found.stop:.1f} |",
        f"| the first record of `ok` of the next start | {found.again:.1f} |",
        f"| the same after kill -9 | {found.recovered:.1f} |",
        "",
        f"Until each had its record it took {found.cpu:.0f} CPU seconds.",
        "",
        "| afterwards | cores of Python | cores of Java |",
        "|---|---|---|",
        f"| with the records of `ok` | {found.idle.python:.2f} | {found.idle.java:.2f} |",
        f"| with {scale.rate:,.0f} records/s, to all topics in turn | {found.loaded.python:.2f} "
        f"| {found.loaded.java:.2f} |",
        "",
        f"So a million such records cost {found.cpu_per_million:.0f} CPU seconds. It holds "
        f"{found.memory / 2**20:,.0f} MiB of memory in all its",
        f"processes, and the checkpoint has {found.checkpoint / 2**20:,.1f} MiB.",
        "",
        f"| request, median of {TIMES} | milliseconds | KiB |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{path}` | {it.seconds * 1000:.0f} | {it.size / 1024:,.0f} |"
        for path, it in found.answers.items()
    ]
    lines += ["", "| command | seconds |", "|---|---|"]
    lines += [f"| `aggregator {name}` | {it:.1f} |" for name, it in found.commands.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, and write the page."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="python -m bench.many", description=__doc__)
    parser.add_argument("--sources", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=5, help="that the sources share")
    parser.add_argument("--topics", type=int, default=5_000, help="of all sources together")
    parser.add_argument("--partitions", type=int, default=2, help="of a topic")
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--rate", type=float, default=2_000.0, help="records/s in all")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder")
    parser.add_argument("--log", type=Path, help="where to keep the log of the run")
    given = vars(parser.parse_args())
    out, log = given.pop("out"), given.pop("log")
    scale = Scale(**given)
    out.mkdir(parents=True, exist_ok=True)

    def say(line: str) -> None:
        print(f"[{datetime.now(UTC):%H:%M:%S}] {line}", file=sys.stderr, flush=True)

    found = measure(scale, say, log)
    page = out / f"{datetime.now(UTC):%Y-%m-%d}-many.md"
    page.write_text(to_markdown(found, scale), "utf-8")
    say(f"written: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
