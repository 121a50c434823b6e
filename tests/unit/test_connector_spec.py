"""The JSON that describes a lane to the connector, and that the connector reads it so."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aggregator.datapath.connector.spec import Clients, Reading, render_spec
from aggregator.model.record_rules import EventRule
from aggregator.model.values import (
    ORIGIN_HEADERS,
    QUARANTINE_HEADERS,
    Limits,
    PoisonRule,
    Positions,
    Route,
    Skip,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.lanes.murmur2 import partition_for_key
from support.java_tests import printed_by

EU = [SourcePartition("eu", "orders", number) for number in range(3)]
LOGS = SourcePartition("eu", "logs", 0)
US = [SourcePartition("us", "orders", number) for number in range(2)]
ORDERS = Route("eu", "orders", "hub.orders", 3, 6)
LOGGED = Route("eu", "logs", "hub.logs", 1, 2, partition_by="cluster")
US_ORDERS = Route("us", "orders", "hub.orders", 2, 6, transform="module:function")
READINGS = (
    Reading("eu", "", (ORDERS, LOGGED), Positions({EU[0]: 10, EU[1]: 11, EU[2]: 12, LOGS: 5})),
    Reading("us", "module:function", (US_ORDERS,), Positions({US[0]: 20, US[1]: 21})),
)
TASKS = (((EU[2], LOGS), (EU[0], EU[1])), ((US[1], US[0]),))
CLIENTS = Clients(
    {"eu": {"bootstrap.servers": "eu:1"}, "us": {"bootstrap.servers": "us:1"}},
    {"bootstrap.servers": "hub:1"},
    {"eu": "eu-id", "us": "us-id"},
)


def rendered(
    readings: tuple[Reading, ...] = READINGS,
    clients: Clients = CLIENTS,
    until: Mapping[SourcePartition, int] | None = None,
    skips: Mapping[SourcePartition, Skip] | None = None,
) -> str:
    return render_spec(
        key="orders#3",
        lane="orders",
        generation=3,
        readings=readings,
        tasks=TASKS,
        clients=clients,
        hub_names=["hub", "alias", "hub"],
        until=until or {},
        skips=skips or {},
        snapshot=9,
    )


def routes(*given: Route) -> Any:
    """The routes of a spec whose first reading has these."""
    reading = replace(READINGS[0], routes=given)
    return json.loads(rendered((reading, READINGS[1])))["routes"]


def test_the_shape_of_a_spec() -> None:
    spec = json.loads(rendered())
    readings = spec.pop("readings")
    assert len(spec.pop("routes")) == 3
    assert spec == {
        "key": "orders#3",
        "lane": "orders",
        "generation": 3,
        "snapshot": 9,
        "path": "objects",
        "producer": {"bootstrap.servers": "hub:1"},
        "recompressed": [],
        "origin": {
            "names": list(ORIGIN_HEADERS),
            "compact": "origin",
            "hub_names": ["alias", "hub"],
        },
        "quarantine": {
            "topic": "",
            "partition": 0,
            "headers": list(QUARANTINE_HEADERS),
            "timestamp": "quarantine.timestamp",
        },
        "duplicates": "",
    }
    assert [reading["cluster"] for reading in readings] == ["eu", "us"]
    assert [reading["cluster_id"] for reading in readings] == ["eu-id", "us-id"]
    assert [reading["plain"] for reading in readings] == [True, False]


def test_a_hub_that_forgets_producers_has_a_careful_one_beside_the_other() -> None:
    clients = replace(CLIENTS, careful={"retries": "0"}, numbered={"retries": "7"}, fresh_ms=5)
    spec = json.loads(rendered(clients=clients))
    assert (spec["careful"], spec["fresh_ms"]) == ({"retries": "0"}, 5)
    assert spec["numbered"] == {"retries": "7"}


def test_partitions_stand_in_the_order_of_the_tasks_which_number_them() -> None:
    eu, us = json.loads(rendered())["readings"]
    assert eu["tasks"] == [[0, 1], [2, 3]]
    assert eu["partitions"] == [
        {"topic": "orders", "partition": 2, "route": 0, "position": 12},
        {"topic": "logs", "partition": 0, "route": 1, "position": 5},
        {"topic": "orders", "partition": 0, "route": 0, "position": 10},
        {"topic": "orders", "partition": 1, "route": 0, "position": 11},
    ]
    assert us["tasks"] == [[0, 1]]
    # The routes are numbered over all readings: the same topic of two clusters has two.
    assert us["partitions"] == [
        {"topic": "orders", "partition": 1, "route": 2, "position": 21},
        {"topic": "orders", "partition": 0, "route": 2, "position": 20},
    ]


def test_lost_data_is_never_skipped_whatever_the_settings_say() -> None:
    own = {"auto.offset.reset": "earliest", "enable.auto.commit": "true", "client.id": "a"}
    clients = replace(CLIENTS, consumers={"eu": own, "us": {}})
    eu, us = (each["consumer"] for each in json.loads(rendered(clients=clients))["readings"])
    assert us == {"auto.offset.reset": "none", "enable.auto.commit": "false"}
    assert eu == us | {"client.id": "a"}


def test_what_is_not_to_end_and_leaves_nothing_out_says_nothing_of_it() -> None:
    skips = {EU[0]: Skip([(12, 14), (20, 30)])}
    eu, us = json.loads(rendered(until={EU[1]: 99}, skips=skips))["readings"]
    of = {(it["topic"], it["partition"]): it for it in eu["partitions"]}
    assert of["orders", 0]["skip"] == [[12, 14], [20, 30]]
    assert "until" not in of["orders", 0]
    assert of["orders", 1]["until"] == 99
    assert "skip" not in of["orders", 1]
    assert "later" not in of["orders", 1]
    for each in (of["orders", 2], of["logs", 0], *us["partitions"]):
        assert each.keys() == {"topic", "partition", "route", "position"}


def test_an_end_at_the_first_offset_is_an_end() -> None:
    eu, _ = json.loads(rendered(until={EU[2]: 0}))["readings"]
    assert eu["partitions"][0]["until"] == 0


def test_keys_of_later_records_are_base64_by_hub_partition() -> None:
    later = {
        TopicPartition("hub.orders", 1): {b"\x00\xff\x80": 13, b"": 12},
        TopicPartition("hub.orders", 0): {"é".encode(): 2**40},
    }
    eu, _ = json.loads(rendered(skips={EU[2]: Skip([(12, 14)], later)}))["readings"]
    found = {
        TopicPartition(*tp): {base64.b64decode(key): at for key, at in keys}
        for *tp, keys in eu["partitions"][0]["later"]
    }
    assert found == later


def test_a_route_says_where_records_go() -> None:
    first, second, third = routes(ORDERS, LOGGED)
    assert first == {
        "hub_topic": "hub.orders",
        "hub_partitions": 6,
        "by": "key",
        "fixed": partition_for_key(b"eu", 6),
        "limits": {},
        "quarantine": "",
        "quarantine_bytes": 0,
        "compact": False,
        "schemas": "pass",
        "dedup": None,
        "batch_bytes": 0,
    }
    assert (second["hub_topic"], second["by"]) == ("hub.logs", "cluster")
    assert third["fixed"] == partition_for_key(b"us", 6)


def test_a_route_says_by_what_its_events_are_to_come_once() -> None:
    rule = EventRule("key", 60_000, "aside", 5)
    first, second, _ = routes(replace(ORDERS, dedup=rule), LOGGED)
    assert first["dedup"] == {"by": "key", "window_ms": 60_000, "bytes": 5}
    assert second["dedup"] is None


def test_a_route_says_in_which_form_the_origin_of_its_records_is() -> None:
    found = routes(ORDERS, replace(LOGGED, origin="header"))
    assert [route["compact"] for route in found] == [False, True, False]


def test_a_route_that_two_readings_share_is_there_once() -> None:
    both = tuple(replace(reading, routes=(ORDERS, US_ORDERS, LOGGED)) for reading in READINGS)
    assert len(json.loads(rendered(both))["routes"]) == 3


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), {}),
        (Limits(max_bytes=0, ahead_ms=0), {"max_bytes": 0, "ahead_ms": 0}),
        (Limits(behind_ms=7), {"behind_ms": 7}),
        (Limits(key_required=True), {"key_required": True}),
    ],
)
def test_a_route_lists_only_limits_that_are_set(limits: Limits, expected: dict[str, Any]) -> None:
    assert (
        routes(replace(ORDERS, poison=PoisonRule(limits=limits)), LOGGED)[0]["limits"] == expected
    )


def test_the_quarantine_is_that_of_whichever_route_has_one() -> None:
    kept = replace(LOGGED, poison=PoisonRule("hub.refused", quarantine_bytes=500))
    reading = replace(READINGS[0], routes=(ORDERS, kept))
    spec = json.loads(rendered((reading, READINGS[1])))
    assert spec["quarantine"]["topic"] == "hub.refused"
    assert [it["quarantine"] for it in spec["routes"]] == ["", "hub.refused", ""]
    assert [it["quarantine_bytes"] for it in spec["routes"]] == [0, 500, 0]


@pytest.mark.slow
def test_the_connector_reads_it_as_it_is_meant(tmp_path: Path) -> None:
    kept = replace(LOGGED, poison=PoisonRule("hub.refused", quarantine_bytes=500), origin="header")
    # A key moves when its topic grows; an entry of another topic says nothing about this one.
    later = {
        TopicPartition("hub.orders", 1): {b"\x00\xff\x80": 13},
        TopicPartition("hub.orders", 4): {b"": 12, b"\x00\xff\x80": 11},
        TopicPartition("hub.before", 0): {b"": 15},
    }
    spec = rendered(
        readings=(replace(READINGS[0], routes=(ORDERS, kept)), READINGS[1]),
        until={EU[0]: 99, LOGS: 0},
        skips={EU[2]: Skip([(12, 14), (16, 17)], later)},
    )
    fixed = partition_for_key(b"eu", 2)
    aside = f"quarantines in hub.refused/0 as [{', '.join(QUARANTINE_HEADERS)}]"
    own = ", auto.offset.reset=none, enable.auto.commit=false}"
    eu = f"knows 9, reads with {{bootstrap.servers=eu:1{own}"
    us = f"knows 9, reads with {{bootstrap.servers=us:1{own}"
    hub = f"writes with {{bootstrap.servers=hub:1}}, {aside}"
    # Records without a key go to the partition of their own number at first.
    assert printed_by("PrintSpec", tmp_path, given=spec) == [
        f"orders#3-0-0 of eu (eu-id) plain {eu}, {hub}",
        "  orders/2 from 12 without [12, 13, 16]{=12, 00ff80=13}, to hub.orders/2 of 6,"
        " else to '' (0)",
        f"  logs/0 from 5 until 0 without []{{}}, to hub.logs/{fixed} of 2,"
        " else to 'hub.refused' (500), from in one header",
        f"orders#3-0-1 of eu (eu-id) plain {eu}, {hub}",
        "  orders/0 from 10 until 99 without []{}, to hub.orders/0 of 6, else to '' (0)",
        "  orders/1 from 11 without []{}, to hub.orders/1 of 6, else to '' (0)",
        f"orders#3-1-0 of us (us-id) {us}, {hub}",
        "  orders/1 from 21 without []{}, to hub.orders/1 of 6, else to '' (0)",
        "  orders/0 from 20 without []{}, to hub.orders/0 of 6, else to '' (0)",
    ]
