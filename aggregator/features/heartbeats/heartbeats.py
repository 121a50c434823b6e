"""Writes heartbeats into a topic of the hub for each source that is read.

For others to look at only: nothing is ever read from it. They are written by a thread with a
producer of its own, so that a hub that refuses them, or hangs, delays nothing else.

Their bytes are MirrorMaker 2's (org.apache.kafka.connect.mirror.Heartbeat, Kafka 4.3), structs of
Kafka's protocol: numbers in network order, and a string as its length in two bytes and its UTF-8
text.
"""

import struct
import time
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, Producer

from aggregator.config.kafka_settings import ignore
from aggregator.config.schema import Config
from aggregator.features.service import Looped, Now, Service
from aggregator.kafka.admin import HUB, ClusterAdmin, apply, open_admin
from aggregator.kafka.admin.client_errors import AUTHORIZATION, text_of
from aggregator.kafka.credentials import client_settings
from aggregator.model.errors import ClusterError
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import Loop
from aggregator.model.values import HEARTBEATS_TOPIC, SourcePartition, SourceState
from aggregator.plan.topics.heartbeats_topic import HEARTBEATS_PARTITION, creation, how_to_create
from aggregator.status.schema import HeartbeatsStatus

TARGET = "hub"
"""What the hub is called in a heartbeat: the config knows no alias of it."""
VERSION = 0


def beating(
    states: Mapping[str, SourceState], reading: Collection[SourcePartition]
) -> frozenset[str]:
    """The sources that get a heartbeat: they answer, and of each a lane reads some partition.

    So one that is paused, silent, refused or not selected gets none, and that says so.
    """
    read = {sp.cluster for sp in reading}
    well = {alias for alias, state in states.items() if state.is_well}
    return frozenset(read & well)


def key_of(source: str, target: str = TARGET) -> bytes:
    """The key of a heartbeat: {source alias, target alias}."""
    return _text(source) + _text(target)


def value_of(at_ms: int) -> bytes:
    """The value of a heartbeat: a header {version}, then {timestamp}."""
    return struct.pack(">hq", VERSION, at_ms)


def _text(words: str) -> bytes:
    content = words.encode()
    return struct.pack(">h", len(content)) + content


EVERY_SECONDS = 1.0
RETRY_SECONDS = 5.0
"""The wait after a failure: each attempt opens a new connection."""
DELIVERY_SECONDS = 5.0
"""A heartbeat that has not arrived by then is given up: the next one says more."""
STALE_SECONDS = 30.0
"""A source that was last named as read this long ago may not be read any more."""
POLL_SECONDS = 0.1


