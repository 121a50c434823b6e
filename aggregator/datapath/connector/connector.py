"""The connector in the driver's JVM: registers lanes, sends orders, takes reports."""

import base64
import json
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aggregator.datapath.connector.reports import (
    LaneReport,
    Reports,
    TaskReport,
    join,
    parse_reports,
)
from aggregator.datapath.connector.spec import origin_names
from aggregator.model.errors import ClusterError
from aggregator.model.values import SchemaIds, Skip, SourcePartition, TopicPartition
from aggregator.plan.health.fetched_ends import Fetches, LogEnd
from aggregator.plan.lease import EXECUTOR_SECONDS
from aggregator.plan.positions.hub_losses import least_cuts
from aggregator.plan.positions.origins import HubSample, Print, SampleAnswers, SourceRecord
from aggregator.plan.positions.recovery import TailPlan

PLUGIN = "aggregator.connector.ReportPlugin"
SOURCE = "aggregator.connector.ClustersSource"
SINK = "aggregator.connector.HubSink"
TAIL_THREADS = 2
TAIL_SETTINGS = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    # A tail ends at its log's end: a fetch that waits there holds up those of the other partitions.
    "fetch.max.wait.ms": "20",
}
SAMPLE_SETTINGS = {
    **TAIL_SETTINGS,
    # What the hub holds was a record of the source, whatever has become of its transaction.
    "isolation.level": "read_uncommitted",
    # One record of each is looked at.
    "max.partition.fetch.bytes": "32768",
    "fetch.max.bytes": "8388608",
}
TRIES = 4
"""How many brokers a client may ask for leaders, one after the other, when some of them hang."""
LIMIT_FACTOR = 6
"""A source that answers now and then is waited for this many times as long as a silent one."""


