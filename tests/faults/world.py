"""Three sources under load, a hub of three brokers, the application, and a listener at the hub."""

from __future__ import annotations

import shutil
import signal
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from aggregator.config.schema import Config
from aggregator.extras.embedded.broker import Broker
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import admin, end_offsets
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.failpoint import VARIABLE
from faults.load import Writer
from faults.schedule import BATCHES
from support.application import NONE, PROGRAM, SHORT_BATCHES, Application, with_batches
from support.changing import alter_topic
from support.object_store import Store
from support.proxy import Proxy
from support.silence import Arrivals
from support.tokens import TokenServer
from support.wall_clock import WallClock
from support.workers import Workers

TOPIC = "events"
WORKERS = "workers"
"""For `Settings.master`: a standalone Spark master with two workers of its own."""
ALIASES = ("eu", "us", "ap")
AGING = ("short", "compacted")
"""Topics of a soak whose old records go."""
LATER, REFUSED = "later", "refused"
"""How topics are named that are made while it runs: good ones, and those that the hub refuses."""
BACKUPS = 3
"""How many backups of the state are kept: the newest ones."""
SECONDS = 120.0
ASKED_SECONDS = 60.0
"""A broker that is asked may be busy."""

OWN_ENDS_ALLOWED = 4
"""How many lives in a row may end by themselves, without a record, before the round is given up."""

Progress = Callable[[str], None]


class HopelessError(Exception):
    """The application does not come to life any more."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a round runs with; the report shows all of it.

    `session_seconds`, `lag_seconds`: how long the hub waits for a broker without a sign of life,
    and for a follower that does not follow. `batch_seconds`: how long a batch of a lane is; 0: as
    the application has it. `commanded`: the application listens for commands. `store`: the
    checkpoint is on a real object store. `clock`: the application's time of day can be set.
    `locked`: the last source wants a login; `tokens`: it wants one by OAUTHBEARER. `older`: the
    version of the second source, which takes topics that the hub refuses; hub topics then take
    their configs from sources. `proxied`: the application and hub brokers reach hub brokers through
    proxies, and these look every second for producers to forget. `batches`: they are copied as they
    are, where they can be. `soak`: all optional features are on, the load has a daily shape, and
    there are topics that age. `silence_seconds`: how long the others may be silent when something
    is done to one source. `patience`: how many times as long anything may take that has to be in
    time, on a machine that is busy with other things.
    """

    seed: int = 1
    rate: float = 2_000.0
    linger_ms: float = 5.0
    sources: int = len(ALIASES)
    source_partitions: int = 4
    hub_partitions: int = 6
    hub_brokers: int = 3
    replication: int = 3
    min_isr: int = 2
    session_seconds: float = 4.0
    lag_seconds: float = 30.0
    checkpoint_seconds: float = 2.0
    delivery_timeout_seconds: float | None = None
    lanes: str = "auto"
    master: str = "auto"
    log_append_time: bool = False
    java_options: str = ""
    commanded: bool = False
    store: bool = False
    clock: bool = False
    locked: bool = False
    tokens: bool = False
    older: str = ""
    proxied: bool = False
    batch_seconds: float = 0.0
    batches: bool = False
    soak: bool = False
    silence_seconds: float = 5.0
    patience: float = 1.0


@dataclass
class Restart:
    """One start of the application: why, and seconds to its first record (None: none came)."""

    at: float
    why: str
    first_record: float | None = None


@dataclass(frozen=True, slots=True)
class Struck:
    """One fault that was done: when, what, and how long until records flowed again."""

    at: float
    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """What was done to a source, and from when to when the others were watched (ms since 1970)."""

    what: str
    alias: str
    begin_ms: int
    end_ms: int


