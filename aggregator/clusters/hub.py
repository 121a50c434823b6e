"""Reads the hub's logs: the snapshots that bound checkpoints, and what a recovery reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from aggregator.commits.tail import HubSnapshot
from aggregator.discover import ClusterAdmin
from aggregator.errors import ClusterError
from aggregator.events import Event, EventSink
from aggregator.failpoint import failpoint
from aggregator.model import OffsetRange, TopicPartition

SETTLE_SECONDS = 1.0
"""The hub's ends must have stood still for so long before a tail is read."""
AGAIN_SECONDS = 0.2
"""Between two questions for ends that were not all told."""
REPLICATED_LIMIT_SECONDS = 120.0
"""A replica that died or hangs is given up within some 40 s, by Kafka's defaults."""
LEADERS_SECONDS = 5.0
"""So often leaders are asked again meanwhile where their logs end."""
SETTLE_LIMIT_SECONDS = 15.0
"""Somebody else may write into a hub topic all the time: then waiting longer proves nothing."""


LogEnds = Callable[[Collection[TopicPartition], float], Mapping[TopicPartition, int]]
"""Tells where logs end at their leaders, within the given seconds; ClusterError when it cannot."""


@dataclass(frozen=True, slots=True)
class StoodAt:
    """Where the hub's ends stood at a moment, by the monotonic clock when they had been told."""

    ends: Mapping[TopicPartition, int]
    at: float


def stood_at(hub: ClusterAdmin, topics: Mapping[str, int], timeout: float) -> StoodAt:
    """The ends of hub topics now, of those that are told; none when the hub does not answer.

    Then nothing is concluded from it, and whoever needs the hub next says why.
    """
    try:
        return StoodAt(_told_ends(hub, topics, timeout), time.monotonic())
    except ClusterError:
        return StoodAt({}, time.monotonic())


