"""What is asked for groups that are translated together, and how often; what clusters answer has
real ones (tests/integration/test_groups_at_the_hub.py)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.load import load_text
from aggregator.features.groups import group_admin, translate
from aggregator.features.groups.group_admin import committed_by_all
from aggregator.features.groups.hub_offsets import Marked
from aggregator.features.groups.translate import (
    GroupSight,
    HubReading,
    SharedPast,
    TopicPlaces,
    all_translated,
    in_layers,
)
from aggregator.kafka.admin import ClusterAdmin, PartitionOffsets
from aggregator.kafka.discovery import hub_logs as hub_module
from aggregator.model.errors import CheckpointError, ClusterError
from aggregator.model.values import LogId, OffsetRange, Route, SourcePartition, TopicPartition
from aggregator.store.checkpoint.past_commits import Past, ProvenBound
from aggregator.store.checkpoint.start_state import CheckpointState, Entry, Snapshot

CONFIG = load_text(
    "",
    [
        "hub.bootstrap_servers=127.0.0.1:9",
        "sources.eu.bootstrap_servers=127.0.0.1:10",
        "sources.eu.topics.include=a",
        "sources.us.bootstrap_servers=127.0.0.1:10",
        "sources.us.topics.include=b",
        "sources.ap.bootstrap_servers=127.0.0.1:11",
        "sources.ap.topics.include=a",
    ],
)
ALIASES = ("eu", "us", "ap")
ROUTES = (
    Route("eu", "a", "all.a", 1, 1),
    Route("us", "b", "all.b", 1, 1),
    Route("ap", "a", "all.c", 1, 1),
)
PARTITIONS = {route.cluster: route.source_partitions()[0] for route in ROUTES}
HUB_PARTITIONS = {route.cluster: TopicPartition(route.hub_topic, 0) for route in ROUTES}
SNAPSHOT = Snapshot("union", 1, 1, 1, clean=True, hub_ends={}, cluster_id="h")
SIGHT = GroupSight(
    CONFIG,
    ALIASES,
    ROUTES,
    {(route.cluster, route.topic): LogId(route.cluster, "t") for route in ROUTES},
    "h",
    {route.hub_topic: LogId("h", "u") for route in ROUTES},
    CheckpointState({sp: Entry(7, 1, SNAPSHOT, alias, "t") for alias, sp in PARTITIONS.items()}),
)
A = TopicPartition("a", 0)


def test_no_more_groups_are_queried_at_once_than_there_are_slots(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock, running, most = threading.Lock(), 0, 0
    pair = threading.Barrier(2)

    def committed(*_: object) -> dict[TopicPartition, Marked]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait(60)
        with lock:
            running -= 1
        return {}

    monkeypatch.setattr(group_admin, "committed", committed)
    slots = threading.Semaphore(2)
    groups = [f"g{number}" for number in range(12)]
    offsets, failed = committed_by_all("eu", CONFIG.sources["eu"], groups, [A], 1.0, slots)
    assert (offsets, failed) == ({it: {} for it in groups}, {})
    assert most == 2


@given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(0, 3))))
def test_targets_are_asked_each_once_and_in_as_few_lookups_as_can_be(
    drawn: list[dict[int, int]],
) -> None:
    wanted = [{SourcePartition("eu", "a", it): at for it, at in own.items()} for own in drawn]
    layers = in_layers(wanted)
    pairs = [pair for layer in layers for pair in layer.items()]
    assert sorted(pairs) == sorted({pair for own in wanted for pair in own.items()})
    assert len(layers) == max(Counter(sp for sp, _ in pairs).values(), default=0)


class OnePast:
    """A history that knows a lower bound of each target, and of some an upper one."""

    def __init__(self) -> None:
        self.asked: list[dict[SourcePartition, int]] = []
        self.fails = 0

    def bounds(
        self, targets: Mapping[SourcePartition, int], *, recent: bool = False
    ) -> dict[SourcePartition, ProvenBound]:
        self.asked.append(dict(targets))
        if self.fails:
            self.fails -= 1
            raise CheckpointError("it cannot be read")
        return {sp: ProvenBound({}, at + 100 * recent) for sp, at in targets.items()}

    def tops(
        self, targets: Mapping[SourcePartition, int], *, recent: bool = False
    ) -> dict[SourcePartition, ProvenBound]:
        return {sp: ProvenBound({}, at) for sp, at in targets.items() if at > 5}

    def set_back(self) -> frozenset[SourcePartition]:
        return frozenset()

    def lowest(self) -> dict[SourcePartition, int]:
        return {}


def test_what_was_looked_up_is_not_looked_up_again() -> None:
    one, other = PARTITIONS["eu"], PARTITIONS["us"]
    past = OnePast()
    shared = SharedPast(cast(Past, past))
    shared.look_up({one: 5, other: 6}, recent=False)
    assert shared.bounds({one: 5, other: 6}, recent=False) == (
        {one: ProvenBound({}, 5), other: ProvenBound({}, 6)},
        {other: ProvenBound({}, 6)},
    )
    assert len(past.asked) == 1
    # Another target, or only the newest commits, is another question.
    assert shared.bounds({one: 4, other: 6}, recent=False)[0][one] == ProvenBound({}, 4)
    assert shared.bounds({one: 5}, recent=True) == ({one: ProvenBound({}, 105)}, {})
    assert past.asked[1:] == [{one: 4}, {one: 5}]
    assert shared.bounds({}, recent=False) == ({}, {})


class Hub:
    """A hub whose topics are empty; its first answers may be missing."""

    def __init__(self, fails: int = 0) -> None:
        self.asked = 0
        self.fails = fails

    def partition_counts(self, timeout: float) -> dict[str, int]:
        self.asked += 1
        if self.asked <= self.fails:
            raise ClusterError("hub: no answer")
        return {route.hub_topic: 1 for route in ROUTES}

    def offsets(self, partitions: Collection[TopicPartition], timeout: float) -> PartitionOffsets:
        return PartitionOffsets({tp: OffsetRange(0, 0) for tp in partitions})


def translated(hub: Hub, past: OnePast, *aliases: str) -> dict[str, translate.Places]:
    """Groups by the source that each has read of."""
    reading = HubReading(0.0)
    commits = {alias: {PARTITIONS[alias].topic_partition: 3} for alias in aliases}
    groups = {alias: ({alias: own}, reading) for alias, own in commits.items()}
    return all_translated(SIGHT, cast(ClusterAdmin, hub), groups, cast(Past, past))


def places(found: translate.Places) -> list[tuple[TopicPartition, int]]:
    assert not isinstance(found, Exception), found
    topics: tuple[TopicPlaces, ...] = found
    return [(it.partition, it.offset) for topic in topics for it in topic.places]


def test_for_several_groups_the_hub_and_the_history_are_asked_once() -> None:
    hub, past = Hub(), OnePast()
    found = translated(hub, past, *ALIASES)
    assert {alias: places(it) for alias, it in found.items()} == {
        alias: [(HUB_PARTITIONS[alias], 0)] for alias in ALIASES
    }
    assert hub.asked == 1
    assert past.asked == [dict.fromkeys(PARTITIONS.values(), 3)]
    # Alone, each has the same.
    for alias in ALIASES:
        assert translated(Hub(), OnePast(), alias) == {alias: found[alias]}


def test_what_fails_for_all_is_asked_again_for_each() -> None:
    hub, past = Hub(fails=2), OnePast()
    past.fails = 1
    found = translated(hub, past, *ALIASES)
    # The first question was for all, the second for the first group.
    assert isinstance(found["eu"], ClusterError)
    assert [places(found[alias]) for alias in ("us", "ap")] == [
        [(HUB_PARTITIONS[alias], 0)] for alias in ("us", "ap")
    ]
    assert past.asked[1:] == [{PARTITIONS["us"]: 3}, {PARTITIONS["ap"]: 3}]
    past.fails = 1
    (alone,) = translated(Hub(), past, "eu").values()
    assert isinstance(alone, CheckpointError)


def test_a_topic_that_the_hub_does_not_report_is_asked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "SETTLE_SECONDS", 0.0)

    class Without(Hub):
        def offsets(
            self, partitions: Collection[TopicPartition], timeout: float
        ) -> PartitionOffsets:
            return PartitionOffsets({}, dict.fromkeys(partitions, "no leader"))

    hub, reading = Without(), HubReading(0.0)
    commits = {"ap": {A: 3}}
    groups = dict.fromkeys(("one", "two", "three"), (commits, reading))
    found = all_translated(SIGHT, cast(ClusterAdmin, hub), groups, cast(Past, OnePast()))
    assert hub.asked == 1
    for topics in found.values():
        assert not isinstance(topics, Exception), topics
        (topic,) = topics
        assert topic.places == ()
        assert topic.wanted.refusals == (
            "hub topic all.c: partition 0 does not report its offsets: no leader: check the "
            "brokers that have its replicas",
        )


def test_a_topic_that_ends_before_what_was_written_is_refused_and_no_other_one() -> None:
    """The snapshot of a commit has the ends of all topics of its lane."""
    ends = {HUB_PARTITIONS["eu"]: 5, HUB_PARTITIONS["us"]: 0}
    snapshot = replace(SNAPSHOT, hub_ends=ends)
    entries = {sp: replace(it, snapshot=snapshot) for sp, it in SIGHT.state.entries.items()}
    sight = replace(SIGHT, state=CheckpointState(entries))
    commits = {alias: {PARTITIONS[alias].topic_partition: 3} for alias in ("eu", "us")}
    groups = {"both": (commits, HubReading(0.0))}
    (found,) = all_translated(
        sight, cast(ClusterAdmin, Hub()), groups, cast(Past, OnePast())
    ).values()
    assert not isinstance(found, Exception), found
    assert [topic.wanted.refusals for topic in found] == [
        ("hub topic all.a was created again or cut off: all.a-0 ends at 0, and was at 5 before",),
        (),
    ]
    assert places(found) == [(HUB_PARTITIONS["us"], 0)]


def test_a_bound_counts_for_the_hub_topic_of_its_partition_alone() -> None:
    """A bound of a commit has the ends of all its topics, and one of these was created again."""
    bound = ProvenBound({HUB_PARTITIONS["eu"]: 9, HUB_PARTITIONS["us"]: 0}, 1, "h")

    class Shared(OnePast):
        def bounds(
            self, targets: Mapping[SourcePartition, int], *, recent: bool = False
        ) -> dict[SourcePartition, ProvenBound]:
            return dict.fromkeys(targets, bound)

    commits = {alias: {PARTITIONS[alias].topic_partition: 3} for alias in ("eu", "us")}
    groups = {"both": (commits, HubReading(0.0))}
    (found,) = all_translated(
        SIGHT, cast(ClusterAdmin, Hub()), groups, cast(Past, Shared())
    ).values()
    assert not isinstance(found, Exception), found
    assert ["does not reach back" in " ".join(topic.notes) for topic in found] == [True, False]
