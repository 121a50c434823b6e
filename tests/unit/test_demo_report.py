"""The demo's events are believable and repeatable; its report says what was counted."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import fastavro
import pytest

from aggregator.cli.demo import report_of
from aggregator.cli.demo_view import DemoRates, line
from aggregator.cli.render import to_text
from aggregator.extras.demo.demo import DemoOutcome, Progress
from aggregator.extras.demo.generator import (
    ORDERS,
    PAYMENTS,
    REGIONS,
    SHIPMENT,
    SHIPMENTS,
    EventMaker,
    ShopRecord,
)
from aggregator.extras.demo.hub_reader import Example
from aggregator.extras.demo.verdict import Flow, Tally

NOW = 1_700_000_000_000


def events(region: str, seed: int = 1, count: int = 500) -> list[ShopRecord]:
    maker = EventMaker(REGIONS[region], seed)
    return [maker.make(NOW + n) for n in range(count)]


def values(made: list[ShopRecord], topic: str) -> list[dict[str, Any]]:
    return [json.loads(event.value) for event in made if event.topic == topic]


def test_the_same_seed_makes_the_same_events() -> None:
    assert events("eu") == events("eu")
    assert events("eu") != events("eu", seed=2)
    assert events("eu") != events("us")


@pytest.mark.parametrize(("region", "currency"), [("eu", "EUR"), ("us", "USD")])
def test_an_order_is_believable(region: str, currency: str) -> None:
    made = events(region)
    orders = values(made, ORDERS)
    assert len({order["order_id"] for order in orders}) == len(orders) > 100
    for order in orders:
        assert order["currency"] == currency
        cost = sum(item["quantity"] * item["price"] for item in order["items"])
        assert order["amount"] == pytest.approx(cost)
        assert datetime.fromisoformat(order["ordered_at"]).utcoffset() is not None


def test_each_payment_follows_its_order_with_amount_and_trace() -> None:
    made = events("eu")
    open_orders: dict[str, tuple[float, bytes]] = {}
    payments = 0
    for event in made:
        value, trace = json.loads(event.value), dict(event.headers)["trace-id"]
        if event.topic == ORDERS:
            assert event.key.decode() == value["customer"]["id"]
            open_orders[value["order_id"]] = (value["amount"], trace)
        else:
            assert event.topic == PAYMENTS
            assert event.key.decode() == value["order_id"]
            assert open_orders.pop(value["order_id"]) == (value["amount"], trace)
            payments += 1
    assert payments > 100


def test_with_a_schema_id_shipments_in_avro_follow_payments() -> None:
    maker = EventMaker(REGIONS["apac"], seed=1, schema_id=7)
    made = [maker.make(NOW + n) for n in range(500)]
    paid: dict[bytes, bytes] = {}
    shipments = 0
    for event in made:
        if event.topic == PAYMENTS:
            paid[event.key] = dict(event.headers)["trace-id"]
        if event.topic != SHIPMENTS:
            continue
        assert event.value[:5] == bytes([0, 0, 0, 0, 7])
        value: Any = fastavro.schemaless_reader(io.BytesIO(event.value[5:]), SHIPMENT, None)
        assert value["order_id"].encode() == event.key
        assert paid.pop(event.key) == dict(event.headers)["trace-id"]
        shipments += 1
    assert shipments > 50
    assert not [event for event in events("apac") if event.topic == SHIPMENTS]


EU, US = Flow("eu", "orders"), Flow("us", "orders")
GOOD = DemoOutcome(
    {EU: Tally(sent=10, found=10), US: Tally(sent=5, found=5)},
    {"p50": 31.0, "p95": 52.4, "p99": 160.0},
    12,
    Example("orders", 1, 7, NOW, "k", "v", (("trace-id", "t"), ("origin.cluster", "eu"))),
    9.5,
)


def test_the_report_of_a_perfect_outcome() -> None:
    report = report_of(GOOD)
    text = to_text(report, tty=False)
    assert [line.split() for line in text.splitlines()[3:6]] == [
        ["eu", "orders", "10", "10", "0", "0", "0"],
        ["us", "orders", "5", "5", "0", "0", "0"],
        ["all", "15", "15", "0", "0", "0"],
    ]
    assert "p50 31 ms   p95 52 ms   p99 160 ms" in text
    assert "    origin.cluster    eu" in text.splitlines()
    assert "Every record sent is in the hub, once and in order." in text
    assert json.loads(json.dumps(report.data))["perfect"] is True


@pytest.mark.parametrize("name", ["missing", "duplicated", "out_of_order", "unexpected"])
def test_any_defect_makes_it_imperfect(name: str) -> None:
    broken = Tally(sent=5, found=5)
    setattr(broken, name, 1)
    outcome = replace(GOOD, flows={EU: Tally(sent=10, found=10), US: broken})
    assert not outcome.perfect
    report = report_of(outcome)
    assert report.data["flows"][1][name] == 1
    assert "does not hold exactly what was sent" in to_text(report, tty=False)


def test_an_outcome_without_any_flow_is_not_perfect() -> None:
    assert not replace(GOOD, flows={}).perfect


def test_progress_as_a_line() -> None:
    progress = Progress("streaming", 12.0, "RUNNING", {EU: 3000}, {EU: 2990})
    assert line(progress, 998.4) == (
        "   12 s  streaming: sent 3,000, in the hub 2,990, lag 10, 998 records/s, RUNNING"
    )
    assert line(Progress("counting", 50.0), 0.0) == "   50 s  counting"


def test_rates_are_those_of_the_last_seconds() -> None:
    rates = DemoRates()
    assert rates.of(0.0, {EU: 100}) == {EU: 0.0}
    assert rates.of(1.0, {EU: 200}) == {EU: 100.0}
    assert rates.of(4.0, {EU: 500}) == {EU: 100.0}
    assert rates.of(7.0, {EU: 500}) == {EU: 0.0}