@dataclass
class World:
    """All that a fault can be done to; `progress` writes a progress line."""

    settings: Settings
    folder: Path
    progress: Progress
    sources: dict[str, EmbeddedCluster] = field(default_factory=dict)
    writers: list[Writer] = field(default_factory=list)
    aging: list[Writer] = field(default_factory=list)
    """Writers into topics whose old records go."""
    lives: list[Application] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    struck: list[Struck] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    hub_arrivals: dict[str, array[int]] = field(default_factory=dict)
    source_arrivals: dict[str, array[int]] = field(default_factory=dict)
    """When records were made, and when the hub appended them; ms since 1970, where it is noted."""
    began: float = field(default_factory=time.monotonic)
    hub: EmbeddedCluster = field(init=False)
    config: Config = field(init=False)
    arrivals: Arrivals = field(init=False)
    token_server: TokenServer | None = None
    proxies: Sequence[Proxy] = field(default_factory=list)
    inner_proxies: list[Proxy] = field(default_factory=list)
    """Before each hub broker, for whom the application talks to, and for other brokers."""
    made_topics: dict[str, str] = field(default_factory=dict)
    """Topics that were made while it ran, of either kind -> the source that has them."""
    backups: list[Path] = field(default_factory=list)
    workers: Workers | None = None
    store: Store | None = None
    clock: WallClock | None = None
    _noted: Application | None = None

    @property
    def app(self) -> Application:
        """The application's present life, or its last one."""
        return self.lives[-1]

    @property
    def seconds(self) -> float:
        """Since this world began."""
        return time.monotonic() - self.began

    @property
    def allowed_seconds(self) -> float:
        """How long a record, a clean stop or a replica may take."""
        return SECONDS * self.settings.patience

    @property
    def aliases(self) -> tuple[str, ...]:
        """Of the sources that there are."""
        return tuple(self.sources)

    @property
    def older_alias(self) -> str:
        """The source that is of another version, where one is."""
        return ALIASES[1]

    @property
    def locked_alias(self) -> str:
        """The source that wants a login, where one does."""
        return ALIASES[self.settings.sources - 1]

    @property
    def state(self) -> Path:
        """The application's checkpoint, and what is beside it: on the disk, or the store's."""
        return self.store.data if self.store else self.folder / "state"

    def start_app(self, why: str, failpoint: str = "", executors: str = "") -> Restart:
        """Start the application without waiting.

        `failpoint` arms its driver, `executors` the JVMs that its tasks run in elsewhere.
        """
        config = self.config
        if executors:
            conf = {**config.spark.conf, f"spark.executorEnv.{VARIABLE}": executors}
            spark = config.spark.model_copy(update={"conf": conf})
            config = config.model_copy(update={"spark": spark})
        ends = {failpoint.partition(":")[0], executors.partition(":")[0]} & set(BATCHES)
        program = with_batches(self.settings.batch_seconds) if self.settings.batch_seconds else None
        self.lives.append(
            Application(
                config,
                self.folder / "app",
                failpoint=failpoint,
                program=SHORT_BATCHES if ends else program or PROGRAM,
                env=self.clock.env if self.clock else NONE,
            )
        )
        self.restarts.append(Restart(self.seconds, why))
        return self.restarts[-1]

    def restart_app(self, why: str) -> Restart:
        """Start it and wait for its first record; a failure is noted when none comes in time."""
        restart = self.start_app(why)
        self.first_record(restart)
        return restart

    def first_record(self, restart: Restart, after: float = 0.0) -> None:
        """Wait for a record that this life wrote: one after the JVM of the last life was gone.

        Not before `after`, where what that one wrote is seen later.
        """
        launched = self.app.started
        after = max(launched, after)
        if len(self.lives) > 1 and self.lives[-2].members():
            self.lives[-2].wait_gone()
            after = time.monotonic()
        if self.wait_for_records(after, why=f"after {restart.why}"):
            restart.first_record = round(self.last_arrival() - launched, 1)

    def last_arrival(self, alias: str = "") -> float:
        """When the hub's newest record, of a source or of any, arrived."""
        arrived = dict(self.arrivals.last)
        return arrived.get(alias, 0.0) if alias else max(arrived.values(), default=0.0)

    def wait_for_records(self, after: float, why: str, alias: str = "") -> bool:
        """Wait until a record arrives after a moment; notes a failure and returns False if none.

        With `alias` only records of that source count.
        """
        seconds = self.allowed_seconds
        deadline = time.monotonic() + seconds
        while self.last_arrival(alias) <= after:
            if not self.app.alive:
                self._note_end(why)
                return False
            if time.monotonic() > deadline:
                self.note(f"{why}: no record for {seconds:.0f} s")
                return False
            time.sleep(0.05)
        return True

    def catch_up(self, why: str) -> None:
        """Wait until the hub holds as much as the sources do by now; a failure when it is late."""
        expected = self.expected()
        deadline = time.monotonic() + self.allowed_seconds
        while self.delivered() < expected and self.app.alive:
            if time.monotonic() > deadline:
                self.note(f"{why}: not caught up within {self.allowed_seconds:.0f} s")
                return
            time.sleep(0.1)

    def keep_alive(self) -> None:
        """Start the application again when it has ended by itself, which is a failure.

        HopelessError when it ends again and again before a record comes.
        """
        while not self.app.alive:
            self._note_end("")
            ends = [restart.first_record for restart in self.restarts[-OWN_ENDS_ALLOWED:]]
            if len(ends) == OWN_ENDS_ALLOWED and not any(ends):
                raise HopelessError(f"it does not start any more: {self.exit_of_app()}")
            self.restart_app("its own end")

    def kill_app(self) -> None:
        """kill -9 of Python; its JVM notices by itself."""
        self.app.kill()

    def stop_app(self) -> None:
        """SIGTERM; a failure is noted when it does not end well in time."""
        seconds = self.allowed_seconds
        self.app.terminate()
        if not self.app.wait(seconds):
            self.note(f"it does not end within {seconds:.0f} s of SIGTERM")
            self.kill_app()
        elif self.app.exit_code != 0 and not self._had_not_begun():
            self.note(f"after SIGTERM: {self.exit_of_app()}")

    def back_up(self) -> None:
        """Copy the state aside, of an application that is gone; an old backup makes room."""
        self.app.wait_gone()
        target = self.folder / f"backup-{round(self.seconds * 1000)}"
        shutil.copytree(self.state, target)
        self.backups.append(target)
        while len(self.backups) > BACKUPS:
            shutil.rmtree(self.backups.pop(0))

    def restore(self, backup: Path | None) -> None:
        """Put a backup in the place of the state, or nothing: then it is lost."""
        self.app.wait_gone()
        shutil.rmtree(self.state)
        if backup is not None:
            shutil.copytree(backup, self.state)

    def _had_not_begun(self) -> bool:
        """Whether it was ended before Python could take a signal: then it has done nothing."""
        return self.app.exit_code == 128 + signal.SIGTERM and not self.app.log.read_text("utf-8")

    def note(self, failure: str) -> None:
        """Something that must not be."""
        self.failures.append(f"[{self.seconds:.0f} s] {failure}")
        self.progress(f"FAILURE: {failure}")

    def _note_end(self, why: str) -> None:
        """Note once that the present life ended by itself."""
        words = f"the application ended by itself: {self.exit_of_app()}"
        if self._noted is not self.app:
            self.note(f"{why}: {words}" if why else words)
            self._noted = self.app

    def exit_of_app(self) -> str:
        """The application's exit code and the error it printed last."""
        lines = self.app.log.read_text("utf-8", errors="replace").splitlines()
        errors = [line for line in lines if line.startswith(("error:", "problem:"))]
        return f"exit code {self.app.exit_code} ({errors[-1] if errors else 'no error in its log'})"

    def broker(self, target: int) -> Broker:
        """A broker of the hub, by any number."""
        return self.hub.brokers[target % len(self.hub.brokers)]

    def source(self, target: int) -> EmbeddedCluster:
        """A source, by any number."""
        return self.sources[self.aliases[target % len(self.aliases)]]

    def leader(self, partition: int = 0) -> Broker:
        """The broker that leads a partition of the hub topic."""
        found = self._metadata()[partition].leader
        return next(broker for broker in self.hub.brokers if broker.node == found)

    def wait_in_sync(self) -> None:
        """Wait until every hub partition has all its replicas; ClusterError when it is late."""

        def whole() -> bool:
            try:
                return all(len(it.isrs) == len(it.replicas) for it in self._metadata().values())
            except KafkaException:
                return False

        late = self.allowed_seconds
        wait_until(whole, seconds=late, what="the hub's replicas are not in sync")

    def set_min_isr(self, number: int) -> None:
        """Set min.insync.replicas of the hub topic."""
        alter_topic(self.hub.admin_servers, TOPIC, {"min.insync.replicas": str(number)})

    def expected(self) -> int:
        """Records that the sources hold."""
        held = sum(
            sum(end_offsets(cluster.admin_servers, TOPIC).values())
            for cluster in self.sources.values()
        )
        for topic, alias in self.topics_in_hub().items():
            held += sum(end_offsets(self.sources[alias].admin_servers, topic).values())
        return held

    def delivered(self) -> int:
        """Records that the hub holds."""
        there = (TOPIC, *(topic for topic in self.topics_in_hub() if self.hub_has(topic)))
        return sum(map(self.records_of, there))

    def records_of(self, topic: str) -> int:
        """Records that the hub holds of a topic, which is there."""
        return sum(end_offsets(self.hub.admin_servers, topic).values())

    def hub_has(self, topic: str) -> bool:
        """Whether the hub has a topic."""
        return topic in admin(self.hub.admin_servers).list_topics(timeout=ASKED_SECONDS).topics

    def topics_in_hub(self) -> dict[str, str]:
        """Topics made while it ran that must be in the hub, and the source that has each.

        One that the hub refuses may be left out; once it is there, it counts.
        """
        return {
            topic: alias
            for topic, alias in self.made_topics.items()
            if not topic.startswith(REFUSED) or self.hub_has(topic)
        }

    def logs_of(self, topic: str) -> dict[int, Path]:
        """The folder of the log of each partition of a hub topic, at its leader."""
        metadata = admin(self.hub.admin_servers).list_topics(topic, timeout=ASKED_SECONDS)
        return {
            number: self.folder / "hub" / f"broker-{it.leader}" / "data" / f"{topic}-{number}"
            for number, it in metadata.topics[topic].partitions.items()
        }

    def _metadata(self) -> Mapping[int, Any]:
        metadata = admin(self.hub.admin_servers).list_topics(TOPIC, timeout=ASKED_SECONDS)
        found: Mapping[int, Any] = metadata.topics[TOPIC].partitions
        return found

    def hub_topic_config(self) -> dict[str, str]:
        """The settings that the hub topic is made with."""
        kind = "LogAppendTime" if self.settings.log_append_time else "CreateTime"
        return {
            "min.insync.replicas": str(self.settings.min_isr),
            "message.timestamp.type": kind,
        }