TOKEN_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
"""A property of Java. Where it is not set, clients of Kafka 3.9 take a token from any URL, also
from a file."""
OWN_URLS = "aggregator.allowed.urls"
"""What we set it to last. Not by a command line: a URL may hold a password."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The orders to the tasks of a lane; each replaces the one before.

    `rates`: (reading, task) -> records and bytes per second, None for no limit. `schemas`: by
    cluster, what its schema ids are at the hub.
    """

    end: bool = False
    held: frozenset[SourcePartition] = frozenset()
    rates: Mapping[tuple[int, int], tuple[float | None, float | None]] = field(default_factory=dict)
    schemas: Mapping[str, SchemaIds] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TailFound:
    """What a hub tail holds at or beyond the positions: per source partition, and in numbers.

    `samples` are a few of these records of each partition. `unread` are topics that cannot be read,
    and why: of what is written into them it says nothing.
    """

    read: int
    found: int
    parts: Mapping[SourcePartition, Skip]
    samples: Mapping[SourcePartition, tuple[HubSample, ...]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Ends the reads that were given it, from another thread, and those that begin later.

    `flag` is the AtomicBoolean that Java checks.
    """

    flag: Any

    def cancel(self) -> None:
        """End them: each raises ClusterError."""
        self.flag.set(True)


class Connector:
    """The one way to the connector's Java. May be used from any thread."""

    def __init__(self, spark: SparkSession) -> None:
        # Any, because py4j finds Java classes by their names as attributes.
        jvm: Any = spark._jvm
        self._jvm = jvm
        # Each once: to find a class by its name is several calls of its own.
        self._lanes = jvm.aggregator.connector.Lanes
        self._tail = jvm.aggregator.connector.HubTail
        self._samples = jvm.aggregator.connector.SourceSamples
        self._system = jvm.java.lang.System
        self._ends = jvm.aggregator.connector.HubEnds
        self._lanes.answerFor(round(EXECUTOR_SECONDS * 1000))
        self._run = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._token_urls: set[str] = set()
        self._since = 0
        self._moves = 0
        self._over = frozenset[str]()
        self._log_ends: dict[tuple[str, int], dict[SourcePartition, LogEnd]] = {}
        self._fetches = Fetches()
        self._cuts: dict[TopicPartition, int] = {}
        self.news = 0
        """How often a `poll` has found a new report, or that a task or a query came or went."""
        self._sent_snapshot = -1
        self._tasks: dict[tuple[str, int], dict[tuple[int, int], TaskReport]] = {}

    def key(self, lane: str, generation: int) -> str:
        """The key of a life of a lane: of no other one, also of a run before in the same JVM."""
        return f"{lane}#{generation}@{self._run}"

    def allow_tokens_of(self, urls: Collection[str]) -> None:
        """Have Java's clients in this process take tokens from these URLs and those before, alone.

        Those before: what reads a source that is away just now still logs in. What the user has set
        stays, and what cannot be said is not: a comma is between two of them.
        """
        with self._lock:
            self._token_urls |= {url.strip() for url in urls}
            text = ",".join(sorted(self._token_urls))
            given, own = self._system.getProperty(TOKEN_URLS), self._system.getProperty(OWN_URLS)
            if given == own and text.count(",") < max(1, len(self._token_urls)):
                self._system.setProperty(OWN_URLS, text)
                self._system.setProperty(TOKEN_URLS, text)

    def put(self, spec: str, lane: str, generation: int) -> None:
        """Make a life of a lane known before its query starts."""
        with self._lock:
            self._tasks[lane, generation] = {}
        self._lanes.put(spec)

    def order(self, key: str, orders: Orders) -> None:
        """Give orders to all tasks of a lane; they reach them within a fraction of a second."""
        held: dict[str, list[str]] = {}
        for sp in sorted(orders.held):
            held.setdefault(sp.cluster, []).append(f"{sp.topic}/{sp.partition}")
        rates = {f"{reading}-{task}": list(it) for (reading, task), it in orders.rates.items()}
        message = {"end": orders.end, "held": held, "rates": rates, "schemas": orders.schemas}
        self._lanes.order(key, json.dumps(message))

    def poll(self) -> None:
        """Take the tasks' reports since the last call."""
        with self._lock:
            # Before the call: no answer seems newer than it is.
            now = time.monotonic()
            found = parse_reports(str(self._lanes.reports(self._since)), self._tasks)
            is_moved = found.moves != self._moves or found.over != self._over
            self.news += bool(found.tasks) or is_moved
            self._since, self._moves, self._over = found.seq, found.moves, found.over
            self._take_ends(found, now)
            for tp, at in found.cuts:
                self._cuts = least_cuts(self._cuts, {tp: at})
            for task in found.tasks:
                if (own := self._tasks.get((task.lane, task.generation))) is not None:
                    own[task.task] = task

    def take_cuts(self) -> dict[TopicPartition, int]:
        """The hub partitions that were found to be cut off since the last call, and where at most.

        As of the last `poll`: no report before that counts what came after it.
        """
        with self._lock:
            taken, self._cuts = self._cuts, {}
        return taken

    @property
    def fetches(self) -> Fetches:
        """What the answers to the lanes' fetches said of the sources, as of the last `poll`."""
        return self._fetches

    def _take_ends(self, found: Reports, now: float) -> None:
        now_ms = time.time_ns() // 1_000_000
        for task in found.ends:
            if (task.lane, task.generation) not in self._tasks:
                continue
            own = self._log_ends.setdefault((task.lane, task.generation), {})
            for sp, (end, late, doubts) in task.parts.items():
                if late is not None:
                    own[sp] = LogEnd(end, now, now - late, now_ms - round(late * 1000), doubts)
                elif end is not None:
                    own[sp] = LogEnd(end, now, doubts=doubts)
                else:
                    own.pop(sp, None)
        heard = {alias: now - ago for alias, ago in found.unheard.items()}
        ends = self._all_ends() if found.ends else self._fetches.ends
        self._fetches = Fetches(heard, ends)

    def _all_ends(self) -> dict[SourcePartition, LogEnd]:
        return {sp: end for own in self._log_ends.values() for sp, end in own.items()}

    def report(self, lane: str, generation: int, tasks: int) -> LaneReport:
        """The newest report of one life of a lane with `tasks` tasks, as of the last `poll`."""
        with self._lock:
            return join(list(self._tasks.get((lane, generation), {}).values()), tasks)

    def follow(self, key: str, query: StreamingQuery) -> None:
        """Have each `poll` look whether the query of a lane, which has been started, is over."""
        self._lanes.follow(key, query._jsq)

    def is_over(self, key: str) -> bool:
        """Whether the query of a lane was over at the last `poll`."""
        return key in self._over

    def snapshot(self, number: int) -> None:
        """Send the number of the newest hub snapshot: reports name the one that they knew."""
        if number != self._sent_snapshot:
            self._lanes.snapshot(number)
            self._sent_snapshot = number

    def is_open(self, key: str, lost_seconds: float) -> bool:
        """Whether a task of this lane may still send: not after a silence of `lost_seconds`."""
        return bool(self._lanes.isOpen(key, round(lost_seconds * 1000)))

    def forget(self, key: str, lane: str, generation: int) -> None:
        """A life of a lane is over: its clients are closed wherever they are."""
        self._lanes.forget(key)
        with self._lock:
            self._tasks.pop((lane, generation), None)
            self._log_ends.pop((lane, generation), None)
            self._fetches = Fetches(self._fetches.heard, self._all_ends())

    def read_tail(
        self,
        tail: TailPlan,
        consumer: Mapping[str, str],
        compacted: Collection[str],
        cancellation: Cancellation,
    ) -> TailFound:
        """Which origins a hub tail holds; `consumer` are the hub's settings for a Java consumer.

        ClusterError when it cannot be read, or when it was cancelled.
        """
        spec = {
            "consumer": {**consumer, **TAIL_SETTINGS},
            "origin": origin_names(),
            "threads": TAIL_THREADS,
            "compacted": sorted(compacted),
            "ranges": [[*tp, log.earliest, log.latest] for tp, log in tail.ranges.items()],
            "positions": [
                [*sp, at, [[*tp, end] for tp, end in tail.above.get(sp, {}).items()]]
                for sp, at in tail.positions.items()
            ],
        }
        answer = ask_java(
            lambda asked: self._tail.read(asked, cancellation.flag),
            spec,
            "hub: its tail cannot be read",
        )
        return TailFound(
            answer["read"],
            answer["found"],
            dict(_part(row) for row in answer["partitions"]),
            {SourcePartition(*row[:3]): _samples_of(row[5]) for row in answer["partitions"]},
            answer["unread"],
        )

    def read_samples(
        self,
        wanted: Mapping[SourcePartition, Sequence[int]],
        enough: int,
        consumers: Mapping[str, Mapping[str, str]],
        silence: float,
        opening: float,
        cancellation: Cancellation,
    ) -> SampleAnswers:
        """What the sources hold at these offsets, until there is `enough` of each partition.

        `consumers` are the settings for a Java consumer of each source. One that has answered
        nothing for `silence` seconds is silent, or where a login takes more than `opening` seconds.
        ClusterError when it was cancelled.
        """
        aliases = sorted({sp.cluster for sp in wanted})
        spec: dict[str, Any] = {
            "enough": enough,
            "silence_ms": round(silence * 1000),
            "open_ms": round(opening * 1000),
            "limit_ms": round(max(silence, opening) * 1000) * LIMIT_FACTOR,
            "sources": [
                {
                    "consumer": {**consumers[alias], **SAMPLE_SETTINGS},
                    "wanted": [
                        [*sp.topic_partition, list(offsets)]
                        for sp, offsets in wanted.items()
                        if sp.cluster == alias
                    ],
                }
                for alias in aliases
            ],
        }
        answers = ask_java(
            lambda asked: self._samples.read(asked, cancellation.flag),
            spec,
            "samples of the sources cannot be read",
        )
        return _sample_answers(aliases, answers)

    def log_ends(
        self, partitions: Collection[TopicPartition], consumer: Mapping[str, str], timeout: float
    ) -> dict[TopicPartition, int | None]:
        """Where logs of the hub end at their leaders, be it replicated or not.

        None for a leader that does not answer within `timeout` seconds, or long after the others;
        one that keeps no epochs is left out. `consumer` are the hub's settings for a Java consumer.
        ClusterError when nothing is answered.
        """
        asked = [list(tp) for tp in sorted(partitions)]
        return self._ask_leaders(self._ends.read, asked, consumer, timeout)

    def log_starts(
        self, offsets: Mapping[TopicPartition, int], consumer: Mapping[str, str], timeout: float
    ) -> dict[TopicPartition, int | None]:
        """Where the leader began to write that wrote at these offsets of the hub, or last before.

        None for a partition whose leader does not answer in time; one that keeps no epochs, or has
        none that is so old, is left out. The rest is as with `log_ends`.
        """
        asked = [[*tp, at] for tp, at in sorted(offsets.items())]
        return self._ask_leaders(self._ends.starts, asked, consumer, timeout)

    def _ask_leaders(
        self,
        ask: Callable[[str], object],
        partitions: Sequence[Sequence[Any]],
        consumer: Mapping[str, str],
        timeout: float,
    ) -> dict[TopicPartition, int | None]:
        tries = {"request.timeout.ms": str(max(1_000, round(timeout * 1000 / TRIES)))}
        spec = {
            "consumer": {**consumer, **TAIL_SETTINGS, **tries},
            "partitions": partitions,
            "millis": round(timeout * 1000),
        }
        answer = ask_java(ask, spec, "hub: its logs' ends are not all known")
        return {TopicPartition(topic, partition): at for topic, partition, at in answer}

    def cancellation(self) -> Cancellation:
        """A means to end `read_tail` and `read_samples` from another thread."""
        return Cancellation(self._jvm.java.util.concurrent.atomic.AtomicBoolean())


def ask_java(ask: Callable[[str], object], spec: Mapping[str, Any], failed: str) -> Any:
    """What Java answers, both as JSON; a failure is a ClusterError that begins with `failed`."""
    try:
        return json.loads(str(ask(json.dumps(spec))))
    except Py4JJavaError as error:
        raise ClusterError(f"{failed}: {error.java_exception.toString()}") from error


def _part(row: Sequence[Any]) -> tuple[SourcePartition, Skip]:
    cluster, topic, partition, ranges, later, _ = row
    newest = {
        TopicPartition(*hub): {base64.b64decode(key): offset for key, offset in keys}
        for *hub, keys in later
    }
    return SourcePartition(cluster, topic, partition), Skip([(a, b) for a, b in ranges], newest)


def _samples_of(rows: Sequence[Any]) -> tuple[HubSample, ...]:
    return tuple(HubSample(offset, tuple(Print(*it) for it in prints)) for offset, prints in rows)


def _sample_answers(aliases: Sequence[str], answers: Sequence[Any]) -> SampleAnswers:
    records: dict[SourcePartition, dict[int, SourceRecord]] = {}
    ends: dict[SourcePartition, int] = {}
    silent: dict[SourcePartition, str] = {}
    for alias, answer in zip(aliases, answers, strict=True):
        for topic, partition, offset, *record in answer["records"]:
            sp = SourcePartition(alias, topic, partition)
            records.setdefault(sp, {})[offset] = SourceRecord(*record)
        for topic, partition, end in answer["ends"]:
            ends[SourcePartition(alias, topic, partition)] = end
        for topic, partition, why in answer["silent"]:
            silent[SourcePartition(alias, topic, partition)] = why
    return SampleAnswers(records, ends, silent)
