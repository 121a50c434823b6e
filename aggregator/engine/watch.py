"""Watches the sources' log ends, each source in a thread of its own with its own deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.config.schema import Config
from aggregator.discover import open_admin
from aggregator.model import SourcePartition, TopicPartition

WATCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Watched:
    """What one source last told: log ends (NEXT offsets), or why it told nothing."""

    log_ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    failure: str = ""
    at: float = 0.0


class SourceWatch:
    """Polls one source for the log ends of the partitions it is told to watch.

    A source that hangs delays only its own thread. `latest` is replaced as a whole, so that it
    can be read from any thread.
    """

    def __init__(self, config: Config, alias: str) -> None:
        self.alias = alias
        self.latest = Watched()
        self.partitions: frozenset[SourcePartition] = frozenset()
        self._config = config
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"watch-{alias}", daemon=True)

    def start(self) -> None:
        """Begin to poll."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread soon; nobody waits for a source that hangs."""
        self._stop.set()

    def _loop(self) -> None:
        timeout = self._config.supervision.connect_timeout
        with open_admin(self._config, self.alias) as admin:
            while not self._stop.wait(WATCH_SECONDS):
                wanted: list[TopicPartition] = [sp.topic_partition for sp in self.partitions]
                if not wanted:
                    continue
                try:
                    found = admin.offsets(wanted, timeout)
                except Exception as error:  # a thread has no caller to raise to: it is the answer
                    self.latest = Watched(self.latest.log_ends, str(error), time.monotonic())
                    continue
                ends = {
                    SourcePartition(self.alias, tp.topic, tp.partition): log.latest
                    for tp, log in found.ranges.items()
                }
                self.latest = Watched(ends, "", time.monotonic())
