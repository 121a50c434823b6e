"""Groups that a cluster does not list, or of which it does not say whether they have members."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka.admin import ClusterMetadata, PartitionMetadata, TopicMetadata

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.features.groups import cutover
from aggregator.features.groups.cutover import Moving, _limits
from aggregator.features.groups.group_admin import GROUPS_TOPIC, unlisted
from aggregator.features.groups.hub_offsets import ApplyRules
from aggregator.features.groups.translate import GroupSight, SourceGroup
from aggregator.kafka.admin import ClusterAdmin
from aggregator.model.values import TopicPartition

A = TopicPartition("a", 0)


def config_of(folder: Path) -> Config:
    return load_text(
        "",
        [
            "hub.bootstrap_servers=127.0.0.1:9",
            "sources.eu.bootstrap_servers=127.0.0.1:10",
            "sources.eu.topics.include=a",
            f"checkpoint.path={folder}",
        ],
    )


class Client:
    """The client of a cluster, with the leaders of the topic of groups."""

    def __init__(self, *leaders: int) -> None:
        self._leaders = leaders

    def metadata(self, timeout: float) -> ClusterMetadata:
        found, topic = ClusterMetadata(), TopicMetadata()
        found.brokers = dict.fromkeys((1, 2), cast(Any, None))
        found.topics = {GROUPS_TOPIC: topic} if self._leaders else {}
        for number, leader in enumerate(self._leaders):
            partition = PartitionMetadata()
            partition.leader = leader
            topic.partitions[number] = partition
        return found


def admin(*leaders: int) -> ClusterAdmin:
    return cast(ClusterAdmin, Client(*leaders))


def test_of_a_partition_without_a_leader_no_group_is_listed() -> None:
    assert unlisted(admin(1, 2, 1), 1.0) == ""
    # Before there is any group, or where it may not be seen.
    assert unlisted(admin(), 1.0) == ""
    # One has no leader, and the broker of the other one is gone.
    assert unlisted(admin(1, -1, 3), 1.0) == (
        "2 of 3 partitions of __consumer_offsets have no leader, and no broker lists the groups in "
        "them"
    )


def test_of_a_group_that_is_not_listed_no_one_knows_whether_it_has_members(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    listed, hidden = SourceGroup("eu", "EMPTY", {A: 5}), SourceGroup("eu", "", {A: 5})
    assert _limits(config, [listed], (), ()) == []
    assert _limits(config, [SourceGroup("eu", "")], (), ()) == []
    (note,) = _limits(config, [hidden], (), ())
    assert note.startswith("eu does not list the group")


def test_a_group_that_no_list_has_is_asked_for_again_and_then_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its coordinator may be moving: that it is in no list does not mean that it has no members."""
    lists: list[dict[str, dict[str, str]]] = [
        {"eu": {}},
        {"eu": {"late": "STABLE"}},
        {"eu": {"late": "EMPTY"}},
    ]
    monkeypatch.setattr(cutover, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(cutover, "states_at", lambda *_: lists.pop(0))
    monkeypatch.setattr(cutover, "at_sources", lambda *given: given[2])
    said: list[str] = []
    moving = Moving(config_of(tmp_path), ApplyRules(dry_run=False), 1e12, said.append, rest=True)
    sight = cast(GroupSight, SimpleNamespace(aliases=("eu",)))
    found = {"late": (SourceGroup("eu", "", {A: 5}),)}
    done: Any = moving._at_rest(sight, {"late": ("eu",)}, found)
    assert (done, lists) == ({"eu": {"late": "EMPTY"}}, [])
    assert said == ["these groups have active members: late at eu: stop them"]
    # Of some kinds it is in none ever.
    lists += [{"eu": {}}]
    monkeypatch.setattr(cutover, "LISTED_SECONDS", 0.0)
    done = moving._at_rest(sight, {"late": ("eu",)}, found)
    assert done == {"eu": {}}
