"""What an order of a backfill comes to: its ranges, or every reason why it cannot be."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from pydantic import ValidationError

from aggregator.cli.backfill import parse_rate
from aggregator.features.backfill.ranges import (
    Backfill,
    BackfillPart,
    BackfillRequest,
    BackfillState,
    BeforeBackfill,
    busy_with,
    find_active,
    held_back,
    next_id,
    plan_backfill,
)
from aggregator.model.errors import RefusedError
from aggregator.model.values import OffsetRange, SourcePartition
from support.backfills import NOW, SP, backfill

OTHER = SourcePartition("eu", "orders", 1)


def request(**parts: Any) -> BackfillRequest:
    return BackfillRequest(source="eu", topic="orders", **parts)


def place(**parts: Any) -> BeforeBackfill:
    """A log of [100, 500), read by the live flow up to 400."""
    plain: dict[str, Any] = {"partition": SP, "log": OffsetRange(100, 500), "position": 400}
    return BeforeBackfill(**{**plain, **parts})


def ranges(asked: BackfillRequest, *places: BeforeBackfill) -> list[tuple[int, int, int]]:
    plan = plan_backfill(asked, places)
    assert plan.problems == ()
    return [(it.start, it.end, it.lost) for it in plan.parts]


def problems(asked: BackfillRequest, *places: BeforeBackfill) -> str:
    plan = plan_backfill(asked, places)
    assert plan.problems
    return "; ".join(plan.problems)


def test_all_that_the_log_holds_before_the_live_flow() -> None:
    assert ranges(request(), place()) == [(100, 400, 0)]
    assert ranges(request(until_offset=300), place()) == [(100, 300, 0)]
    assert ranges(request(from_offset=150, until_offset=400), place()) == [(150, 400, 0)]
    assert ranges(request(from_time_ms=1), place(start=200)) == [(200, 400, 0)]


def test_a_time_beyond_the_live_flow_ends_where_that_is() -> None:
    assert ranges(request(until_time_ms=1), place(end=250)) == [(100, 250, 0)]
    assert ranges(request(until_time_ms=1), place(end=450)) == [(100, 400, 0)]


def test_what_the_source_has_deleted_is_reported_and_counted() -> None:
    assert ranges(request(from_offset=40), place()) == [(100, 400, 60)]
    (note, _) = plan_backfill(request(from_offset=40), [place()]).notes
    assert note == "eu/orders-0: the source has deleted 60 offsets, 40 to 99"


def test_never_beyond_the_position_of_the_live_flow() -> None:
    assert "401 is beyond its position 400" in problems(request(until_offset=401), place())
    assert "has no position yet" in problems(request(), place(position=None))
    assert "its log ends at 500, before" in problems(request(), place(position=600))


def test_what_cannot_be_is_refused_with_each_reason() -> None:
    reasons = problems(
        request(),
        place(log=None),
        place(partition=OTHER, other_log="the topic was created again"),
    )
    assert reasons.count(";") == 1
    assert "its log could not be read" in reasons
    assert "the topic was created again" in reasons
    assert "backfill b7 reads it already" in problems(request(), place(busy="b7"))
    assert "no offset is known" in problems(request(from_time_ms=1), place())
    assert "no offset is known" in problems(request(until_time_ms=1), place())
    assert "begin at 200" in problems(request(), place(cut=200))
    assert ranges(request(from_offset=200), place(cut=200)) == [(200, 400, 0)]
    compacted = plan_backfill(request(), [place()], compacted="orders")
    assert "hub topic orders is compacted" in compacted.problems[0]


def test_a_partition_with_nothing_to_read_is_left_alone_and_only_such_are_refused() -> None:
    both = (place(), place(partition=OTHER, position=100))
    plan = plan_backfill(request(), both)
    assert [it.partition for it in plan.parts] == [SP]
    assert "eu/orders-1: nothing to read from 100 to 100: left alone" in plan.notes
    assert "there is nothing to read" in problems(request(), both[1])
    assert "no partition is named" in problems(request())


def test_one_begin_and_one_end() -> None:
    for end in ("from", "until"):
        with pytest.raises(ValidationError, match=f"give {end}_offset or {end}_time_ms"):
            request(**{f"{end}_offset": 1, f"{end}_time_ms": 1})


def test_an_id_is_new() -> None:
    assert next_id([]) == "b1"
    assert next_id(["b1", "b10", "b9"]) == "b11"


def test_the_live_flow_may_not_be_set_back_into_what_a_backfill_reads() -> None:
    active, done = backfill(), backfill(id="b2", state=BackfillState.DONE)
    assert list(busy_with([active, done])) == [SP]
    assert held_back({SP: 50, OTHER: 0}, [active, done]) == (
        "eu/orders-0: backfill b1 reads it up to 100, and 50 is before that: wait for it, or "
        "aggregator backfill cancel b1",
    )
    assert held_back({SP: 100}, [active]) == ()
    through = backfill(parts=(BackfillPart(SP, 0, 100, 100),))
    assert held_back({SP: 50}, [through]) == ()


def test_only_an_active_one_is_found() -> None:
    known: dict[str, Backfill] = {"b1": backfill(), "b2": backfill(state=BackfillState.DONE)}
    assert find_active(known, "b1").ordered_at == NOW
    with pytest.raises(RefusedError, match="b2 is DONE already"):
        find_active(known, "b2")
    with pytest.raises(RefusedError, match="there are: b1, b2"):
        find_active(known, "b3")


def test_rates_in_records_and_in_bytes() -> None:
    assert parse_rate(None) == (None, None)
    assert parse_rate("2000/s") == (2000, None)
    assert parse_rate("2.5 records/s") == (2.5, None)
    assert parse_rate("5MB/s") == (None, 5_000_000)
    assert parse_rate("64 KiB / s") == (None, 65_536)
    for wrong in ("5", "MB/s", "0/s", "5 parsecs/s", "-1/s"):
        with pytest.raises(typer.BadParameter, match="write 5MB/s"):
            parse_rate(wrong)
