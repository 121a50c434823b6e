"""What other tools have stored becomes positions, the next offset always, and how far off it is."""

from __future__ import annotations

from typing import Any

import pytest

from aggregator.config.load import load_text
from aggregator.extras.importers.hub_ahead import Copy, hub_partition_of, records_beyond, summed
from aggregator.extras.importers.stored_positions import by_topic, how_far_off, offset_of
from aggregator.features.positions.targets import BeforeMove, MoveKind, MoveRequest, plan_moves
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition

KEY = b'["MirrorSourceConnector",{"cluster":"eu","partition":1,"topic":"t"}]'
TP = TopicPartition("t", 1)
SP = SourcePartition("eu", "t", 1)


def test_the_last_offset_that_was_read_becomes_the_next_one() -> None:
    assert offset_of(KEY, b'{"offset":41}', "MirrorSourceConnector", "eu") == (TP, 42)
    assert offset_of(KEY, b'{"offset":0}', "MirrorSourceConnector", "eu") == (TP, 1)


@pytest.mark.parametrize("value", [None, b"{}", b'{"offset":-1}', b"nonsense", b'{"offset":"3"}'])
def test_what_was_deleted_or_is_no_offset_is_none(value: bytes | None) -> None:
    assert offset_of(KEY, value, "MirrorSourceConnector", "eu") == (TP, None)


@pytest.mark.parametrize(
    "key",
    [
        None,
        b"nonsense",
        b'["MirrorHeartbeatConnector",{"cluster":"eu","partition":1,"topic":"t"}]',
        b'["MirrorSourceConnector",{"cluster":"us","partition":1,"topic":"t"}]',
        b'["MirrorSourceConnector",{"cluster":"eu","topic":"t"}]',
        b'{"cluster":"eu"}',
    ],
)
def test_what_is_about_something_else_is_passed_over(key: bytes | None) -> None:
    assert offset_of(key, b'{"offset":1}', "MirrorSourceConnector", "eu") is None


def request(offset: int) -> MoveRequest:
    positions = by_topic({TP: offset})
    return MoveRequest(source="eu", to_offsets=positions, taken_over=True)


def move(offset: int, **place: Any) -> Any:
    before = BeforeMove(SP, OffsetRange(10, 100), **place)
    return plan_moves(request(offset), [before])


def test_a_position_is_taken_over_without_a_look_at_the_hub() -> None:
    (found,) = move(50).moves
    assert (found.kind, found.new, found.clean, found.skipped) == (
        MoveKind.TAKEN_OVER,
        50,
        True,
        None,
    )
    assert str(found) == "continues at 50, where the other tool was"


def test_a_position_that_is_there_is_left_alone() -> None:
    plan = move(50, position=40)
    assert not plan.moves
    assert "has a position already, 40: left alone" in plan.notes[0]


def test_a_topic_that_was_created_again_is_left_alone() -> None:
    plan = move(500)
    assert (plan.moves, plan.problems) == ((), ())
    assert "was at 500, and its log ends at 100" in plan.notes[0]


def test_what_the_source_has_deleted_meanwhile_stays_to_be_seen_as_a_gap() -> None:
    (found,) = move(5).moves
    assert (found.new, found.gone) == (5, OffsetRange(5, 10))
    assert "a gap" in str(found)


def test_how_far_off_it_may_be_is_bounded_by_what_the_source_holds() -> None:
    positions = {TP: 90, TopicPartition("t", 2): 7}
    ends = {TP: 100, TopicPartition("t", 2): 7}
    assert "no more than the 10 offsets" in how_far_off("eu", positions, ends)
    assert "nothing comes twice" in how_far_off("eu", {TP: 100}, ends)
    assert "is unknown" in how_far_off("eu", positions, {})


def content(number: int) -> Copy:
    return Copy(b"k", b"%d" % number, 1000 + number)


RECORDS = [(number, content(number)) for number in range(5, 15)]


def test_the_hub_shows_what_it_holds_beyond_what_was_stored() -> None:
    assert records_beyond(content(9), RECORDS, 10) == 0
    assert records_beyond(content(12), RECORDS, 10) == 3
    assert records_beyond(content(99), RECORDS, 10) is None
    assert records_beyond(None, RECORDS, 10) is None
    assert records_beyond(None, [], 0) == 0
    twice = [*RECORDS, (20, content(9))]
    assert records_beyond(content(9), twice, 10) == 6


def test_what_was_compared_is_said_in_words() -> None:
    found = str(summed([(SP, 0), (SourcePartition("eu", "t", 2), 4), (SP, None)]))
    assert "what was read last: 1" in found
    assert "hold more: 1, with 4 records that come twice" in found
    assert "does not show it: 1" in found
    assert str(summed([])) == ""


def test_only_a_partition_of_its_own_at_the_hub_can_be_compared() -> None:
    text = """
hub: {bootstrap_servers: "h:1"}
sources:
  eu: {bootstrap_servers: "a:1", topics: {include: ".*"}}
  us: {bootstrap_servers: "b:1", topics: {include: ".*"}}
topics: {rename: "${cluster}.${topic}", partition_by: source_partition}
"""
    apart = load_text(text)
    assert hub_partition_of(apart, SP) == TopicPartition("eu.t", 1)
    together = load_text(text.replace("${cluster}.", ""))
    assert hub_partition_of(together, SP) is None
    by_key = load_text(text.replace("source_partition", "key"))
    assert hub_partition_of(by_key, SP) is None
