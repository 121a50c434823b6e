"""Reads the hub's logs: the snapshots that bound checkpoints, and what a recovery reads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from aggregator.kafka.admin import ClusterAdmin
from aggregator.kafka.admin.offsets import PartitionOffsets
from aggregator.model.errors import ClusterError
from aggregator.model.events import Event, EventSink
from aggregator.model.failpoint import failpoint
from aggregator.model.values import OffsetRange, TopicPartition

SETTLE_SECONDS = 1.0
"""The hub's ends must not move for this long before a tail is read."""
AGAIN_SECONDS = 0.1
"""Retry interval while some ends are not reported."""
SHOWN_SECONDS = 0.3
"""As a rule all replicas have a record sooner; else the other hub topics are not to wait."""
SETTLE_LIMIT_SECONDS = 15.0
"""Another producer may write into a hub topic all the time: then waiting longer proves nothing."""

LogEnds = Callable[[Collection[TopicPartition], float], Mapping[TopicPartition, int | None]]
"""Returns where logs end at their leaders, within the given seconds; None for one without answer.

ClusterError when none does.
"""


@dataclass(frozen=True, slots=True)
class StoodAt:
    """The hub's ends, and the time on the monotonic clock when they had been reported."""

    ends: Mapping[TopicPartition, int]
    at: float


@dataclass(frozen=True, slots=True)
class TopicLogs:
    """Hub topics: the logs of those of which everything is known, and why the others `wait`."""

    logs: Mapping[TopicPartition, OffsetRange]
    waits: Mapping[str, str] = field(default_factory=dict)

    def without(self, waits: Mapping[str, str]) -> TopicLogs:
        """The same, where these topics (name -> why) wait as well."""
        waits = {**waits, **self.waits}
        return TopicLogs({tp: it for tp, it in self.logs.items() if tp.topic not in waits}, waits)

    def all_of(self, topics: Collection[str]) -> bool:
        """Whether none of these topics waits."""
        return self.waits.keys().isdisjoint(topics)


def stood_at(hub: ClusterAdmin, topics: Mapping[str, int], timeout: float) -> StoodAt:
    """The ends of hub topics that are reported now; none when the hub does not answer.

    Then nothing is concluded from it, and the next call to the hub reports why.
    """
    try:
        return StoodAt(_reported_ends(hub, topics, timeout), time.monotonic())
    except ClusterError:
        return StoodAt({}, time.monotonic())


