"""Reads the quarantine topic, or the topic of the duplicates, into a ledger.

It is opened for one question or one attempt: hub client, reader, ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

from aggregator.config.schema import Config
from aggregator.features.quarantine.ledger import Filter, Ledger, LedgerEntry
from aggregator.features.quarantine.records import parse
from aggregator.kafka.admin import HUB, ClusterAdmin, open_admin
from aggregator.kafka.reader import RangeReader
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, TopicPartition
from aggregator.plan.topics.quarantine_topics import (
    QUARANTINE_PARTITION,
    duplicates_topic,
    quarantine_topic,
)


@contextmanager
def opened(
    config: Config,
    ledger: Ledger | None = None,
    place: TopicPartition | None = None,
    since_ms: int | None = None,
) -> Iterator[tuple[ClusterAdmin, QuarantineReader, Ledger]]:
    """The reader and the writer of the topic, and the ledger: a new one, or one that is continued.

    Of the quarantine topic, if `place` is no other. A new one begins with what arrived at
    `since_ms`. Raises ClusterError when the hub does not answer, or refuses.
    """
    with open_admin(config, HUB) as admin, QuarantineReader(config, place) as reader:
        found = Ledger() if ledger is None else ledger
        yield admin, reader, reader.read_ledger(admin, found, since_ms)


def opened_duplicates(
    config: Config, since: datetime
) -> AbstractContextManager[tuple[ClusterAdmin, QuarantineReader, Ledger]]:
    """The same of the topic of the duplicates: what was dropped since then. Raises as `opened`."""
    return opened(config, None, duplicates_partition(config), int(since.timestamp() * 1000))


def chosen_of(ledger: Ledger, wanted: Filter) -> tuple[list[LedgerEntry], list[str]]:
    """The entries that can be retried, and named origins that cannot."""
    chosen = list(ledger.select(wanted, retried=False))
    found = {it.record.origin for it in chosen}
    return chosen, sorted(str(it) for it in wanted.origins or () if it not in found)


class QuarantineReader(RangeReader):
    """Reads as any RangeReader, and ledgers of the topic at `place`."""

    def __init__(self, config: Config, place: TopicPartition | None = None) -> None:
        super().__init__(config)
        self.place = quarantine_partition(config) if place is None else place
        """The partition that notes go to as well: of the quarantine topic, if it is no other."""

    def __enter__(self) -> QuarantineReader:
        return self

    def read_ledger(
        self, admin: ClusterAdmin, ledger: Ledger, since_ms: int | None = None
    ) -> Ledger:
        """Add to a ledger what the topic holds and it does not; `admin` is the hub's.

        A new one begins with what arrived at `since_ms`. Nothing when there is no such topic.
        """
        log = log_of(self.place, admin, self._timeout, exists=len(ledger) > 0)
        if log is None:
            return ledger
        if log.latest < ledger.next_offset:
            ledger.clear()
        start = max(ledger.next_offset, log.earliest)
        if since_ms is not None and not ledger.next_offset:
            first = self.first_since(HUB, self.place, since_ms)
            start = max(start, log.latest if first is None else first)
        for raw in self.read_range(HUB, self.place, OffsetRange(start, log.latest)):
            ledger.add(parse(raw), raw.offset, raw.at_ms if raw.by_broker else None)
        return ledger


def quarantine_partition(config: Config) -> TopicPartition:
    """The one partition that everything goes to that the hub refuses."""
    return TopicPartition(quarantine_topic(config), QUARANTINE_PARTITION)


def duplicates_partition(config: Config) -> TopicPartition:
    """The one partition that everything goes to that dedup drops."""
    return TopicPartition(duplicates_topic(config), QUARANTINE_PARTITION)


def log_of(
    place: TopicPartition, admin: ClusterAdmin, timeout: float, *, exists: bool = False
) -> OffsetRange | None:
    """What a partition spans now; None when there is no such topic.

    `admin` is the hub's; `exists` saves a question. Raises ClusterError when the hub does not
    answer.
    """
    if not exists and place.topic not in admin.partition_counts(timeout):
        return None
    found = admin.offsets([place], timeout)
    if place not in found.ranges:
        raise ClusterError(f"hub: {place}: {found.failed[place]}")
    return found.ranges[place]
