"""Protobuf by the text of its schema, or by its descriptor: what values say, and as Arrow."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.struct_pb2 import DESCRIPTOR as STRUCT_FILE
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.extras.notebook.protobuf_structs import (
    batch,
    message_of,
    reading_of,
    struct_of,
    why_none,
)
from aggregator.features.peek.decode_value import decode
from aggregator.features.peek.proto_text import descriptor_of
from aggregator.features.peek.protobuf_value import ProtoFile, class_of, parsed, plain, split
from aggregator.kafka.registry import Schema
from aggregator.model.errors import AggregatorError
from support.examples import examples
from support.odd_protobuf import Message, file_of, same_message, schemas

ADDRESS = 'syntax = "proto3"; package shop; message Address { string city = 1; }'
ORDER = """\
syntax = "proto3";
package shop;
/* What of it does not decode is passed over. */
import "address.proto";
import public "google/protobuf/timestamp.proto";
import "confluent/meta.proto";  // Only for options.
option java_package = "shop.orders";
option (own.option) = { a: 1; nested { b: "}" } };

message Item {
  reserved 3, 7 to 9;
  reserved "old";
  string sku = 1 [(confluent.field_meta) = { doc: "]", params: [{ key: "a" }] }, deprecated = true];
}
message Order {
  enum State { option allow_alias = true; NEW = 0; DONE = 1; ENDED = 1; ODD = - 1; }
  message Line { int32 number = 1; Order part_of = 2; }
  map<string, int32> counts_by_name = 5;
  map<int32, Item> items_by_number = 14;
  int64 id = 1;
  Address ship_to = 2;
  repeated Item items = 3;
  google.protobuf.Timestamp at = 4;
  oneof payment { string card = 6; int32 cash = 7; }
  State state = 9;
  repeated .shop.Order.State states = 13;
  optional int32 maybe = 10;
  bytes raw = 11;
  uint64 large = 12;
  Line line = 8;
}
service Orders {
  rpc Take (Order) returns (stream Item) { option (google.api.http) = { get: "/a" }; }
  rpc Ask (Item) returns (Order);
}
"""
FILE = ProtoFile(ORDER, (("address.proto", ADDRESS),))
WHOLE = b"\x02\x02"
"""Chooses the second message: Order."""


def order(**more: Any) -> Any:
    found = class_of(FILE, "shop.Order")(id=5, **more)
    found.ship_to.city = "Köln"
    return found


def test_a_message_is_shown_with_all_its_fields() -> None:
    one = order(cash=3, state=1, raw=b"\xff", large=2**64 - 1, states=[1, -1, 7])
    one.items.add(sku="s")
    one.at.FromJsonString("2026-01-31T12:00:00.000001Z")
    one.counts_by_name["a"] = 1
    one.items_by_number[3].sku = "t"
    one.line.part_of.id = 6
    found = plain(parsed(WHOLE + one.SerializeToString(), FILE))
    assert found.pop("line")["part_of"]["id"] == 6
    assert found == {
        "id": 5,
        "ship_to": {"city": "Köln"},
        "items": [{"sku": "s"}],
        "at": datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=UTC),
        "counts_by_name": {"a": 1},
        "items_by_number": {3: {"sku": "t"}},
        "card": None,
        "cash": 3,
        "state": "DONE",
        "states": ["DONE", "ODD", "7"],
        "maybe": None,
        "raw": b"\xff",
        "large": 2**64 - 1,
    }


def test_numbers_before_the_payload_choose_the_message() -> None:
    item = class_of(FILE, "shop.Item")(sku="s").SerializeToString()
    # Zero alone is short for the first one.
    for head in (b"\x00", b"\x02\x00"):
        assert plain(parsed(head + item, FILE)) == {"sku": "s"}
    # A map is a nested message, too, and is not counted.
    line = class_of(FILE, "shop.Order.Line")(number=7)
    assert plain(parsed(b"\x04\x02\x00" + line.SerializeToString(), FILE))["number"] == 7
    # Where there is none so, maps were counted, as serializers of Python and Go do.
    maps = "message Outer { map<string, int32> m = 1; message Inner { int32 n = 1; } }"
    for head in (b"\x04\x00\x00", b"\x04\x00\x02"):
        assert plain(parsed(head + b"\x08\x07", ProtoFile(maps))) == {"n": 7}
    with pytest.raises(ValueError, match="no such message"):
        parsed(b"\x04\x00\x04\x08\x07", ProtoFile(maps))
    assert split(b"\x02\x80\x02rest") == ((128,), b"rest")


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"", "chooses no message"),
        (b"\x02", "chooses no message"),
        (b"\x01", "chooses no message"),
        (b"\x02\x08", "has no such message"),
        (WHOLE + order().SerializeToString()[:-1], "cannot be read as Protobuf"),
        (b"\x00text", "cannot be read as Protobuf"),
        (b"\x00\x50\x01", "has none of its fields"),
        (b"\x02\x02\x22\x09\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "holds a time that is none"),
    ],
)
def test_what_is_no_such_message_says_why(payload: bytes, why: str) -> None:
    schema = Schema(4, "PROTOBUF", ORDER, FILE.imported)
    found = decode(b"\0\0\0\0\4" + payload, lambda _: schema)
    assert (found.format, found.schema) == ("bytes", 4)
    assert why in found.problem


@given(st.binary(max_size=60))
def test_any_bytes_are_shown_as_a_message_or_said_to_be_none(payload: bytes) -> None:
    schema = Schema(4, "PROTOBUF", ORDER, FILE.imported)
    found = decode(b"\0\0\0\0\4" + payload, lambda _: schema)
    assert found.format == ("bytes" if found.problem else "protobuf")


def test_a_descriptor_in_base64_does_as_well_as_text() -> None:
    descriptor = descriptor_of("order.proto", ORDER)
    text = base64.b64encode(descriptor.SerializeToString()).decode()
    file = ProtoFile(text, FILE.imported)
    value = WHOLE + order().SerializeToString()
    assert plain(parsed(value, file)) == plain(parsed(value, FILE))


def test_the_text_of_protobufs_second_language_and_of_editions_is_read() -> None:
    old = "message A { required int32 n = 1 [default = 0x10]; extensions 100 to max; "
    old += "optional B b = 2; } enum B { X = 0x1; } extend A { optional int32 more = 100; };"
    assert plain(class_of(ProtoFile(old)).FromString(b"\x08\x03")) == {"n": 3, "b": None}
    new = 'edition = "2023"; option features.field_presence = EXPLICIT; message A { int32 n = 1; }'
    assert plain(class_of(ProtoFile(new)).FromString(b"\x08\x03")) == {"n": 3}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("message A {", "ends too early"),
        ("thrift A {}", "'thrift' is not understood"),
        ("message A { int32 n 1; }", "'n' is in|'1' is in"),
        ("message A { Missing m = 1; }", "cannot be used"),
        ("message A { optional group G = 1 { } }", "groups of Protobuf are not decoded"),
        (
            'edition = "2023"; message B {} '
            "message A { B b = 1 [features.message_encoding = DELIMITED]; }",
            "groups of Protobuf are not decoded",
        ),
        ("message A { int32 n = x; }", "invalid literal"),
        ("", "no such message"),
    ],
)
def test_a_schema_that_is_not_understood_says_why(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        class_of(ProtoFile(text))


def test_a_batch_has_the_type_of_the_message_and_a_reason_for_what_is_none() -> None:
    one = order(large=2**64 - 1)
    one.counts_by_name["a"] = 1
    one.line.number = 1
    one.line.part_of.id = 6
    reading = reading_of([FILE], class_of(FILE, "shop.Order"), framed=True)
    other = class_of(FILE, "shop.Item")(sku="s").SerializeToString()
    payloads = [WHOLE + one.SerializeToString(), b"\x00" + other, b"\x02\x02\xff", None]
    found = batch(reading, [0, 0, 0, 0], payloads).to_pylist()
    value = found[0]["value"]
    assert (value["id"], value["large"], value["at"]) == (5, Decimal(2**64 - 1), None)
    assert value["counts_by_name"] == [("a", 1)]
    # A type cannot hold itself.
    assert json.loads(value["line"]["part_of"])["id"] == 6
    assert "is a shop.Item" in found[1]["problem"]
    assert "cannot be read as Protobuf" in found[2]["problem"]
    assert found[3] == {"value": None, "problem": None}
    assert batch(reading, [None], [b"x"]).to_pylist() == [{"value": None, "problem": None}]


def test_versions_of_a_message_become_one_type_and_what_does_not_fit_says_so() -> None:
    texts = ("int32 a = 1;", "int32 a = 1; string b = 2;", "string a = 1;")
    files = [ProtoFile(f'syntax = "proto3"; message M {{ {it} }}') for it in texts]
    kind = message_of([(it, b"\0") for it in files], None)
    reading = reading_of(files, kind, framed=True)
    values: list[dict[str, Any]] = [{"a": 1}, {"a": 1, "b": "x"}, {"a": "one"}]
    payloads = [
        b"\0" + class_of(file)(**value).SerializeToString()
        for file, value in zip(files, values, strict=True)
    ]
    found = batch(reading, [0, 1, 2], payloads).to_pylist()
    assert [it["value"] for it in found] == [{"a": 1, "b": None}, values[1], None]
    assert "cannot be read as the others are" in found[2]["problem"]


def test_where_no_value_can_be_read_the_schema_says_why() -> None:
    broken = ProtoFile("message A { Missing m = 1; }")
    assert message_of([(broken, b"\0"), (FILE, b"\2\x0e")], None) is None
    assert "cannot be used" in why_none(broken, b"\0")
    assert why_none(FILE, b"\0") == ""
    with pytest.raises(AggregatorError, match=r"no message shop[.]Nothing in Item, Order"):
        message_of([(FILE, b"\0")], "shop.Nothing")


def test_a_type_that_holds_itself_ends() -> None:
    text = base64.b64encode(STRUCT_FILE.serialized_pb).decode()
    kind = class_of(ProtoFile(text), "google.protobuf.Struct")
    assert "fields" in struct_of(kind.DESCRIPTOR).fieldNames()
    found = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    assert found.name == "google/protobuf/struct.proto"


@given(schemas(1))
@settings(examples(60))
def test_what_a_message_of_any_shape_says_is_decoded(made: list[Message]) -> None:
    (one,) = made
    file = ProtoFile(file_of(one))
    found = plain(parsed(b"\0" + one.content, file))
    assert same_message(found, one.said), (found, one.said)
    schema = Schema(4, "PROTOBUF", file.text, ())
    said = decode(b"\0\0\0\0\4\0" + one.content, lambda _: schema)
    assert (said.format, said.problem) == ("protobuf", "")


@given(schemas(1), st.integers(1, 10), st.binary(min_size=1, max_size=5))
@settings(examples(40))
def test_as_arrow_it_says_the_same_and_what_is_broken_costs_itself_alone(
    made: list[Message], cut: int, junk: bytes
) -> None:
    (one,) = made
    files = [ProtoFile(file_of(one)), ProtoFile("message A { Missing m = 1; }")]
    kind = message_of([(it, b"\0") for it in files], None)
    whole = b"\0" + one.content
    reading = reading_of(files, kind, framed=True)
    found = batch(reading, [0, 0, 1, 0, 0], [whole, whole[:-cut], whole, junk, whole]).to_pylist()
    for at in (0, 4):
        assert same_message(found[at]["value"], one.said), (found[at], one.said)
        assert found[at]["problem"] is None
    assert "its schema cannot be used" in found[2]["problem"]
    assert all((it["value"] is None) == bool(it["problem"]) for it in found)


def test_messages_that_name_each_other_at_many_places_are_as_many_columns_as_a_table_has() -> None:
    several = range(10)
    fields = " ".join(f"M{it} f{it} = {it + 1};" for it in several)
    declared = (f"message M{at} {{ int32 v = 99; {fields} }}" for at in several)
    file = ProtoFile(f'syntax = "proto3"; {" ".join(declared)}')
    kind = class_of(file, "M0")
    shape = struct_of(kind.DESCRIPTOR)
    assert len(shape.json()) < 500_000
    one = kind(v=1)
    one.f1.f2.f3.f4.f5.v = 2
    reading = reading_of([file], kind, framed=False)
    (found,) = batch(reading, [0], [one.SerializeToString()]).to_pylist()
    deeper = found["value"]["f1"]["f2"]
    while isinstance(deeper, dict):
        deeper = deeper.get("f3") or deeper.get("f4") or deeper.get("f5") or deeper["v"]
    assert '"v": 2' in deeper
