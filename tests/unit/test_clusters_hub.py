"""What the logs of the hub are taken to be, where it does not report all of them at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aggregator.kafka.admin import ClusterAdmin
from aggregator.kafka.admin.offsets import PartitionOffsets
from aggregator.kafka.discovery import hub_logs as hub_module
from aggregator.kafka.discovery.hub_logs import (
    TopicLogs,
    complete_logs,
    later_logs,
    patient_topics,
    read_ends,
    whole_logs,
)
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, TopicPartition

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Answers:
    """The answers of a hub, one after the other; the last one for ever."""

    def __init__(self, *answers: PartitionOffsets) -> None:
        self.answers = list(answers)

    def partition_counts(self, timeout: float) -> dict[str, int]:
        assert timeout > 0
        return {"orders": 2}

    def offsets(self, wanted: Iterable[TopicPartition], timeout: float) -> PartitionOffsets:
        assert set(wanted) <= {FIRST, SECOND} and timeout > 0
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


ALL = PartitionOffsets({FIRST: OffsetRange(0, 3), SECOND: OffsetRange(1, 2)}, {})
NOT_YET = PartitionOffsets({FIRST: OffsetRange(0, 3)}, {SECOND: "Not leader for partition"})


def logs(timeout: float, *answers: PartitionOffsets) -> dict[TopicPartition, OffsetRange]:
    hub = cast(ClusterAdmin, Answers(*answers))
    return complete_logs(hub, ["orders"], {"orders": 2}, timeout)


def test_a_partition_whose_leader_is_not_ready_is_asked_for_again() -> None:
    assert logs(30.0, NOT_YET, NOT_YET, ALL) == dict(ALL.ranges)


def test_a_snapshot_asks_where_logs_end_and_for_nothing_else() -> None:
    """For thousands of partitions each question takes seconds of Python's time."""
    hub: Any = SimpleNamespace(log_ends=lambda wanted, _: {tp: 3 for tp in wanted if tp == FIRST})
    assert read_ends(hub, {"orders": 2}, 1.0) == {FIRST: 3}


def test_a_partition_that_never_reports_is_an_error_that_names_it() -> None:
    with pytest.raises(ClusterError, match=r"partition=1.*Not leader for partition"):
        logs(0.1, NOT_YET)


def test_a_topic_that_is_not_reported_a_moment_later_either_waits_by_itself() -> None:
    found = patient_topics(cast(ClusterAdmin, Answers(NOT_YET, ALL)), ["orders"], 30.0)
    assert found == TopicLogs(ALL.ranges)
    hub = cast(ClusterAdmin, Answers(NOT_YET))
    found = patient_topics(hub, ["orders", "gone"], 0.1)
    assert found.logs == {}
    assert found.waits == {
        "gone": "it is not there",
        "orders": "partition 1 does not report its offsets: Not leader for partition",
    }


def test_beside_lanes_the_hub_is_asked_again_a_moment_after_it_has_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "SETTLE_SECONDS", 0.0)
    # What a broker was sent before it hung it carries out when it answers again.
    later = PartitionOffsets({FIRST: OffsetRange(0, 9), SECOND: OffsetRange(1, 2)}, {})
    hub = cast(ClusterAdmin, Answers(ALL, later))
    assert later_logs(hub, ["orders"], 1.0, threading.Event()) == TopicLogs(later.ranges)


def test_a_topic_of_which_a_leader_has_not_answered_before_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub_module, "SETTLE_SECONDS", 0.0)
    hub = cast(ClusterAdmin, Answers(NOT_YET, ALL))
    found = later_logs(hub, ["orders"], 1.0, threading.Event())
    assert found.logs == {}
    assert "partition 1" in found.waits["orders"]


def whole(end: int | None, *answers: PartitionOffsets) -> TopicLogs:
    """What is whole of a hub whose first log ends there at its leader."""

    def log_ends(_: Iterable[TopicPartition], _s: float) -> dict[TopicPartition, int | None]:
        return {FIRST: end, SECOND: 2}

    hub = cast(ClusterAdmin, Answers(*answers))
    return whole_logs(hub, log_ends, TopicLogs(ALL.ranges), 1.0, threading.Event())


def test_a_topic_is_whole_when_it_shows_what_its_leaders_hold() -> None:
    shown = PartitionOffsets({FIRST: OffsetRange(0, 8)}, {})
    assert whole(8, shown) == TopicLogs({**ALL.ranges, **shown.ranges})


@pytest.mark.parametrize(
    ("end", "why"),
    [(8, "5 records that not all replicas have"), (None, "leader of partition 0 does not report")],
)
def test_one_that_does_not_waits_and_a_later_look_begins_again(
    monkeypatch: pytest.MonkeyPatch, end: int | None, why: str
) -> None:
    monkeypatch.setattr(hub_module, "SHOWN_SECONDS", 0.0)
    found = whole(end, PartitionOffsets({FIRST: OffsetRange(0, 3)}, {}))
    assert found.logs == {}
    assert why in found.waits["orders"]
    # What the next leader does not hold is not waited for.
    assert whole(3) == TopicLogs(ALL.ranges)
