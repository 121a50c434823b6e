"""What the logs of the hub are taken to be, where it does not tell all of them at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import cast

import pytest

from aggregator.clusters import hub as hub_module
from aggregator.clusters.hub import later_logs, told_logs, whole_logs
from aggregator.discover import ClusterAdmin
from aggregator.discover.offsets import PartitionOffsets
from aggregator.errors import ClusterError
from aggregator.model import OffsetRange, TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Answers:
    """The answers of a hub, one after the other; the last one for ever."""

    def __init__(self, *answers: PartitionOffsets) -> None:
        self.answers = list(answers)

    def partition_counts(self, timeout: float) -> dict[str, int]:
        assert timeout > 0
        return {"orders": 2}

    def offsets(self, wanted: Iterable[TopicPartition], timeout: float) -> PartitionOffsets:
        assert list(wanted) == [FIRST, SECOND] and timeout > 0
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


ALL = PartitionOffsets({FIRST: OffsetRange(0, 3), SECOND: OffsetRange(1, 2)}, {})
NOT_YET = PartitionOffsets({FIRST: OffsetRange(0, 3)}, {SECOND: "Not leader for partition"})


def logs(timeout: float, *answers: PartitionOffsets) -> dict[TopicPartition, OffsetRange]:
    hub = cast(ClusterAdmin, Answers(*answers))
    return told_logs(hub, ["orders"], {"orders": 2}, timeout)


def test_a_partition_whose_leader_is_not_ready_is_asked_for_again() -> None:
    assert logs(30.0, NOT_YET, NOT_YET, ALL) == dict(ALL.ranges)


def test_one_that_never_tells_is_an_error_that_names_it() -> None:
    with pytest.raises(ClusterError, match=r"partition=1.*Not leader for partition"):
        logs(0.1, NOT_YET)


def test_beside_lanes_the_hub_is_asked_again_a_moment_after_it_has_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "SETTLE_SECONDS", 0.0)
    # What a broker was sent before it hung it carries out when it answers again.
    later = PartitionOffsets({FIRST: OffsetRange(0, 9), SECOND: OffsetRange(1, 2)}, {})
    hub = cast(ClusterAdmin, Answers(ALL, later))
    assert later_logs(hub, ["orders"], 1.0, threading.Event()) == later.ranges


def test_what_the_next_leader_does_not_hold_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "LEADERS_SECONDS", 0.0)
    monkeypatch.setattr(hub_module, "REPLICATED_LIMIT_SECONDS", 5.0)
    told = [{FIRST: 8, SECOND: 2}, {FIRST: 3}]
    asked: list[list[TopicPartition]] = []

    def log_ends(partitions: Iterable[TopicPartition], _: float) -> dict[TopicPartition, int]:
        asked.append(list(partitions))
        return told[len(asked) - 1]

    hub = cast(ClusterAdmin, Answers(ALL))
    found = whole_logs(hub, log_ends, ALL.ranges, 1.0, threading.Event(), lambda _: None)
    assert found == dict(ALL.ranges)
    assert asked == [[FIRST, SECOND], [FIRST]]
