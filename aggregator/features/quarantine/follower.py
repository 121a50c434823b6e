"""Follows the quarantine topic during a run, so that each record in it is reported.

Off the critical path: a plain consumer in a thread of its own, from the topic's end at the start.
"""

import threading
import time
from collections import Counter
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING

from aggregator.config.schema import Config
from aggregator.features.quarantine.reader import log_of, quarantine_partition
from aggregator.features.quarantine.records import Quarantined, parse
from aggregator.features.service import Service
from aggregator.kafka.admin import ClusterAdmin
from aggregator.kafka.admin.client_errors import MISSING
from aggregator.kafka.credentials import reader_settings
from aggregator.kafka.reader import AssignedReader, Polled, open_consumer, to_raw
from aggregator.model.errors import AggregatorError
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import Loop
from aggregator.status.schema import QuarantineStatus

POLL_RECORDS = 1_000
PATIENT = {"fetch.wait.max.ms": 2_000}
"""A record comes at once all the same; a broker that has none answers once in this time."""
LOOK_SECONDS = 1.0
"""Between two looks at what has come; none is waited for in between, so that a stop is not held up.
"""
RETRY_SECONDS = 1.0
STOP_SECONDS = 3.0
STOP_POLL_SECONDS = 0.02
EVENT_SECONDS = 5.0
"""A flood of refused records is one event in this many seconds, not one for each."""


class QuarantineWatch(Service):
    """Counts quarantined records, and reports new ones. Nothing here stops a run.

    `hub` is asked at the start and the stop.
    """

    name = "quarantine"

    def __init__(self, config: Config, emit: EventSink, hub: ClusterAdmin) -> None:
        self._config = config
        self._emit = emit
        self._hub = hub
        self._topic = quarantine_partition(config)
        self._sources: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._unreported: list[Quarantined] = []
        self._reported_at = 0.0
        self._from = OFFSET_BEGINNING
        self._is_closing = threading.Event()
        self._loop = Loop(
            "quarantine",
            self._follow,
            every=lambda: RETRY_SECONDS,
            on_error=lambda error: self._note(str(error)),
            stop_seconds=STOP_SECONDS,
        )
        self._latest = QuarantineStatus(topic=self._topic.topic)

    def status(self) -> QuarantineStatus:
        """What has been counted; it may be read from any thread."""
        return self._latest

    def start(self) -> None:
        """Begin to follow the topic from its end. ClusterError when the hub does not answer."""
        log = log_of(self._topic, self._hub, self._config.supervision.connect_timeout)
        # The topic may not exist yet: then all that it will hold is new.
        self._from = OFFSET_BEGINNING if log is None else log.latest
        self._loop.start()

    def stop(self) -> None:
        """Count what is in the topic by now, if the hub answers soon, and end the thread."""
        if not self._loop.is_alive:
            return
        self._is_closing.set()
        deadline = time.monotonic() + STOP_SECONDS
        try:
            log = log_of(self._topic, self._hub, STOP_SECONDS)
        except AggregatorError as error:
            self._note(str(error))
        else:
            # Where the topic was not there at the start it is read from its beginning, wherever.
            while log is not None and max(self._from, log.earliest) < log.latest:
                if time.monotonic() > deadline:
                    self._note(f"not all of {self._topic} could be read at the end")
                    break
                self._loop.over.wait(STOP_POLL_SECONDS)
        self._loop.stop()
        self._report()

    def _follow(self) -> None:
        settings = {**reader_settings(self._config.hub, "aggregator-quarantine"), **PATIENT}
        with closing(open_consumer("hub", settings)) as consumer:
            reader = AssignedReader(consumer, {self._topic: self._from})
            while not self._loop.over.is_set():
                seconds = STOP_POLL_SECONDS if self._is_closing.is_set() else 0.0
                polled = reader.poll(POLL_RECORDS, seconds)
                if not self._take(polled):
                    return
                if time.monotonic() >= self._reported_at + EVENT_SECONDS:
                    self._report()
                if not polled.records:
                    self._is_closing.wait(LOOK_SECONDS)

    def _take(self, polled: Polled) -> bool:
        """Count new records; False while the topic does not exist."""
        for _, message in polled.records:
            raw = to_raw(message)
            if isinstance(item := parse(raw), Quarantined):
                self._count(item)
            self._from = raw.offset + 1
        if any(error.code() in MISSING for _, error in polled.errors):
            return False
        polled.check("hub")
        if any(polled):
            self._note("")
        return True

    def _count(self, record: Quarantined) -> None:
        self._sources[record.origin.partition.cluster] += 1
        self._reasons[record.kind] += 1
        self._unreported.append(record)

    def _note(self, error: str) -> None:
        newest = self._latest.newest
        if self._unreported:
            newest = f"{self._unreported[-1].origin}: {self._unreported[-1].reason}"
        self._latest = QuarantineStatus(
            topic=self._topic.topic,
            records=self._sources.total(),
            reasons=dict(self._reasons),
            newest=newest,
            error=error,
            sources=dict(self._sources),
        )

    def _report(self) -> None:
        if not self._unreported:
            return
        self._reported_at = time.monotonic()
        reported, self._unreported = self._unreported, []
        newest = reported[-1]
        parts = Counter((it.origin.partition.cluster, it.kind) for it in reported)
        words = ", ".join(
            f"{count} of source {alias} ({reason})" for (alias, reason), count in parts.items()
        )
        self._emit(
            Event(
                "quarantined",
                f"records that the hub would refuse went to {self._topic.topic}: {words}; the "
                f"newest is {newest.origin}; aggregator quarantine list shows them",
                {"records": len(reported), "newest": str(newest.origin)},
            )
        )
