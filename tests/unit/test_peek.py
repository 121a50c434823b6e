"""Records and topics as people see them, before any cluster is asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given

from aggregator.cli.peek import COLUMNS, _line
from aggregator.cli.render import Output, cell, moment_of, table
from aggregator.config import load_text
from aggregator.extras.embedded.topics import NewRecord
from aggregator.features.peek.decode_value import MOST_BYTES, decode, shown
from aggregator.features.peek.interpret import Interpreter
from aggregator.features.peek.read_topic import MOST_PARTITIONS, heads, tails
from aggregator.features.quarantine.records import parse
from aggregator.kafka.registry import Schema
from aggregator.model.values import OffsetRange, Raw, TopicPartition
from support.examples import examples
from support.odd import LONGEST, NANOS, ODD_SHAPES, YEAR_10000, odd_records
from support.rest import SETS

INTERPRETER = Interpreter(load_text("", SETS), None, "orders", MOST_BYTES, seconds=1e9)


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
def test_bytes_are_shown_as_text_where_they_are_text(content: bytes, text: str) -> None:
    assert shown(content, MOST_BYTES) == text


def test_what_is_cut_off_in_the_midst_of_a_character_is_still_text() -> None:
    assert shown(b"a" * (MOST_BYTES - 1) + "ü".encode(), MOST_BYTES) == "a" * (MOST_BYTES - 1) + "…"


def test_reading_from_an_offset_begins_where_its_log_does_and_ends_with_it() -> None:
    logs = {TopicPartition("t", number): OffsetRange(10, 100) for number in range(4)}
    begins = {TopicPartition("t", number): at for number, at in enumerate((5, 50, 100))}
    assert heads(logs, {**begins, TopicPartition("t", 9): 1}) == {
        TopicPartition("t", 0): OffsetRange(10, 100),
        TopicPartition("t", 1): OffsetRange(50, 100),
    }
    many = {TopicPartition("t", number): OffsetRange(0, 9) for number in range(1_000)}
    assert len(heads(many, dict.fromkeys(many, 3))) == MOST_PARTITIONS


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


def assert_shown(record: NewRecord) -> None:
    raw = Raw(7, record.timestamp, record.key, record.value, record.headers)
    found = INTERPRETER.show(0, raw)
    assert found.timestamp_ms == record.timestamp
    assert json.loads(found.model_dump_json())["value_bytes"] == len(record.value or b"")
    for output in Output:
        _line(found, output).encode()
    for shown_as in table("Records", COLUMNS, [found]).rows[0]:
        cell(shown_as).encode()
    parse(raw)


@given(odd_records())
@examples(80)
def test_whatever_a_record_holds_it_is_shown(record: NewRecord) -> None:
    assert_shown(record)


@pytest.mark.parametrize("name", ODD_SHAPES)
def test_the_worst_records_are_shown(name: str) -> None:
    assert_shown(ODD_SHAPES[name])


@pytest.mark.parametrize(
    "payload",
    [
        rb'{"a": "\ud800"}',
        b"[" * 900 + b"]" * 900,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a": NaN}',
        b"9" * 5_000,
        b"",
    ],
)
def test_json_of_a_schema_is_shown_whatever_is_in_it(payload: bytes) -> None:
    schema = Schema(1, "JSON", "{}")
    for most in (None, MOST_BYTES):
        found = decode(b"\0\0\0\0\1" + payload, lambda _: schema, most)
        assert found.text is not None
        found.text.encode()


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'\n\t {"a": 1}\r\n', "json"),
        (b'\xef\xbb\xbf{"a": 1}', "json"),
        (b'\x0b{"a": 1}', "bytes"),
        (b"[" * 100_000, "text"),
        (b"1", "text"),
    ],
)
def test_json_is_json_behind_white_space_and_a_mark_as_it_is_where_it_lands(
    content: bytes, kind: str
) -> None:
    assert decode(content, lambda _: Schema(1, "JSON", "{}")).format == kind


def test_a_time_is_read_where_it_is_one() -> None:
    assert moment_of(0) == datetime(1970, 1, 1, tzinfo=UTC)
    assert (moment_of(-1), moment_of(-(2**63))) == (None, None)
    for millis in (YEAR_10000, NANOS, LONGEST):
        assert moment_of(millis) == f"{millis} ms"
