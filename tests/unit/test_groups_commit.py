"""By how many requests a group's offsets are committed at the hub, and what becomes of those that
it refuses; a real hub is in tests/integration/test_groups_at_the_hub.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from aggregator.features.groups import commit_offsets
from aggregator.features.groups.commit_offsets import _written
from aggregator.features.groups.group_report import GroupAtHub
from aggregator.features.groups.hub_offsets import PlaceVerdict
from aggregator.kafka.admin import ClusterAdmin
from aggregator.model.values import TopicPartition


def row(topic: str, partition: int, verdict: PlaceVerdict = PlaceVerdict.WRITE) -> GroupAtHub:
    return GroupAtHub(
        topic=topic,
        partition=partition,
        offset=10 * partition,
        again=0,
        at_end=False,
        before=None,
        verdict=verdict,
    )


class Requests:
    """The requests to a hub that refuses a topic."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.asked: list[dict[TopicPartition, int]] = []

    def commit(
        self,
        hub: ClusterAdmin,
        group: str,
        offsets: Mapping[TopicPartition, int],
        timeout: float,
        mark: str,
    ) -> str:
        self.asked.append(dict(offsets))
        return "no right" if any(tp.topic == self.refused for tp in offsets) else ""


def written(
    monkeypatch: pytest.MonkeyPatch, requests: Requests, *rows: GroupAtHub
) -> list[GroupAtHub]:
    monkeypatch.setattr(commit_offsets, "commit", requests.commit)
    return _written(cast(ClusterAdmin, None), "billing", rows, "mark", 1.0)


def test_many_topics_are_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = Requests()
    rows = [row("a", 0), row("a", 1), row("b", 0), row("c", 0, PlaceVerdict.OTHERS)]
    assert written(monkeypatch, requests, *rows) == rows
    offsets = {TopicPartition("a", 0): 0, TopicPartition("a", 1): 10, TopicPartition("b", 0): 0}
    assert requests.asked == [offsets]
    assert written(monkeypatch, requests, rows[-1]) == [rows[-1]]
    assert requests.asked == [offsets]


def test_a_topic_that_is_refused_holds_up_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_offsets, "MOST_PARTITIONS", 2)
    requests = Requests("b")
    found = written(
        monkeypatch, requests, row("a", 0), row("b", 0), row("c", 0), row("c", 1), row("b", 1)
    )
    assert [(it.topic, it.verdict, it.reason) for it in found] == [
        ("a", PlaceVerdict.WRITE, ""),
        ("b", PlaceVerdict.FAILED, "no right"),
        ("c", PlaceVerdict.WRITE, ""),
        ("c", PlaceVerdict.WRITE, ""),
        ("b", PlaceVerdict.FAILED, "no right"),
    ]
    a, b, c = (TopicPartition(topic, 0) for topic in "abc")
    assert requests.asked[1:3] == [{a: 0}, {b: 0, b._replace(partition=1): 10}]
    done = [own for own in requests.asked if b not in own and b._replace(partition=1) not in own]
    assert {tp for own in done for tp in own} == {a, c, c._replace(partition=1)}


def test_a_single_topic_that_is_refused_is_not_tried_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = Requests("b")
    (found,) = written(monkeypatch, requests, row("b", 0))
    assert (found.verdict, found.reason) == (PlaceVerdict.FAILED, "no right")
    assert len(requests.asked) == 1
