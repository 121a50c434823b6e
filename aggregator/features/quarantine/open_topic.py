"""The quarantine topic opened for one question or one attempt: hub client, reader, ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime

from aggregator.config.schema import Config
from aggregator.features.quarantine.ledger import Filter, Ledger, LedgerEntry
from aggregator.features.quarantine.reader import QuarantineReader, duplicates_partition
from aggregator.kafka.admin import HUB, ClusterAdmin, open_admin
from aggregator.model.values import TopicPartition


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
