"""Consumer groups without members: where they are in the sources, and where they come to be.

`planned` and `compared` are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.extras.embedded.topics import admin, end_offsets
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import ClusterError
from aggregator.model.values import TopicPartition

SECONDS = 60.0

Offsets = dict[str, dict[TopicPartition, int]]
"""Group -> what it has committed."""


class Moved(NamedTuple):
    """What groups read again at the hub, what they miss, and where they have no offset.

    Where they have none they begin at the log's start, so that all that was read counts as again.
    """

    again: int
    missed: int
    unset: int


def planned(ends: Mapping[TopicPartition, int], groups: int) -> Offsets:
    """Offsets of this many groups: one half spread over the logs, the other at their ends."""
    inside = groups // 2
    shares = [number / (inside + 1) for number in range(1, inside + 1)]
    shares += [1.0] * (groups - inside)
    return {
        f"bench-{number:02d}": {tp: int(end * share) for tp, end in ends.items()}
        for number, share in enumerate(shares, 1)
    }


def compared(exact: Offsets, found: Offsets) -> Moved:
    """Compare what groups have at the hub with where they have to continue."""
    again = missed = unset = 0
    for group, offsets in exact.items():
        own = found.get(group, {})
        for tp, offset in offsets.items():
            unset += tp not in own
            behind = offset - own.get(tp, 0)
            again += max(0, behind)
            missed += max(0, -behind)
    return Moved(again, missed, unset)


def log_ends(servers: str, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Where the logs of these topics end."""
    return {
        TopicPartition(topic, partition): end
        for topic in topics
        for partition, end in end_offsets(servers, topic).items()
    }


def commit(servers: str, offsets: Offsets) -> None:
    """Commit offsets of groups; ClusterError when it cannot be done."""
    for group, own in offsets.items():
        rows = [ClientPartition(*tp, offset) for tp, offset in own.items()]
        consumer = _consumer(servers, group)
        try:
            wait_until(
                partial(_committed, consumer, rows),
                seconds=SECONDS,
                what=f"group {group} has committed",
            )
        finally:
            consumer.close()


def _committed(consumer: Consumer, rows: list[ClientPartition]) -> bool:
    # At first a group has no coordinator.
    with suppress(KafkaException):
        consumer.commit(offsets=rows, asynchronous=False)
        return True
    return False


def delete(servers: str, groups: Sequence[str]) -> None:
    """Delete groups, where they exist; ClusterError when one cannot be deleted."""
    client = admin(servers)
    for group, future in client.delete_consumer_groups(list(groups)).items():
        try:
            future.result(SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise ClusterError(f"delete group {group}: {error.args[0]}") from error


class Followed:
    """What groups have committed, asked with a client each that is kept; none joins its group.

    A context manager.
    """

    def __init__(self, servers: str, wanted: Offsets) -> None:
        self._rows = {
            group: [ClientPartition(*tp) for tp in offsets] for group, offsets in wanted.items()
        }
        self._consumers = {group: _consumer(servers, group) for group in wanted}

    def __enter__(self) -> Followed:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def committed(self) -> Offsets:
        """The offsets of each group, where it has any. ClusterError without an answer."""
        try:
            return {group: self._of(group) for group in self._consumers}
        except KafkaException as error:
            raise ClusterError(f"hub: offsets of groups: {error.args[0]}") from error

    def _of(self, group: str) -> dict[TopicPartition, int]:
        answer = self._consumers[group].committed(self._rows[group], timeout=SECONDS)
        return {
            TopicPartition(it.topic, it.partition): it.offset for it in answer if it.offset >= 0
        }


def _consumer(servers: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
