"""What a tee knows of the hub's topics: their ids, which are gone, and when all has landed."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import SparkSession

from aggregator.features.delta_sink.hub_topics_now import HubLook, TopicNow
from aggregator.features.delta_sink.land_batch import Attempt, TableKnown
from aggregator.features.delta_sink.next_batch import Landed
from aggregator.features.delta_sink.sink import _Tee
from aggregator.features.delta_sink.topic_progress import MOST_NAMED, Topic
from aggregator.kafka.admin import ClusterAdmin, PartitionOffsets
from aggregator.kafka.admin.topic_facts import Described
from aggregator.model.errors import ClusterError
from aggregator.model.events import Event
from aggregator.model.values import OffsetRange, TopicFacts, TopicPartition
from support.flow_world import config_of

SESSION = SimpleNamespace(conf=SimpleNamespace(set=lambda *_: None))
SPARK = cast("SparkSession", SimpleNamespace(newSession=lambda: SESSION))


class Hub:
    """Topics of one partition: the id of each, and where its log ends; None where none leads it.

    A transaction is open at `stable`, if that is an offset.
    """

    def __init__(self) -> None:
        self.topics: dict[str, tuple[str, int | None]] = {"orders": ("a", 5)}
        self.stable: int | None = None
        self.is_away = False
        self.described = 0

    def partition_counts(self, _: float) -> dict[str, int]:
        return dict.fromkeys(self.topics, 1)

    def offsets(self, wanted: Iterable[TopicPartition], _: float) -> PartitionOffsets:
        ends = {tp: self.topics[tp.topic][1] for tp in wanted}
        return PartitionOffsets(
            {tp: OffsetRange(0, end) for tp, end in ends.items() if end is not None},
            {tp: "it has no leader" for tp, end in ends.items() if end is None},
        )

    def stable_offsets(self, wanted: Iterable[TopicPartition], seconds: float) -> PartitionOffsets:
        found = self.offsets(wanted, seconds)
        if self.stable is None:
            return found
        ranges = {tp: OffsetRange(it.earliest, self.stable) for tp, it in found.ranges.items()}
        return PartitionOffsets(ranges, found.failed)

    def describe_topics(self, names: Iterable[str], _: float) -> Described:
        if self.is_away:
            raise ClusterError("hub: no answer")
        self.described += 1
        return Described({it: TopicFacts(it, self.topics[it][0], 1, 1) for it in names})


def look_at(hub: Hub) -> HubLook:
    return HubLook(config_of(), cast("ClusterAdmin", hub))


def test_what_lies_behind_an_open_transaction_is_not_there_yet() -> None:
    hub = Hub()
    hub.stable = 3
    assert look_at(hub).now().topics == {"orders": TopicNow("a", {0: OffsetRange(0, 3)})}
    # It is where all is read.
    plain = config_of()
    every = {"kafka": {"isolation.level": "read_uncommitted"}}
    config = plain.model_copy(update={"hub": plain.hub.model_copy(update=every)})
    look = HubLook(config, cast("ClusterAdmin", hub))
    assert look.now().topics == {"orders": TopicNow("a", {0: OffsetRange(0, 5)})}


def test_ids_are_asked_for_now_and_then() -> None:
    hub = Hub()
    look = look_at(hub)
    for end in range(5, 9):
        hub.topics["orders"] = ("a", end)
        assert look.now().topics == {"orders": TopicNow("a", {0: OffsetRange(0, end)})}
    assert hub.described == 1


@pytest.mark.parametrize("others", [{}, {"others": ("x", 1)}])
def test_a_topic_that_is_back_is_asked_for_its_id(
    others: dict[str, tuple[str, int | None]],
) -> None:
    hub = Hub()
    look = look_at(hub)
    look.now()
    hub.topics = {**others}
    assert "orders" not in look.now().topics
    # It holds more already than has landed of the one before it.
    hub.topics["orders"] = ("b", 9)
    assert look.now().topics["orders"].topic_id == "b"


def test_a_log_that_is_shorter_behind_an_election_is_of_another_topic() -> None:
    hub = Hub()
    look = look_at(hub)
    look.now()
    hub.topics["orders"] = ("b", None)
    assert look.now().failed == {"orders": "hub: orders-0: it has no leader"}
    hub.topics["orders"] = ("b", 3)
    assert look.now().topics["orders"].topic_id == "b"


def test_an_id_that_could_not_be_asked_for_is_asked_for_again() -> None:
    hub = Hub()
    look = look_at(hub)
    look.now()
    hub.topics["orders"], hub.is_away = ("b", 3), True
    with pytest.raises(ClusterError, match="no answer"):
        look.now()
    hub.is_away = False
    assert look.now().topics["orders"].topic_id == "b"


def test_of_a_topic_that_the_hub_has_no_longer_nothing_waits_or_fails() -> None:
    events: list[Event] = []
    topic = Topic(config_of(), SPARK, "orders", events.append)
    now = TopicNow("a", {0: OffsetRange(0, 7)})
    topic._failed("there is no such topic")
    assert (topic.document(now).lag, topic.document(now).failing) == (
        None,
        "there is no such topic",
    )
    assert (topic.document(None).lag, topic.document(None).failing) == (0, "")
    topic.known = TableKnown(Landed("a", {0: 5}))
    assert [topic.document(it).lag for it in (now, None)] == [2, 0]
    # That the hub does not report all of it is no sign that it is gone.
    topic.unreported = "hub: orders-0: it has no leader"
    assert topic.document(None).lag is None
    assert topic.document(None).failing


def test_fields_that_are_left_out_are_named_once_and_only_some_of_very_many() -> None:
    events: list[Event] = []
    topic = Topic(config_of(), SPARK, "orders", events.append)
    known = TableKnown(Landed("a", {0: 5}))
    for last in (1, MOST_NAMED + 3, MOST_NAMED + 3):
        left_out = tuple(f"f{at}: there are too many columns" for at in range(last))
        topic._landed(Attempt(known, committed=True, left_out=left_out))
    assert {it.kind for it in events} == {"tee_field_warning"}
    assert len(events) == 1 + MOST_NAMED + 1
    assert "f0: there are too many columns" in events[0].message
    assert "each of 2 more fields stays in column value alone" in events[-1].message


def test_all_is_there_when_each_topic_has_landed_up_to_where_it_was_first_seen(
    tmp_path: Path,
) -> None:
    hub = Hub()
    config = config_of(**{"tee.path": str(tmp_path / "tee")})
    look = HubLook(config, cast("ClusterAdmin", hub))
    tee = _Tee(config, SPARK, look, lambda _: None, lambda _: None, threading.Event())
    # At the start it gives no answer.
    for end in (None, 7, 9):
        hub.topics["orders"] = ("a", end)
        tee._ask(True)
    topic = tee._topics["orders"]
    for position, done in ((5, False), (7, True)):
        topic.known = TableKnown(Landed("a", {0: position}))
        assert tee._is_done() is done
    # Another one by this name never gets as far as the one before it was, perhaps.
    hub.topics["orders"] = ("b", 3)
    tee._ask(True)
    for position, done in ((2, False), (3, True)):
        topic.known = TableKnown(Landed("b", {0: position}))
        assert tee._is_done() is done