def read_ends(
    hub: ClusterAdmin, topics: Mapping[str, int], timeout: float
) -> Mapping[TopicPartition, int]:
    """End offsets of hub topics, given as topic -> partition count.

    A partition without an answer is left out: unknown, so its tail begins at its earliest offset.
    Raises ClusterError when the hub does not answer.
    """
    ends = _reported_ends(hub, topics, timeout)
    failpoint("after-snapshot")
    return ends


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

    ClusterError when one is not reported: records outside an incomplete tail would look missing.
    """
    counts = hub.partition_counts(timeout)
    if absent := sorted(set(topics) - counts.keys()):
        raise ClusterError(f"hub: its end offsets are not all known: no {', '.join(absent)}")
    return complete_logs(hub, topics, counts, timeout)


def read_topics(hub: ClusterAdmin, topics: Collection[str], timeout: float) -> TopicLogs:
    """The logs of hub topics as reported now; a topic with a log that is not reported waits.

    Raises ClusterError when the hub does not answer.
    """
    counts = hub.partition_counts(timeout)
    waits = {topic: "it is not there" for topic in topics if topic not in counts}
    found = _logs_of(
        hub, _partitions_of({it: counts[it] for it in topics if it in counts}), timeout
    )
    for tp, why in sorted(found.failed.items()):
        waits.setdefault(tp.topic, f"partition {tp.partition} does not report its offsets: {why}")
    return TopicLogs(found.ranges).without(waits)


def patient_topics(hub: ClusterAdmin, topics: Collection[str], timeout: float) -> TopicLogs:
    """As `read_topics`, where a topic waits only if it is not reported a moment later either.

    A broker may not know yet that it leads what was just created, or moved to it.
    """
    deadline = time.monotonic() + min(timeout, SETTLE_SECONDS)
    found = read_topics(hub, topics, timeout)
    while found.waits and time.monotonic() < deadline:
        time.sleep(AGAIN_SECONDS)
        again = read_topics(hub, found.waits.keys(), timeout)
        found = TopicLogs({**found.logs, **again.logs}, again.waits)
    return found


def later_logs(
    hub: ClusterAdmin, topics: Collection[str], timeout: float, stop: threading.Event
) -> TopicLogs:
    """As `read_topics`, a moment after all leaders of a topic have answered once.

    A broker that hung still processes earlier requests when it answers again. While lanes run the
    ends always move, so only time can show it.
    """
    before = read_topics(hub, topics, timeout)
    stop.wait(SETTLE_SECONDS)
    return read_topics(hub, topics, timeout).without(before.waits)


def settled_logs(
    hub: ClusterAdmin,
    needs: Collection[frozenset[str]],
    timeout: float,
    stop: threading.Event,
    emit: EventSink,
    stood: StoodAt | None = None,
) -> TopicLogs:
    """As `read_topics`, once the ends have stood still: a request may still be under way.

    Of the sets of topics that are needed together, one has to have come to rest; other topics wait
    then. Not waited for at all where they still stand as they `stood` long enough ago, and no
    longer when `stop` is set.
    """
    topics = frozenset().union(*needs)
    deadline = time.monotonic() + SETTLE_LIMIT_SECONDS
    asked = time.monotonic()
    before = read_topics(hub, topics, timeout)
    long_ago = stood is not None and asked - stood.at >= SETTLE_SECONDS
    ends = {tp: log.latest for tp, log in before.logs.items()}
    if stood is not None and long_ago and ends.items() <= stood.ends.items():
        return before
    while not stop.wait(SETTLE_SECONDS):
        now = read_topics(hub, topics, timeout)
        moved = {
            tp.topic: "others write into it, or what was sent before is still under way"
            for tp, log in now.logs.items()
            if tp not in before.logs or before.logs[tp].latest != log.latest
        }
        found = now.without(moved)
        if not moved or any(found.all_of(need) for need in needs):
            return found
        if time.monotonic() > deadline:
            words = f"others keep writing into {', '.join(sorted(moved))}; recovering anyway"
            emit(Event("hub_not_settled", words))
            return now
        before = now
    return before


def whole_logs(
    hub: ClusterAdmin,
    log_ends: LogEnds,
    found: TopicLogs,
    timeout: float,
    stop: threading.Event,
) -> TopicLogs:
    """Topics whose logs can be read up to where their leaders' ended when this was asked.

    A leader may hold records that a replica, which has just died, lacks. They become visible when
    the replica leaves the in-sync set, and stay unless another leader is elected: so leaders are
    asked each time.
    A topic that does not show it all soon waits. ClusterError when `stop` is set, or the hub does
    not answer.
    """
    if not found.logs:
        return found
    answers, now = log_ends(list(found.logs), timeout), dict(found.logs)
    waits = {
        tp.topic: f"the leader of partition {tp.partition} does not report where its log ends"
        for tp, end in sorted(answers.items())
        if end is None
    }
    ends = {tp: end for tp, end in answers.items() if end is not None and tp.topic not in waits}
    deadline = time.monotonic() + SHOWN_SECONDS
    while late := sorted(tp for tp, end in ends.items() if end > now[tp].latest):
        if time.monotonic() > deadline:
            for topic in {tp.topic for tp in late}:
                count = sum(ends[tp] - now[tp].latest for tp in late if tp.topic == topic)
                waits[topic] = f"it holds {count} records that not all replicas have: is one away?"
            break
        if stop.wait(AGAIN_SECONDS):
            raise ClusterError("stopped while the hub was waited for")
        now |= _logs_of(hub, late, timeout).ranges
    return TopicLogs(now, found.waits).without(waits)


def complete_logs(
    hub: ClusterAdmin, topics: Collection[str], counts: Mapping[str, int], timeout: float
) -> dict[TopicPartition, OffsetRange]:
    """The logs of hub topics, of `counts` partitions; a topic that is not in there has none.

    ClusterError when one is not reported within `timeout`: records beyond it would look missing.
    """
    wanted = _partitions_of({topic: counts.get(topic, 0) for topic in topics})
    deadline = time.monotonic() + timeout
    while (found := hub.offsets(wanted, timeout)).failed:
        # A broker may not know yet that it leads what was just created, or moved to it.
        if time.monotonic() > deadline:
            raise ClusterError(f"hub: its end offsets are not all known: {dict(found.failed)}")
        time.sleep(AGAIN_SECONDS)
    return dict(found.ranges)


def _reported_ends(
    hub: ClusterAdmin, topics: Mapping[str, int], timeout: float
) -> dict[TopicPartition, int]:
    partitions = _partitions_of(topics)
    return hub.log_ends(partitions, timeout) if partitions else {}


def _logs_of(
    hub: ClusterAdmin, partitions: Collection[TopicPartition], timeout: float
) -> PartitionOffsets:
    """The logs of partitions; that none of them has a leader is no failure of the hub."""
    try:
        return hub.offsets(partitions, timeout)
    except ClusterError as error:
        return PartitionOffsets({}, dict.fromkeys(partitions, str(error)))


def _partitions_of(topics: Mapping[str, int]) -> list[TopicPartition]:
    return [
        TopicPartition(topic, partition)
        for topic, count in sorted(topics.items())
        for partition in range(count)
    ]
