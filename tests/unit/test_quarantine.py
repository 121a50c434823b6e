"""The quarantine topic as values: records, notes about them, and the state that follows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from aggregator.features.quarantine import retry as retry_module
from aggregator.features.quarantine.content import Content, has_event, hub_partition
from aggregator.features.quarantine.ledger import BUSY_MS, Filter, Ledger
from aggregator.features.quarantine.reader import QuarantineReader
from aggregator.features.quarantine.records import (
    Note,
    Origin,
    Quarantined,
    RecordState,
    origin_headers,
    origin_of,
    own_headers,
    parse,
    parse_origin,
)
from aggregator.features.quarantine.retry import Retry
from aggregator.kafka.admin import ClusterAdmin
from aggregator.model.values import Header, Raw, SourcePartition, TopicPartition
from support.flow_world import config_of

ORIGIN = Origin(SourcePartition("eu", "or-ders", 3), 5)


def raw(origin: Origin = ORIGIN, offset: int = 0, own: tuple[Header, ...] = ()) -> Raw:
    cluster, topic, partition = origin.partition
    texts = {
        "quarantine.reason": "too_large",
        "quarantine.hub_topic": "orders",
        "quarantine.size": "2000",
        "quarantine.kept": "whole",
        "origin.cluster": cluster,
        "origin.topic": topic,
        "origin.partition": str(partition),
        "origin.offset": str(origin.offset),
        "origin.timestamp": "-1",
    }
    ours = [(name, text.encode()) for name, text in texts.items()]
    return Raw(offset, 1_000, b"k", b"v", [*own, *ours])


def raw_in_one(text: str = "eu/or-ders/3/5", own: tuple[Header, ...] = ()) -> Raw:
    """The same record of a hub topic whose origins are one header."""
    five = raw(own=own)
    headers = [*five.headers[:-5], ("quarantine.timestamp", b"-1"), ("origin", text.encode())]
    return replace(five, headers=headers)


def note(state: RecordState, by: str, at: int, at_ms: int = 1_000) -> Note:
    return Note(ORIGIN, state, by, 1, 77, "why", at, at_ms)


def ledger(*notes: Note) -> Ledger:
    found = Ledger()
    found.add(parse(raw()), 0, 1_000)
    for it in notes:
        found.add(it, it.at, it.at_ms)
    return found


def test_a_quarantined_record_is_read_as_it_was_written() -> None:
    own: tuple[Header, ...] = (("a", None), ("origin.cluster", b"elsewhere"))
    record = raw(own=own)
    assert parse(record) == Quarantined(ORIGIN, -1, "too_large", "orders", 2_000, "whole", 0, 1_000)
    assert own_headers(record) == list(own)
    assert origin_headers(record)[0] == ("origin.cluster", b"eu")
    assert origin_of(record) == ORIGIN


def test_with_its_origin_in_one_header_it_is_read_as_it_was_written() -> None:
    own: tuple[Header, ...] = (
        ("a", None),
        ("origin", b"elsewhere/x/1/2"),
        ("origin.cluster", b"elsewhere"),
    )
    record = raw_in_one(own=own)
    assert parse(record) == parse(raw(own=own))
    assert own_headers(record) == list(own)
    assert origin_headers(record) == [("origin", b"eu/or-ders/3/5")]
    assert origin_of(record) == ORIGIN


@pytest.mark.parametrize(
    "text", ["", "eu/or-ders/3", "eu/or-ders/x/5", "eu/or-ders/3/5/", "/or-ders/3/5", "\xff"]
)
def test_one_header_that_names_no_origin_is_not_ours(text: str) -> None:
    assert parse(raw_in_one(text)) is None
    assert origin_of(Raw(0, 0, None, b"v", [*raw().headers, ("origin", text.encode())])) is None


def test_what_is_retried_is_looked_for_in_the_hub_by_either_form() -> None:
    five, one = raw().headers[-5:], [("origin", b"eu/or-ders/3/5")]
    for headers in (five, one, [*one, *five], [*five, *one], [("origin", b"web"), *five]):
        assert origin_of(Raw(0, 0, None, b"v", headers)) == ORIGIN
    behind = [*one, ("more", b"1")]
    assert origin_of(Raw(0, 0, None, b"v", behind)) is None


def test_a_note_is_read_as_it_was_written_and_is_none_of_our_records() -> None:
    written = note(RecordState.TRYING, "me", 7)
    record = Raw(7, 1_000, str(ORIGIN).encode(), None, written.headers())
    assert parse(record) == written
    assert origin_of(record) is None


@pytest.mark.parametrize(
    "record",
    [
        Raw(0, 0, None, b"v", []),
        Raw(0, 0, b"eu/orders-3@5", None, [("quarantine.state", b"strange")]),
        Raw(0, 0, b"nowhere", None, [("quarantine.state", b"open")]),
        Raw(0, 0, b"k", b"v", [("origin.cluster", b"eu")]),
        replace(
            raw(), headers=[(n, b"x" if n == "origin.offset" else v) for n, v in raw().headers]
        ),
        replace(raw_in_one(), headers=[it for it in raw_in_one().headers if "time" not in it[0]]),
        replace(
            raw_in_one(), headers=[(n, b"x" if "time" in n else v) for n, v in raw_in_one().headers]
        ),
        replace(raw_in_one(), headers=[*raw_in_one().headers, ("behind", b"1")]),
    ],
)
def test_what_others_write_into_the_topic_is_passed_over(record: Raw) -> None:
    assert parse(record) is None


def test_an_origin_as_text() -> None:
    assert str(ORIGIN) == "eu/or-ders-3@5"
    assert parse_origin("eu/or-ders-3@5") == ORIGIN
    for wrong in ("orders-3@5", "eu/orders@5", "eu/orders-3", "eu/orders-3@x"):
        assert parse_origin(wrong) is None


def test_the_state_is_what_the_last_one_said() -> None:
    trying, mine = note(RecordState.TRYING, "a", 1), note(RecordState.TRYING, "b", 2)
    refused = note(RecordState.REFUSED, "b", 3)
    assert ledger()[ORIGIN].state is RecordState.OPEN
    assert ledger(trying)[ORIGIN].state is RecordState.TRYING
    both = ledger(trying, mine, refused)[ORIGIN]
    # How the first attempt ended is not known.
    assert (both.state, [it.by for it in both.attempts]) == (RecordState.TRYING, ["a"])
    assert ledger(mine, refused)[ORIGIN].state is RecordState.REFUSED
    done = ledger(trying, mine, note(RecordState.RETRIED, "b", 4))[ORIGIN]
    assert (done.state, done.attempts) == (RecordState.RETRIED, [])


def test_what_was_retried_stays_so_whatever_another_retry_notes_behind_it() -> None:
    mine, theirs = note(RecordState.TRYING, "a", 1), note(RecordState.TRYING, "b", 2)
    done = note(RecordState.RETRIED, "a", 3)
    # It had seen neither note when it began; or it steps back when the first one is through.
    late = ledger(mine, done, replace(theirs, at=4))[ORIGIN]
    assert (late.state, late.attempts) == (RecordState.RETRIED, [])
    assert ledger(mine, theirs, done, note(RecordState.OPEN, "b", 4))[ORIGIN] == late


def test_a_retry_does_not_write_what_another_one_has_written_since_it_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []

    def send(_: object, place: TopicPartition, content: Content) -> tuple[int, None]:
        sent.append(place.topic)
        return 0, None

    monkeypatch.setattr(retry_module, "send", send)
    monkeypatch.setattr(retry_module, "Producer", lambda _: None)
    known = ledger()
    reader = SimpleNamespace(place=TopicPartition("aside", 0))
    retry = Retry(config_of(), cast("ClusterAdmin", None), cast("QuarantineReader", reader), known)
    monkeypatch.setattr(retry, "_end", lambda _: 77)

    def read_on(_: object, found: Ledger) -> None:
        steps = (RecordState.TRYING, "another"), (RecordState.RETRIED, "another")
        for at, (state, by) in enumerate((*steps, (RecordState.TRYING, retry._by)), 1):
            found.add(note(state, by, at), at, 1_000)

    reader.read_ledger = read_on
    place = TopicPartition("orders", 1)
    outcome = retry._write(known[ORIGIN].record, Content(b"k", b"v", [], -1), place)
    assert outcome.state is RecordState.RETRIED
    # Notes alone.
    assert sent == ["aside", "aside"]


def test_a_record_that_is_quarantined_again_is_open_again() -> None:
    found = ledger(note(RecordState.RETRIED, "a", 1))
    found.add(parse(raw(offset=2)), 2, 1_000)
    assert (found[ORIGIN].state, found[ORIGIN].record.at, len(found)) == (RecordState.OPEN, 2, 1)


def test_the_one_who_came_first_is_not_disturbed() -> None:
    first, second = note(RecordState.TRYING, "a", 1), note(RecordState.TRYING, "b", 2)
    found = ledger(first, second)
    assert found.busy(ORIGIN, "a") is None
    assert found.busy(ORIGIN, "b") == first
    later = ledger(first, note(RecordState.TRYING, "b", 2, 1_001 + BUSY_MS))
    assert later.busy(ORIGIN, "b") is None


def test_how_long_another_one_is_at_it_is_by_the_clock_of_the_broker_alone() -> None:
    """In a topic that people made, with CreateTime: clocks of retriers may differ by minutes."""
    found = ledger()
    for at, by in ((1, "a"), (2, "b")):
        # Each says what its own clock says: the second is an hour ahead.
        headers = note(RecordState.TRYING, by, at).headers()
        written = Raw(at, at * 3_600_000, str(ORIGIN).encode(), None, headers, by_broker=False)
        found.add(parse(written), at, None)
    assert found.busy(ORIGIN, "a") is None
    assert (earlier := found.busy(ORIGIN, "b")) is not None
    assert (earlier.by, earlier.at_ms) == ("a", None)
    # Once a broker says when something came, what is before it had come by then.
    for at, at_ms, busy in ((3, 9_000, True), (4, 9_000 + BUSY_MS, False)):
        found.add(None, at, at_ms)
        assert (found.busy(ORIGIN, "b") is not None) is busy


def test_what_is_meant() -> None:
    other = Origin(SourcePartition("us", "payments", 0), 1)
    found = ledger()
    found.add(parse(raw(other, 1)), 1, 1_000)

    def chosen(wanted: Filter, *, retried: bool = False) -> list[Origin]:
        return [entry.record.origin for entry in found.select(wanted, retried=retried)]

    assert chosen(Filter()) == [ORIGIN, other]
    assert chosen(Filter(source="us")) == [other]
    assert chosen(Filter(topic="or-ders")) == [ORIGIN]
    assert chosen(Filter(reason="no_key")) == []
    assert chosen(Filter(origins=frozenset({other}))) == [other]
    found.add(note(RecordState.RETRIED, "a", 2), 2, 1_000)
    assert chosen(Filter()) == [other]
    assert chosen(Filter(), retried=True) == [ORIGIN, other]


def test_a_retried_record_goes_where_its_lane_would_have_put_it() -> None:
    # murmur2 of "21" is -973932308 in Java.
    assert hub_partition("key", ORIGIN, b"21", 4) == (-973_932_308 & 0x7FFFFFFF) % 4
    assert hub_partition("key", ORIGIN, None, 2) == 1
    assert hub_partition("source_partition", ORIGIN, b"k", 2) == 1
    assert hub_partition("round_robin", ORIGIN, b"k", 5) == 3
    assert hub_partition("cluster", ORIGIN, b"k", 4) == hub_partition("cluster", ORIGIN, None, 4)


@pytest.mark.parametrize(
    ("by", "key", "value", "headers", "expected"),
    [
        ("header:id", b"k", b"v", [], False),
        ("header:id", b"k", b"v", [("other", b"1")], False),
        ("header:id", b"k", b"v", [("id", b"1")], True),
        # The last one of a name counts, as where dedup looks.
        ("header:id", b"k", b"v", [("id", b"1"), ("id", b"")], False),
        ("header:id", b"k", b"v", [("id", None), ("id", b"1")], True),
        ("key", b"k", None, [], True),
        ("key", None, b"v", [], False),
        ("key", b"", b"v", [], False),
        ("value:$.id", b"k", None, [], False),
        ("value:$.id", b"k", b"", [], False),
        # What is inside is not looked at: it may have one.
        ("value:$.id", b"k", b"no JSON", [], True),
    ],
)
def test_only_a_record_without_an_id_has_certainly_no_event(
    by: str, key: bytes | None, value: bytes | None, headers: list[Header], expected: bool
) -> None:
    assert has_event(by, Content(key, value, headers, -1)) is expected
