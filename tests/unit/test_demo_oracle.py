"""The demo's judge: each kind of defect, put in on purpose, must be found and nothing else."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from aggregator.extras.demo.verdict import (
    NOWHERE,
    Flow,
    Found,
    Headers,
    origin_of,
    percentile,
    tally,
)
from aggregator.model.values import SourcePartition

EU0 = SourcePartition("eu", "orders", 0)
EU1 = SourcePartition("eu", "orders", 1)
US0 = SourcePartition("us", "orders", 0)
EU, US = Flow("eu", "orders"), Flow("us", "orders")
SENT = {EU0: {0, 1, 2, 3}, EU1: {0, 1}, US0: {0, 1}}


def found(partition: SourcePartition, offset: int, hub_partition: int = 0) -> Found:
    return Found("orders", hub_partition, (partition, offset))


# Hub partition 0 holds even offsets, 1 odd ones: a source partition spreads over both.
PERFECT = [
    *(found(EU0, n, 0) for n in (0, 2)),
    *(found(EU1, n, 0) for n in (0,)),
    *(found(US0, n, 0) for n in (0,)),
    *(found(EU0, n, 1) for n in (1, 3)),
    *(found(EU1, n, 1) for n in (1,)),
    *(found(US0, n, 1) for n in (1,)),
]


def defects(records: list[Found], flow: Flow = EU) -> dict[str, int]:
    """What is wrong with one flow; the other source must be perfect."""
    flows = tally(SENT, records)
    assert all(it.perfect for name, it in flows.items() if name != flow)
    return {
        name: n for name, n in asdict(flows[flow]).items() if n and name not in ("sent", "found")
    }


def test_everything_once_and_in_order_is_perfect() -> None:
    flows = tally(SENT, PERFECT)
    assert {flow: (it.sent, it.found, it.perfect) for flow, it in flows.items()} == {
        EU: (6, 6, True),
        US: (2, 2, True),
    }


def test_a_missing_record_is_found_below_the_newest() -> None:
    assert defects([record for record in PERFECT if record.origin != (EU0, 1)]) == {"missing": 1}


def test_an_empty_hub_misses_everything() -> None:
    flows = tally(SENT, [])
    assert [(it.missing, it.perfect) for it in flows.values()] == [(6, False), (2, False)]


def test_a_second_copy_is_a_duplicate_wherever_it_lies() -> None:
    assert defects([*PERFECT, found(EU0, 0, 0)]) == {"duplicated": 1}
    assert defects([*PERFECT, found(EU0, 0, 1), found(EU0, 0, 1)]) == {"duplicated": 2}


def test_a_record_behind_a_later_one_is_out_of_order() -> None:
    swapped = [PERFECT[1], PERFECT[0], *PERFECT[2:]]
    assert defects(swapped) == {"out_of_order": 1}


def test_order_counts_within_a_source_partition_and_hub_partition_only() -> None:
    mixed = [found(EU1, 1, 0), found(EU0, 0, 0), found(EU0, 1, 0), found(EU0, 2, 1)]
    mixed += [found(EU0, 3, 0), found(EU1, 0, 1), found(US0, 0, 0), found(US0, 1, 0)]
    assert defects(mixed) == {}


def test_what_no_one_acknowledged_is_unexpected() -> None:
    assert defects([*PERFECT, found(EU0, 9)]) == {"unexpected": 1}
    other = tally(SENT, [*PERFECT, Found("orders", 0, None)])
    assert other[Flow(NOWHERE, "orders")].unexpected == 1
    assert not other[Flow(NOWHERE, "orders")].perfect


ORIGIN: Headers = [
    ("origin.cluster", b"eu"),
    ("origin.topic", b"orders"),
    ("origin.partition", b"1"),
    ("origin.offset", b"42"),
]


def test_origin_is_read_from_the_last_set_of_headers() -> None:
    assert origin_of(ORIGIN) == (EU1, 42)
    far: Headers = [(name, b"7") for name, _ in ORIGIN]
    assert origin_of([*far, ("other", None), *ORIGIN]) == (EU1, 42)


def test_origin_is_read_from_one_header_too() -> None:
    one = ("origin", b"eu/orders/1/42")
    assert origin_of([one]) == (EU1, 42)
    assert origin_of([("origin", b"web"), *ORIGIN, ("other", None), one]) == (EU1, 42)
    assert origin_of([("origin", b"us/orders/0/7"), *ORIGIN]) == (EU1, 42)


@pytest.mark.parametrize(
    "headers",
    [
        None,
        [],
        ORIGIN[:3],
        [*ORIGIN, ("origin", None)],
        [*ORIGIN, ("origin", b"web")],
        [*ORIGIN, ("origin", b"eu/orders/42")],
        [*ORIGIN, ("origin", b"eu/orders/1/42/")],
        [*ORIGIN, ("origin", b"eu/orders/2147483648/42")],
        [*ORIGIN[:3], ("origin.offset", b"x")],
        [*ORIGIN, ("origin.offset", None)],
        [*ORIGIN, ("origin.topic", b"\xff")],
    ],
)
def test_headers_that_name_no_origin(headers: Headers | None) -> None:
    assert origin_of(headers) is None


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert percentile([7.0], 0.5) == 7.0
    assert percentile([], 0.5) is None
