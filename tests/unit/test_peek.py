"""Records and topics as people see them, before any cluster is asked."""

from __future__ import annotations

import pytest

from aggregator.model import OffsetRange, TopicPartition
from aggregator.peek.core import MOST_PARTITIONS, tails
from aggregator.peek.core_decode import MOST_BYTES, shown


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", ""),
        (b'{"a": 1}\n', '{"a": 1}\n'),
        ("größer".encode(), "größer"),
        (b"\x00\x00\x00\x00\x01ab", "0x00000000016162"),
        (b"\xff\xfe", "0xfffe"),
        (b"\x1b[31m", "0x1b5b33316d"),
        (b"a" * MOST_BYTES, "a" * MOST_BYTES),
        (b"a" * (MOST_BYTES + 1), "a" * MOST_BYTES + "…"),
    ],
)
def test_bytes_are_told_as_text_where_they_are_text(content: bytes, text: str) -> None:
    assert shown(content, MOST_BYTES) == text


def test_what_is_cut_off_in_the_midst_of_a_character_is_still_text() -> None:
    assert shown(b"a" * (MOST_BYTES - 1) + "ü".encode(), MOST_BYTES) == "a" * (MOST_BYTES - 1) + "…"


def test_a_tail_reaches_no_further_back_than_its_log_and_an_empty_log_has_none() -> None:
    logs = {
        TopicPartition("t", 0): OffsetRange(0, 100),
        TopicPartition("t", 1): OffsetRange(98, 100),
        TopicPartition("t", 2): OffsetRange(7, 7),
    }
    assert tails(logs, 5) == {
        TopicPartition("t", 0): OffsetRange(93, 100),
        TopicPartition("t", 1): OffsetRange(98, 100),
    }


def test_of_very_many_partitions_those_with_the_most_records_are_read() -> None:
    logs = {TopicPartition("t", at): OffsetRange(0, at) for at in range(200)}
    found = tails(logs, 1)
    assert sorted(tp.partition for tp in found) == list(range(200 - MOST_PARTITIONS, 200))
