"""Schemas that meet under one hub subject: what differs between them, said ahead of a run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.features.schemas.check_ahead import look_at_schemas
from aggregator.features.schemas.conflicts import (
    AT_HUB,
    SeenSchema,
    SubjectPair,
    plan_conflicts,
    plan_wanted,
)
from aggregator.kafka.registry.differences import WHOLE, differences, in_words
from aggregator.model.values import Route

GIVEN_SECONDS = 2.0
"""For each look at registries: those that answer have no longer, and the machine may be busy."""
CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}],
}


def order(*more: Any, **changed: Any) -> dict[str, Any]:
    """A record in Avro with an id, and these fields."""
    fields = [{"name": "id", "type": "long"}, *more]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": fields, **changed}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def said(one: Any, other: Any, kind: str = "AVRO") -> list[str]:
    texts = [it if isinstance(it, str) else json.dumps(it) for it in (one, other)]
    return [it.words("at eu", "at us") for it in differences((kind, kind), (texts[0], texts[1]))]


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (order(), order(doc="of a shop"), []),
        (
            order(field("sum", "double")),
            order(field("sum", "string")),
            ["sum: double at eu, string at us"],
        ),
        (
            order(field("note", "string")),
            order(field("note", "string", default="")),
            ['note: string at eu, string = "" at us'],
        ),
        (order(), order(field("note", "string")), ["note: not there at eu, string at us"]),
        (
            order(),
            order(name="Sale"),
            [f"{WHOLE}: record shop.Order at eu, record shop.Sale at us"],
        ),
        (
            order(field("at", {"type": "long", "logicalType": "timestamp-millis"})),
            order(field("at", "long")),
            ["at: long (timestamp-millis) at eu, long at us"],
        ),
        (
            order(field("kind", {"type": "enum", "name": "Kind", "symbols": ["A"]})),
            order(field("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]})),
            ["kind: enum shop.Kind(A) at eu, enum shop.Kind(A, B) at us"],
        ),
        # A field of a record in a record, also one that is called by its name.
        (
            order(field("by", CUSTOMER), field("to", ["null", "Customer"], default=None)),
            order(
                field("by", {**CUSTOMER, "fields": [field("name", "bytes")]}),
                field("to", ["null", "shop.Customer"], default=None),
            ),
            ["by.name: string at eu, bytes at us", "to.name: string at eu, bytes at us"],
        ),
        # What is in a list; what lies below something that is not there is not named again.
        (
            order(field("lines", {"type": "array", "items": CUSTOMER})),
            order(
                field(
                    "lines",
                    {"type": "array", "items": {**CUSTOMER, "fields": [field("name", "int")]}},
                )
            ),
            ["lines[].name: string at eu, int at us"],
        ),
        (
            order(field("by", CUSTOMER)),
            order(),
            ["by: record shop.Customer at eu, not there at us"],
        ),
        # A record that has itself in it has an end.
        (
            order(field("next", ["null", "Order"])),
            order(field("next", ["null", "Order"], default=None)),
            [
                "next: null | record shop.Order at eu, null | record shop.Order = null at us",
            ],
        ),
        ("no JSON", order(), [f"{WHOLE}: one text at eu, another one at us"]),
    ],
)
def test_fields_of_avro_differ_by_their_paths(one: Any, other: Any, wanted: list[str]) -> None:
    assert said(one, other) == wanted


def test_properties_of_json_schema_differ_by_their_paths() -> None:
    one = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "by": {"$ref": "#/$defs/customer"},
            "lines": {"type": "array", "items": {"properties": {"n": {"type": "integer"}}}},
        },
        "required": ["id"],
        "$defs": {"customer": {"properties": {"name": {"type": "string"}}}},
    }
    other = json.loads(json.dumps(one))
    other["required"] = []
    other["$defs"]["customer"]["properties"]["name"]["type"] = ["string", "null"]
    other["properties"]["lines"]["items"]["properties"]["n"]["type"] = "string"
    assert said(one, {**one, "description": "of a shop"}, "JSON") == []
    assert said(one, other, "JSON") == [
        "id: integer, required at eu, integer, optional at us",
        "by.name: string, optional at eu, string | null, optional at us",
        "lines[].n: integer, optional at eu, string, optional at us",
    ]


def test_fields_of_protobuf_differ_by_message_and_name() -> None:
    one = """
    syntax = "proto3"; // a shop's
    import "customer.proto";
    message Order {
      option deprecated = true;
      int64 id = 1;
      repeated shop.Customer by = 2;
      map<string, int64> counts = 3;
      oneof how { string card = 4; bool cash = 5; }
      message Line { int32 n = 1 [deprecated = true]; }
      enum Kind { NONE = 0; }
    }
    """
    other = one.replace("int64 id = 1", "string id = 1").replace("cash = 5", "cash = 6")
    other = other.replace("int32 n = 1", "int32 n = 1; int32 m = 2").replace("a shop's", "mine")
    assert said(one, one.replace("shop's", "store's"), "PROTOBUF") == []
    assert said(one, other, "PROTOBUF") == [
        "Order.id: int64 number 1 at eu, string number 1 at us",
        "Order.cash: bool number 5 at eu, bool number 6 at us",
        "Order.Line.m: not there at eu, int32 number 2 at us",
    ]
    assert said(one, "?", "PROTOBUF") == [f"{WHOLE}: one text at eu, another one at us"]


def test_kinds_that_differ_differ_as_a_whole_and_many_fields_are_cut_short() -> None:
    (found,) = differences(("AVRO", "JSON"), ("{}", "{}"))
    assert found.words("at eu", "at us") == f"{WHOLE}: AVRO at eu, JSON at us"
    many = order(*(field(f"f{n}", "int") for n in range(10)))
    texts = (json.dumps(order()), json.dumps(many))
    words = in_words(differences(("AVRO", "AVRO"), texts), "here", "there")
    assert words.endswith("f7: not there here, int there; and 2 more")


def found(place: str, schema: Any, subject: str = "orders-value", at_hub: str = "") -> SeenSchema:
    wanted = SubjectPair(subject, "orders", at_hub or subject)
    return SeenSchema(place, 1, wanted, "AVRO", json.dumps(schema))


def test_what_is_called_by_a_topic_is_wanted_under_the_hub_topic() -> None:
    subjects = ["orders-value", "orders-key", "orders-shop.Order", "orders-eu-value", "shop.Order"]
    assert [(it.subject, it.hub_subject) for it in plan_wanted(subjects, "orders", "all.o")] == [
        ("orders-key", "all.o-key"),
        ("orders-shop.Order", "all.o-shop.Order"),
        ("orders-value", "all.o-value"),
    ]
    (own,) = plan_wanted([":.eu:orders-value"], "orders", "all.o")
    assert (own.subject, own.hub_subject) == (":.eu:orders-value", "all.o-value")


def test_fields_of_another_type_are_a_conflict_and_a_later_version_is_none() -> None:
    eu, us = found("eu", order(field("n", "int"))), found("us", order(field("n", "string")))
    (conflict,) = plan_conflicts({}, [us, eu], {})
    assert (conflict.one, conflict.other, conflict.refused) == (eu, us, None)
    assert str(conflict) == (
        "orders-value of orders: eu, version 1 of orders-value and us, version 1 of orders-value "
        "do not fit together: n: int at eu, string at us"
    )
    later = found("us", order(field("n", "int"), field("m", "int", default=0)))
    assert plan_conflicts({}, [eu, later], {}) == ()
    assert plan_conflicts({}, [later, eu], {}) == ()
    # A hub that would refuse even that says so.
    (refused,) = plan_conflicts({"orders-value": found(AT_HUB, order())}, [later], {later: False})
    assert refused.refused is True
    assert str(refused).endswith("the hub's registry would refuse it")
    assert [it["field"] for it in refused.to_dict()["fields"]] == ["n", "m"]


def test_what_goes_to_subjects_of_their_own_has_no_conflict() -> None:
    eu = found("eu", order(field("n", "int")), at_hub="eu.orders-value")
    us = found("us", order(field("n", "string")), at_hub="us.orders-value")
    assert plan_conflicts({}, [eu, us], {}) == ()


class Registries(BaseHTTPRequestHandler):
    """Those of eu, us and the hub by the first part of a path; `hang` are those that hang."""

    schemas: dict[str, Any] = {}
    hang: set[str] = set()
    over = threading.Event()
    changes: list[str] = []

    def do_GET(self) -> None:
        _, place, path = self.path.split("/", 2)
        if place in self.hang:
            self.over.wait(30)
        elif path == "subjects":
            self.answer(["orders-value"])
        elif path == "subjects/orders-value/versions/latest" and place in self.schemas:
            schema = json.dumps(self.schemas[place])
            self.answer({"version": 1, "id": 1, "schema": schema})
        else:
            self.answer({"error_code": 40401, "message": "no subject"}, 404)

    def do_POST(self) -> None:
        if "/compatibility/" not in self.path:
            self.changes.append(self.path)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"is_compatible": False})

    def answer(self, content: Any, code: int = 200) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *_: Any) -> None:
        """No one reads it."""


@pytest.fixture
def config() -> Iterator[Config]:
    Registries.schemas, Registries.hang = {}, set()
    Registries.over.clear()
    Registries.changes.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Registries) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        sources = "".join(
            f"  {it}: {{bootstrap_servers: '127.0.0.1:9', topics: {{include: orders}}, "
            f"schemas: {{registry: '{url}/{it}'}}}}\n"
            for it in ("eu", "us")
        )
        yield load_text(
            f"hub: {{bootstrap_servers: '127.0.0.1:8', schemas: {{registry: '{url}/hub'}}}}\n"
            f"sources:\n{sources}topics: {{schemas: translate}}\n"
        )
        Registries.over.set()
        server.shutdown()


ROUTES = [Route(it, "orders", "orders", 1, 1, schemas="translate") for it in ("eu", "us")]


def test_ahead_of_a_run_registries_are_asked_and_nothing_is_changed(config: Config) -> None:
    Registries.schemas = {
        "eu": order(field("n", "int")),
        "us": order(field("n", "string")),
        "hub": order(field("n", "int")),
    }
    ahead = look_at_schemas(config, ROUTES)
    assert ahead.unknown == {}
    (conflict,) = ahead.conflicts
    assert (conflict.one.place, conflict.other.place) == (AT_HUB, "us")
    assert conflict.refused is True
    assert [it.path for it in conflict.fields] == ["n"]
    assert Registries.changes == []
    no_routes = [Route("eu", "orders", "orders", 1, 1, schemas="check")]
    assert look_at_schemas(config, no_routes).conflicts == ()


@pytest.mark.parametrize(
    ("hangs", "place", "conflicts"), [("us", "us", []), ("hub", AT_HUB, ["us"])]
)
def test_a_registry_that_hangs_costs_its_part_and_no_more_time_than_was_given(
    config: Config, hangs: str, place: str, conflicts: list[str]
) -> None:
    Registries.schemas = {"eu": order(field("n", "int")), "us": order(field("n", "string"))}
    Registries.hang = {hangs}
    began = time.monotonic()
    ahead = look_at_schemas(config, ROUTES, seconds=GIVEN_SECONDS)
    assert time.monotonic() - began < 15
    assert [it.other.place for it in ahead.conflicts] == conflicts
    assert list(ahead.unknown) == [place]
    assert f"no answer within {GIVEN_SECONDS:g} s" in ahead.unknown[place]