def read_snapshot(hub: ClusterAdmin, topics: Mapping[str, int], timeout: float) -> HubSnapshot:
    """End offsets of hub topics, given as topic -> partition count.

    A partition that does not tell is left out: unknown, so a tail there begins at its earliest.
    Raises ClusterError when the hub does not answer.
    """
    ends = _told_ends(hub, topics, timeout)
    failpoint("after-snapshot")
    return HubSnapshot(time.time_ns() // 1_000_000, ends)


def read_topic_id(hub: ClusterAdmin, topic: str, timeout: float) -> str:
    """The id of a hub topic, "" if the hub gives none. ClusterError when the hub does not say."""
    described = hub.describe_topics([topic], timeout)
    if topic not in described.topics:
        raise ClusterError(f"hub: {topic}: {described.failed.get(topic, 'its id is not known')}")
    return described.topics[topic].topic_id


def read_logs(
    hub: ClusterAdmin, topics: Collection[str], timeout: float
) -> dict[TopicPartition, OffsetRange]:
    """The logs of all partitions of hub topics.

    ClusterError when one is not told: a tail that is not whole would make what it does not show
    look missing.
    """
    counts = hub.partition_counts(timeout)
    if absent := sorted(set(topics) - counts.keys()):
        raise ClusterError(f"hub: its end offsets are not all known: no {', '.join(absent)}")
    return told_logs(hub, topics, counts, timeout)


def later_logs(
    hub: ClusterAdmin, topics: Collection[str], timeout: float, stop: threading.Event
) -> dict[TopicPartition, OffsetRange]:
    """As `read_logs`, a moment after all leaders have answered once.

    A broker that hung carries out what it was sent before when it answers again. Beside lanes that
    run the ends never stand still, so nothing but time tells.
    """
    read_logs(hub, topics, timeout)
    stop.wait(SETTLE_SECONDS)
    return read_logs(hub, topics, timeout)


def settled_logs(
    hub: ClusterAdmin,
    topics: Collection[str],
    timeout: float,
    stop: threading.Event,
    emit: EventSink,
    stood: StoodAt | None = None,
) -> dict[TopicPartition, OffsetRange]:
    """As `read_logs`, once the ends have stood still: a request may still be under way.

    Not waited for at all where they still stand as they `stood` long enough ago, and no longer when
    `stop` is set.
    """
    deadline = time.monotonic() + SETTLE_LIMIT_SECONDS
    asked = time.monotonic()
    before = read_logs(hub, topics, timeout)
    long_ago = stood is not None and asked - stood.at >= SETTLE_SECONDS
    if stood is not None and long_ago and _ends(before).items() <= stood.ends.items():
        return before
    while not stop.wait(SETTLE_SECONDS):
        now = read_logs(hub, topics, timeout)
        if _ends(now) == _ends(before):
            return now
        if time.monotonic() > deadline:
            names = ", ".join(sorted(topics))
            words = f"others keep writing into {names}; recovering anyway"
            emit(Event("hub_not_settled", words))
            return now
        before = now
    return before


def whole_logs(
    hub: ClusterAdmin,
    log_ends: LogEnds,
    logs: Mapping[TopicPartition, OffsetRange],
    timeout: float,
    stop: threading.Event,
    emit: EventSink,
) -> dict[TopicPartition, OffsetRange]:
    """Logs as they were read, once all can be read that their leaders held when this was asked.

    A leader may hold what a replica lacks that has just died: nobody sees it before that one is
    given up, and it stays. Unless another leader takes its place, whose log then counts.
    ClusterError when that takes too long.
    """
    now, whole = dict(logs), dict(log_ends(list(logs), timeout))
    began, told, ask_at = time.monotonic(), False, LEADERS_SECONDS
    while late := sorted(tp for tp, end in whole.items() if end > now[tp].latest):
        count = sum(whole[tp] - now[tp].latest for tp in late)
        names = ", ".join(sorted({tp.topic for tp in late}))
        words = f"{count} records in {names} that not all replicas have"
        waited = time.monotonic() - began
        # Where others write it is so for a moment all the time.
        if not told and waited >= SETTLE_SECONDS:
            emit(Event("hub_not_replicated", f"waiting until the hub shows {words}"))
            told = True
        if waited > REPLICATED_LIMIT_SECONDS:
            raise ClusterError(f"hub: it holds {words}, and does not show them: is a broker away?")
        if waited >= ask_at:
            ask_at = waited + LEADERS_SECONDS
            newer = log_ends(late, timeout)
            whole |= {tp: min(whole[tp], newer.get(tp, whole[tp])) for tp in late}
        if stop.wait(AGAIN_SECONDS):
            raise ClusterError("stopped while the hub was waited for")
        counts = {tp.topic: 0 for tp in late}
        counts = {name: max(it.partition for it in now if it.topic == name) + 1 for name in counts}
        now |= told_logs(hub, list(counts), counts, timeout)
    return now


def told_logs(
    hub: ClusterAdmin, topics: Collection[str], counts: Mapping[str, int], timeout: float
) -> dict[TopicPartition, OffsetRange]:
    """The logs of hub topics, of `counts` partitions; a topic that is not in there has none.

    ClusterError when one is not told within `timeout`: what does not show would look missing.
    """
    wanted = [
        TopicPartition(topic, partition)
        for topic in sorted(topics)
        for partition in range(counts.get(topic, 0))
    ]
    deadline = time.monotonic() + timeout
    while (found := hub.offsets(wanted, timeout)).failed:
        # A broker may not know yet that it leads what was just created, or moved to it.
        if time.monotonic() > deadline:
            raise ClusterError(f"hub: its end offsets are not all known: {dict(found.failed)}")
        time.sleep(AGAIN_SECONDS)
    return dict(found.ranges)


def _told_ends(
    hub: ClusterAdmin, topics: Mapping[str, int], timeout: float
) -> dict[TopicPartition, int]:
    partitions = [
        TopicPartition(topic, partition)
        for topic, count in sorted(topics.items())
        for partition in range(count)
    ]
    return _ends(hub.offsets(partitions, timeout).ranges) if partitions else {}


def _ends(logs: Mapping[TopicPartition, OffsetRange]) -> dict[TopicPartition, int]:
    return {tp: log.latest for tp, log in logs.items()}
