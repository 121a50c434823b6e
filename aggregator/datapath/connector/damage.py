"""Finds how far a log is unreadable from a position, by trying each offset on the driver.

Kafka's client reads nothing behind a batch with a wrong sum, nor does it say where that ends. But
it names the batch's first offset, whichever of its offsets it was to read. So the offset behind the
batch is searched: the lowest one whose answer is not that batch. librdkafka is no help here: it
takes the bytes behind such a batch for another one, and then aborts the process.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from aggregator.config.kafka_settings import isolation_of, jvm_settings
from aggregator.config.schema import ClusterConfig
from aggregator.model.values import OffsetRange, TopicPartition
from aggregator.plan.positions.start import Damage

SETTINGS = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "none",
    # One record is looked at, or the batch that it is in.
    "max.poll.records": "1",
    "max.partition.fetch.bytes": "1",
}
STEP = 8
"""A batch has up to some thousands of records: how fast the search goes up before it bisects."""


@dataclass(slots=True)
class Search:
    """The search for the end of what cannot be read in one log, between a position and its end.

    `at` is the offset to try next; None when the search is over. Of the damaged batch that begins
    at `batch`, `low` is the highest offset tried, and `high` the lowest one that is not in it;
    `behind` is the damaged batch that was met there, if it was one.
    """

    position: int
    limit: int
    at: int | None = None
    reason: str = ""
    batch: int | None = None
    low: int = 0
    high: int = 0
    behind: int | None = None
    step: int = 1
    end: int | None = None

    def __post_init__(self) -> None:
        self.at = self.position

    def readable(self) -> None:
        """What lies at the offset that was tried, or behind it, is no damaged batch."""
        if self.batch is None:
            self.at, self.end = None, self.position
        elif self.at is not None:
            self.high, self.behind = self.at, None
            self._continue()

    def damaged(self, batch: int, reason: str) -> None:
        """A damaged batch that begins at this offset was met."""
        if self.at is None:
            return
        self.reason = self.reason or reason
        if self.batch is None:
            self._begin(batch, self.at)
        elif batch == self.batch:
            self.low = self.at
        else:
            self.high, self.behind = self.at, batch
        self._continue()

    def hear(self, answer: Mapping[str, Any]) -> bool:
        """Take what `DamageReader` says of `at`; False when that ends the search."""
        if answer.get("readable"):
            self.readable()
        elif answer.get("batch", -1) >= 0:
            self.damaged(answer["batch"], answer["reason"])
        else:
            self.reason = self.reason or answer.get("reason", "")
            return False
        return self.at is not None

    def found(self) -> Damage | None:
        """What is known by now; None when nothing was met."""
        if self.at is not None and not self.reason:
            return None
        return Damage(self.position, self.end, self.reason)

    def _begin(self, batch: int, low: int) -> None:
        self.batch, self.low, self.high, self.behind, self.step = batch, low, self.limit, None, 1

    def _continue(self) -> None:
        while self.high - self.low == 1:
            self.end = self.high
            if self.behind is None:
                self.at = None
                return
            self._begin(self.behind, self.high)
        if self.high == self.limit and self.behind is None:
            self.at = min(self.low + self.step, self.high - 1)
            self.step *= STEP
        else:
            self.at = (self.low + self.high) // 2


class DamageFinder:
    """Reads sources by Kafka's own client. May be used from any thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = spark._jvm.aggregator.connector.DamageReader  # type: ignore[union-attr]

    def read_on(
        self, source: ClusterConfig, logs: Mapping[TopicPartition, OffsetRange], seconds: float
    ) -> dict[TopicPartition, Damage]:
        """What is met in these logs, from a position to the end of each, where there is an answer.

        Takes `seconds` and, once more, as long as a login takes.
        """
        own = jvm_settings(source, "consumer")
        settings = {**own, "isolation.level": isolation_of(source), **SETTINGS}
        try:
            reader = self._java.open(json.dumps(settings))
        except Py4JJavaError:
            return {}
        searches = {tp: Search(log.earliest, log.latest) for tp, log in logs.items()}
        deadline = time.monotonic() + seconds
        try:
            for tp, search in searches.items():
                while search.at is not None and (left := deadline - time.monotonic()) > 0:
                    answer = reader.met(*tp, search.at, round(left * 1000))
                    if not search.hear(json.loads(str(answer))):
                        break
        finally:
            reader.close()
        return {tp: found for tp, it in searches.items() if (found := it.found()) is not None}