class HeartbeatWriter(Looped):
    """Writes heartbeats for the sources that it was last given, until it is ended.

    `written` are those of the last time. `failure` says why none arrive, or is empty; it is tried
    again until they do.
    """

    def __init__(self, config: Config, emit: EventSink) -> None:
        self.failure = ""
        self.written: frozenset[str] = frozenset()
        self._config = config
        self._emit = emit
        self._wanted: tuple[float, frozenset[str]] = (0.0, frozenset())
        self._admin: ClusterAdmin | None = None
        self._producer: Producer | None = None
        self._loop = Loop(
            "heartbeats",
            self._turn,
            # One that is late is not made up for: there are never two at once.
            every=lambda: RETRY_SECONDS if self.failure else EVERY_SECONDS,
            on_error=self._fail,
            finish=self._close,
        )

    def follow(self, config: Config, aliases: Collection[str]) -> None:
        """These sources are read now, by this config; of the hub's address it must say the same."""
        self._config = config
        self._wanted = (time.monotonic(), frozenset(aliases))
        self._loop.start()

    def _turn(self) -> None:
        # No client comes of its settings, perhaps. A file that they name may be mended.
        self._admin = self._admin or open_admin(self._config, HUB)
        self._beat(self._admin)

    def _close(self) -> None:
        """In its thread: this may take as long as a name that is looked up."""
        self._producer = None
        if self._admin is not None:
            self._admin.close()

    def _beat(self, admin: ClusterAdmin) -> None:
        asked_at, wanted = self._wanted
        if time.monotonic() - asked_at > STALE_SECONDS:
            wanted = frozenset()
        if wanted:
            self._write(self._producer or self._open(admin), wanted)
        self.written = wanted
        if wanted:
            # Only what has arrived shows that they do.
            self.failure = ""

    def _fail(self, error: Exception) -> None:
        self._producer = None
        if self._loop.over.is_set():
            return
        if not self.failure:
            self._emit(Event("heartbeats_failed", f"no heartbeats are written: {error}"))
        self.failure, self.written = str(error), frozenset()

    def _open(self, admin: ClusterAdmin) -> Producer:
        """A producer, when the topic is there. Else a broker might make one of another kind."""
        timeout = self._config.supervision.connect_timeout
        if HEARTBEATS_TOPIC not in admin.partition_counts(timeout):
            self._create(admin, timeout)
        self._producer = Producer(
            {
                **client_settings(self._config.hub),
                "client.id": "aggregator-heartbeats",
                "message.timeout.ms": int(DELIVERY_SECONDS * 1000),
                "linger.ms": 0,
                "log_level": 0,
                "error_cb": ignore,
            }
        )
        return self._producer

    def _create(self, admin: ClusterAdmin, timeout: float) -> None:
        action = creation(self._config)
        if action is None:
            raise ClusterError(how_to_create())
        (done,) = apply([action], admin, timeout)
        if not done.ok:
            raise ClusterError(f"hub: {action}: {done.reason}")
        if done.changed:
            self._emit(Event("hub_changed", str(action)))

    def _write(self, producer: Producer, aliases: Collection[str]) -> None:
        """Write one for each source and wait until they have arrived. ClusterError if not."""
        now_ms = time.time_ns() // 1_000_000
        answers: list[KafkaError | None] = []
        for alias in sorted(aliases):
            producer.produce(
                HEARTBEATS_TOPIC,
                value_of(now_ms),
                key_of(alias),
                HEARTBEATS_PARTITION,
                on_delivery=lambda error, _: answers.append(error),
                timestamp=now_ms,
            )
        # The client gives each up in time, so this ends.
        while len(answers) < len(aliases):
            producer.poll(POLL_SECONDS)
            if self._loop.over.is_set():
                producer.purge()
                return
        if (error := next((it for it in answers if it is not None), None)) is not None:
            raise ClusterError(_reason(error))


class Heartbeats(Service):
    """The heartbeats of a run, while its config asks for them."""

    name = "heartbeats"

    def __init__(self, emit: EventSink) -> None:
        self._emit = emit
        self._writer: HeartbeatWriter | None = None
        self._ended = False

    def follow(self, now: Now) -> None:
        """Write them for the sources that are read, when the config asks for it."""
        if self._ended:
            return
        config = now.config
        if config.heartbeats and self._writer is None:
            self._writer = HeartbeatWriter(config, self._emit)
        elif not config.heartbeats and self._writer is not None:
            self._writer.end()
            self._writer = None
        if self._writer is not None:
            self._writer.follow(config, now.reading)

    def status(self) -> HeartbeatsStatus | None:
        """Who had one just now; None where the config asks for none."""
        if self._writer is None:
            return None
        sources = tuple(sorted(self.written))
        return HeartbeatsStatus(topic=HEARTBEATS_TOPIC, sources=sources, error=self.failure)

    def end(self) -> None:
        """Write none any more; returns at once, and none is written again by this run."""
        self._ended = True
        if self._writer is not None:
            self._writer.end()

    @property
    def written(self) -> frozenset[str]:
        """The sources that had a heartbeat just now."""
        return self._writer.written if self._writer is not None else frozenset()

    @property
    def failure(self) -> str:
        """Why no heartbeats arrive at the hub, or ""."""
        return self._writer.failure if self._writer is not None else ""

    def stop(self) -> None:
        """End it, and wait a moment for that."""
        self.end()
        if self._writer is not None:
            self._writer.stop()


def _reason(error: KafkaError) -> str:
    text = text_of(error)
    if error.code() == KafkaError._MSG_TIMED_OUT:
        text = f"no answer within {DELIVERY_SECONDS:g} s"
    hint = f"; allow WRITE on topic {HEARTBEATS_TOPIC}" if error.code() in AUTHORIZATION else ""
    return f"hub topic {HEARTBEATS_TOPIC}: {text}{hint}"
