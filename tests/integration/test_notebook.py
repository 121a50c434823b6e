"""Readers of the hub: `aggregator peek`, the notebook API, and the notebooks; real clusters.

One run has copied what all of it looks at, with a registry for each of the two sources.
"""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import polars
import pytest
from duckdb_extensions import import_extension
from hypothesis import HealthCheck, given, settings
from pyspark.sql import Row
from typer.testing import CliRunner, Result

from aggregator.cli.main import app
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.extras.notebook import Hub, open_hub
from aggregator.features.peek.proto_text import descriptor_of
from aggregator.features.peek.protobuf_value import ProtoFile, class_of
from aggregator.kafka.registry import ID_HEADERS
from aggregator.model.errors import AggregatorError, CheckpointError
from support.examples import examples
from support.frames import frame_of
from support.guids import guids_in_front
from support.odd_protobuf import LENGTH, Message, field, file_of, same_message, schemas
from support.reading import wait_for
from support.registry import ApicurioRegistry, asked, framed_avro, schema_registries
from support.rendered import render

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
RENDERED = os.environ.get("AGGREGATOR_RENDERED")
"""A folder to write the notebooks' pages to: `make notebooks`."""
LIVE_SECONDS = 90.0
"""For this long records flow before, so that there is something to see."""
RECORDS = 300
# The clusters are shared with other tests.
OWN = "" if RENDERED else f"-{uuid.uuid4().hex[:8]}"
PLAIN, ORDERS, MIXED = f"plain{OWN}", f"orders{OWN}", f"mixed{OWN}"
TRIPS, CHECKED, LIVE = f"checked-trips{OWN}", f"checked{OWN}", f"live{OWN}"
HEADED = f"headed{OWN}"
COPIED = 2 * RECORDS + 40 + 9 + 2 * 10 + 5 + 4 + 5
ADDRESS = {
    "type": "record",
    "name": "Address",
    "namespace": "shop",
    "fields": [{"name": "city", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}, {"name": "ship_to", "type": ADDRESS}],
}
"""With its reference in place; `with_reference` is what is registered."""
LATER = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": "-"}]}
USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "string"}]}

STOP = 'syntax = "proto3"; package geo; message Stop { string city = 1; }'
TRIP = """\
syntax = "proto3";
package geo;
import "stop.proto";
message Other { string why = 1; }
message Trip { int64 id = 1; repeated Stop stops = 2; map<string, int32> seats = 3; }
"""
LATER_TRIP = TRIP.replace("int64 id = 1;", "int64 id = 1; optional string note = 4;")
REFERENCE = [("stop.proto", "stop-value", 1)]

# A run, and then notebooks with a Spark session of their own.
pytestmark = pytest.mark.timeout(900)


def with_reference(schema: dict[str, Any]) -> dict[str, Any]:
    fields = [
        it | {"type": "shop.Address"} if it["name"] == "ship_to" else it for it in schema["fields"]
    ]
    return {**schema, "fields": fields}


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ApicurioRegistry]]:
    with schema_registries(tmp_path_factory.mktemp("registries"), 2) as found:
        yield found


@pytest.fixture(scope="module")
def with_guids(registries: list[ApicurioRegistry]) -> Iterator[str]:
    """Where the first of them answers as one that has GUIDs."""
    with guids_in_front(registries[0].url) as found:
        yield found.url


@pytest.fixture(scope="module")
def guids(with_guids: str, ids: dict[str, int]) -> dict[str, UUID]:
    """Those of schemas that are registered once more, which changes nothing else."""
    assert ids
    address = {"name": "shop.Address", "subject": "address-value", "version": 1}
    stop = dict(zip(("name", "subject", "version"), REFERENCE[0], strict=True))
    order = {"schema": json.dumps(with_reference(ORDER)), "references": [address]}
    trip = {"schema": TRIP, "schemaType": "PROTOBUF", "references": [stop]}
    found = {}
    for name, body in (("orders", order), ("trips", trip)):
        answer = asked(with_guids, "POST", f"/subjects/{name}-value/versions", body)
        found[name] = UUID(answer["guid"])
    return found


@pytest.fixture(scope="module")
def ids(registries: list[ApicurioRegistry]) -> dict[str, int]:
    """The same ids name other schemas at the two registries, as it is in real life."""
    a, b = registries
    b.register("users-value", USER)
    found = {}
    for name, registry in (("a", a), ("b", b)):
        registry.register("address-value", ADDRESS)
        schema = ORDER if name == "a" else LATER
        references = [("shop.Address", "address-value", 1)]
        found[name] = registry.register("orders-value", with_reference(schema), references)
    found["user"] = a.register("users-value", USER)
    assert found["user"] == found["b"]
    a.register("stop-value", STOP, kind="PROTOBUF")
    found["trip-a"] = a.register("trips-value", TRIP, REFERENCE, "PROTOBUF")
    b.register("stop-value", STOP, kind="PROTOBUF")
    # As the Python clients register it.
    descriptor = base64.b64encode(descriptor_of("trip.proto", LATER_TRIP).SerializeToString())
    found["trip-b"] = b.register("trips-value", descriptor.decode(), REFERENCE, "PROTOBUF")
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}}
    found["checked"] = a.register("checked-value", shape, kind="JSON")
    return found


def framed(number: int, payload: bytes) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + payload


def trip(text: str, number: int, **more: Any) -> bytes:
    """A trip as Confluent's serializers write it: the second message of its file."""
    one = class_of(ProtoFile(text, (("stop.proto", STOP),)), "geo.Trip")(id=number, **more)
    one.stops.add(city="Köln")
    one.seats["window"] = number
    return b"\x02\x02" + bytes(one.SerializeToString())


@pytest.fixture(scope="module")
def config_file(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    registries: list[ApicurioRegistry],
    with_guids: str,
    ids: dict[str, int],
    guids: dict[str, UUID],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A config whose two sources have been copied into the hub by one run."""
    for number, (name, source) in enumerate((("a", source_a), ("b", source_b)), 1):
        at = source.bootstrap_servers
        for topic in (PLAIN, ORDERS):
            create_topic(at, topic, partitions=number)
        headers = [("own", b"1"), ("own", b"2")]
        values = (json.dumps({"n": n, "by": name}).encode() for n in range(RECORDS))
        produce(at, PLAIN, [NewRecord(it, b"k%d" % n, -1, headers) for n, it in enumerate(values)])
        order = {"ship_to": {"city": "Köln"}, "note": "soon"}
        schema = ORDER if name == "a" else LATER
        produce(
            at,
            ORDERS,
            [NewRecord(framed_avro(ids[name], schema, {**order, "id": n})) for n in range(20)],
        )
        text, note = (TRIP, {}) if name == "a" else (LATER_TRIP, {"note": "soon"})
        create_topic(at, TRIPS, partitions=1)
        written = (framed(ids[f"trip-{name}"], trip(text, n, **note)) for n in range(10))
        produce(at, TRIPS, [NewRecord(it) for it in written])
    at = source_a.bootstrap_servers
    create_topic(at, MIXED, partitions=1)
    whole = framed_avro(ids["a"], ORDER, {"id": 1, "ship_to": {"city": "Bonn"}})
    mixed = [whole, whole[:-2], whole + b"x", b"\0\0\0\3\xe7?", b"\0\1", b"text", b'{"a": 1}', None]
    mixed.append(framed_avro(ids["user"], USER, {"id": "u"}))
    produce(at, MIXED, [NewRecord(it, b"\xff") for it in mixed])
    # A message of another kind, one cut off, one that its schema has not, and no Protobuf.
    number = ids["trip-a"]
    odd = [framed(number, it) for it in (b"\0\n\1x", trip(TRIP, 1)[:-1], b"\x02\x0e", b"")]
    produce(at, TRIPS, [NewRecord(it) for it in (*odd, whole)])
    create_topic(at, CHECKED, partitions=1)
    checked = [b'{"n": 1}', b"{", b'{"n": 2}']
    produce(at, CHECKED, [NewRecord(framed(ids["checked"], it)) for it in checked])
    produce(at, CHECKED, [NewRecord(b'{"n": 3}')])
    create_topic(at, HEADED, partitions=1)
    key, value = ID_HEADERS["key"], ID_HEADERS["value"]
    by_id = b"\0" + ids["checked"].to_bytes(4, "big")
    plain = whole[5:]
    headed = [
        NewRecord(
            plain, b'{"n": 4}', headers=[(key, by_id), (value, b"\1" + guids["orders"].bytes)]
        ),
        NewRecord(plain, headers=[(value, b"\0" + ids["a"].to_bytes(4, "big"))]),
        # The header also says which message it is.
        NewRecord(trip(TRIP, 7)[2:], headers=[(value, b"\1" + guids["trips"].bytes + b"\x02\x02")]),
        NewRecord(b'{"n": 5}', headers=[(value, by_id)]),
        NewRecord(plain, headers=[(value, b"\1" + UUID(int=5).bytes)]),
    ]
    produce(at, HEADED, headed)
    folder = tmp_path_factory.mktemp("run")
    file = folder / "aggregator.yaml"
    _, b = registries
    file.write_text(f"""\
name: notebook
hub: {{bootstrap_servers: "{hub.bootstrap_servers}"}}
sources:
  a:
    bootstrap_servers: "{source_a.bootstrap_servers}"
    topics: {{include: "{PLAIN}|{ORDERS}|{MIXED}|{TRIPS}|{CHECKED}|{HEADED}|{LIVE}"}}
    schemas: {{registry: "{with_guids}"}}
  b:
    bootstrap_servers: "{source_b.bootstrap_servers}"
    topics: {{include: "{PLAIN}|{ORDERS}|{TRIPS}|{LIVE}"}}
    schemas: {{registry: "{b.url}"}}
topics: {{partitions: 3}}
checkpoint: {{path: {folder / "state"}}}
timeline: {{interval: 5s}}
completeness: {{allowed_lateness: 1s, interval: 1s}}
tee: {{run: alone, topics: {{include: "{PLAIN}"}}, path: {folder / "tee"}, decode: true}}
api: {{listen: "off"}}
""")
    done = aggregator("run", "-c", str(file), "--until-caught-up")
    assert done.exit_code == 0, done.output
    assert sum(end_offsets(hub.bootstrap_servers, PLAIN).values()) == 2 * RECORDS
    if RENDERED:
        live(file, source_a, source_b)
    done = aggregator("verify", "-c", str(file))
    assert done.exit_code == 0, done.output
    return file


def live(config: Path, *sources: EmbeddedCluster) -> None:
    """Records flow for a while, more of them now and then, so that plots have something to show."""
    command = [sys.executable, "-m", "aggregator", "run", "-c", str(config)]
    for cluster in sources:
        create_topic(cluster.bootstrap_servers, LIVE, partitions=2)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as run:
        begun, number = time.monotonic(), 0
        try:
            while (passed := time.monotonic() - begun) < LIVE_SECONDS:
                each = (40, 15 if passed % 40 < 20 else 70)
                for many, cluster in zip(each, sources, strict=True):
                    values = (b'{"n": %d, "by": "live"}' % (number + it) for it in range(many))
                    produce(cluster.bootstrap_servers, LIVE, [NewRecord(it) for it in values])
                    number += many
                time.sleep(0.2)
            run.send_signal(signal.SIGTERM)
            run.wait(60)
        finally:
            run.kill()


def aggregator(*words: str) -> Result:
    """A command in this process: Python and Java start once for all of them."""
    return CliRunner().invoke(app, words)


def peeked(config: Path, *words: str) -> list[dict[str, Any]]:
    done = aggregator("peek", *words, "-c", str(config), "-o", "json")
    assert done.exit_code == 0, done.output
    records: list[dict[str, Any]] = json.loads(done.stdout)["records"]
    return records


def test_peek_shows_each_record_decoded_by_the_registry_of_its_source(
    config_file: Path, ids: dict[str, int]
) -> None:
    records = peeked(config_file, ORDERS, "--limit", "40")
    assert len(records) == 40
    for record in records:
        source = record["origin"][0]
        assert (record["value_format"], record["value_schema"]) == ("avro", ids[source])
        value = json.loads(record["value"])
        assert value["ship_to"] == {"city": "Köln"}
        assert value.get("note") == (None if source == "a" else "soon")
    assert len({(it["origin"]) for it in records}) == 40
    (one,) = peeked(config_file, ORDERS, "--source", "b", "--partition", "0", "--limit", "1")
    assert (one["origin"], one["partition"]) == (None, 0)


def test_peek_loses_no_record_and_says_why_it_cannot_be_decoded(config_file: Path) -> None:
    found = {
        it["offset"]: (it["value_format"], it["value"], it["problem"])
        for it in peeked(config_file, MIXED, "--source", "a")
    }
    assert len(found) == 9
    assert found[0] == ("avro", '{"id": 1, "ship_to": {"city": "Bonn"}}', "")
    for offset, why in ((1, "is not what its schema says"), (2, "1 bytes are left over")):
        assert found[offset][0] == "bytes" and why in found[offset][2], found[offset]
    assert found[3][:2] == ("bytes", "0x000000" + "03e73f") and "999" in found[3][2]
    assert [found[at] for at in range(4, 8)] == [
        ("bytes", "0x0001", ""),
        ("text", "text", ""),
        ("json", '{"a": 1}', ""),
        ("null", None, ""),
    ]
    assert found[8][1] == '{"id": "u"}'
    table = aggregator("peek", MIXED, "-c", str(config_file))
    assert f"a/{MIXED}-0@5" in table.stdout and "0x0001 (2 bytes)" in table.stdout


def test_peek_decodes_protobuf_and_what_a_json_schema_describes(
    config_file: Path, ids: dict[str, int]
) -> None:
    found = peeked(config_file, TRIPS, "--limit", "40")
    decoded = [it for it in found if it["value_format"] == "protobuf"]
    assert len(found) == 25 and len(decoded) == 21
    for record in decoded:
        source = record["origin"][0]
        assert record["value_schema"] == ids[f"trip-{source}"]
        value = json.loads(record["value"])
        if "why" not in value:
            number = value["id"]
            assert (value["stops"], value["seats"]) == ([{"city": "Köln"}], {"window": number})
            assert value.get("note") == (None if source == "a" else "soon")
    problems = " ".join(it["problem"] for it in found)
    for why in ("cannot be read as Protobuf", "has no such message", "chooses no message"):
        assert why in problems
    checked = peeked(config_file, CHECKED, "--source", "a")
    assert [(it["value_format"], it["value_schema"]) for it in reversed(checked)] == [
        ("json", ids["checked"]),
        ("bytes", ids["checked"]),
        ("json", ids["checked"]),
        ("json", None),
    ]


def test_peek_decodes_by_the_schema_that_a_header_names(
    config_file: Path, ids: dict[str, int], guids: dict[str, UUID]
) -> None:
    found = sorted(peeked(config_file, HEADED), key=lambda it: str(it["origin"]))
    order = '{"id": 1, "ship_to": {"city": "Bonn"}}'
    whole = [(it["value_format"], it["value_schema"], it["value"]) for it in found]
    assert whole[:2] == [
        ("avro", str(guids["orders"]), order),
        ("avro", ids["a"], order),
    ]
    assert whole[2][:2] == ("protobuf", str(guids["trips"]))
    assert json.loads(whole[2][2])["seats"] == {"window": 7}
    assert whole[3] == ("json", ids["checked"], '{"n": 5}')
    assert (found[0]["key"], found[0]["key_schema"]) == ('{"n": 4}', ids["checked"])
    # It is whole, with the reason.
    assert whole[4][:2] == ("bytes", str(UUID(int=5)))
    assert f"/schemas/guids/{UUID(int=5)}: 404" in found[4]["problem"]


def test_peek_continues_with_what_comes_until_it_is_interrupted(
    config_file: Path, hub: EmbeddedCluster, unique: str
) -> None:
    at = hub.bootstrap_servers
    create_topic(at, unique, partitions=2)
    produce(at, unique, [NewRecord(b"before", partition=1)])
    words = ("peek", unique, "--follow", "-o", "json", "-c", str(config_file))
    command = [sys.executable, "-m", "aggregator", *words]
    lines: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
        assert follower.stdout is not None and follower.stderr is not None
        output = follower.stdout
        reader = threading.Thread(target=lambda: lines.extend(map(json.loads, output)))
        reader.start()
        try:
            wait_for(lambda: lines, "what was there is printed")
            for number in range(3):
                produce(at, unique, [NewRecord(b"%d" % number, partition=number % 2)])
                wait_for(lambda: len(lines) == number + 2, "what comes is printed")  # noqa: B023
            follower.send_signal(signal.SIGINT)
            assert follower.wait(60) == 0
        finally:
            follower.kill()
            reader.join()
        assert follower.stderr.read() == b""
    assert [(it["partition"], it["value"]) for it in lines] == [
        (1, "before"),
        (0, "0"),
        (1, "1"),
        (0, "2"),
    ]


def test_peek_of_what_is_not_there_says_so(config_file: Path) -> None:
    for words, code in (
        (("nix",), 1),
        ((PLAIN, "--partition", "9"), 1),
        ((PLAIN, "--source", "x"), 2),
    ):
        done = aggregator("peek", *words, "-c", str(config_file))
        assert (done.exit_code, done.stdout) == (code, ""), done.output


@pytest.fixture(scope="module")
def opened(config_file: Path) -> Iterator[Hub]:
    with open_hub(config_file) as found:
        yield found


def test_records_are_had_by_topic_source_time_and_offsets(opened: Hub) -> None:
    everything = opened.records(PLAIN)
    assert everything.count() == 2 * RECORDS
    assert opened.records(PLAIN, sources="a").count() == RECORDS
    assert opened.records(PLAIN, since="1h").count() == 2 * RECORDS
    assert opened.records(PLAIN, until="1h").count() == 0
    first = opened.records(PLAIN, offsets={0: (2, 5), 2: (0, 1)}).orderBy("partition", "offset")
    assert [(it.partition, it.offset) for it in first.collect()] == [(0, 2), (0, 3), (0, 4), (2, 0)]
    assert set(opened.topics) == {PLAIN, ORDERS, MIXED, TRIPS, CHECKED, HEADED}
    assert opened.source_records("b", PLAIN).count() == RECORDS
    with pytest.raises(AggregatorError, match="offsets are those of one topic"):
        opened.records(offsets={0: (0, 1)})
    with pytest.raises(AggregatorError, match="there is no source x"):
        opened.records(PLAIN, sources="x")


def test_avro_of_several_registries_becomes_one_struct(opened: Hub, ids: dict[str, int]) -> None:
    rows = opened.decoded(opened.records(ORDERS), "avro").collect()
    assert len(rows) == 40
    for row in rows:
        note = "-" if row.origin_cluster == "a" else "soon"
        expected = Row(id=row.value_decoded.id, ship_to=Row(city="Köln"), note=note)
        assert (row.value_decoded, row.value_problem) == (expected, None)
        assert row.value_schema == ids[row.origin_cluster]
    assert {row.value_decoded.id for row in rows} == set(range(20))


def test_what_comes_from_now_on_is_a_stream(opened: Hub, hub: EmbeddedCluster, unique: str) -> None:
    at = hub.bootstrap_servers
    create_topic(at, unique, partitions=1)
    produce(at, unique, [NewRecord(b"before")])
    origin = {"cluster": "a", "topic": "t", "partition": "3", "offset": "7", "timestamp": "1"}
    headers = [(f"origin.{name}", text.encode()) for name, text in origin.items()]
    frame = opened.decoded(opened.live(unique), "json", schema="n BIGINT")
    query = frame.writeStream.format("memory").queryName("came").start()
    try:

        def came() -> list[Row]:
            # When it has begun to look cannot be seen from here.
            produce(at, unique, [NewRecord(b'{"n": 1}', headers=headers)])
            return opened.spark.table("came").collect()

        row = wait_for(came, "a record that came is in the frame")[0]
    finally:
        query.stop()
    assert (row.origin_cluster, row.origin_partition, row.origin_offset) == ("a", 3, 7)
    assert (row.value_decoded, row.value_problem) == (Row(n=1), None)
    assert opened.spark.table("came").where("value_decoded IS NULL").count() == 0


def test_protobuf_of_several_registries_becomes_one_struct(
    opened: Hub, ids: dict[str, int]
) -> None:
    rows = opened.decoded(opened.records(TRIPS), "protobuf").collect()
    assert len(rows) == 25
    whole = [it for it in rows if it.value_problem is None]
    assert len(whole) == 20
    for row in whole:
        value, number = row.value_decoded, row.value_decoded.id
        assert (value.stops, value.seats) == ([Row(city="Köln")], {"window": number})
        assert value.note == (None if row.origin_cluster == "a" else "soon")
        assert row.value_schema == ids[f"trip-{row.origin_cluster}"]
    problems = {it.value_problem for it in rows if it.value_decoded is None}
    assert len(problems) == 5
    for why in (
        "is a geo.Other, and here are read geo.Trip",
        "cannot be read as Protobuf",
        "has no such message",
        "chooses no message",
        f"schema {ids['a']} is of type Avro, not Protobuf",
    ):
        assert any(why in it for it in problems), (why, problems)
    other = opened.decoded(opened.records(TRIPS), "protobuf", reader="geo.Other")
    assert [it.value_decoded.why for it in other.where("value_problem IS NULL").collect()] == ["x"]
    stops = opened.records(TRIPS).selectExpr("substring(value, 8) AS value").limit(20)
    text = STOP.replace("city = 1", "city = 9") + " message Trip { int64 id = 1; }"
    plain = opened.decoded(stops, "protobuf", schema=text, reader="geo.Trip")
    assert plain.where("value_problem IS NULL AND value_decoded.id < 10").count() > 0


@given(schemas(4))
@settings(examples(1), suppress_health_check=list(HealthCheck), derandomize=True)
def test_protobuf_of_any_shape_becomes_one_struct(opened: Hub, made: list[Message]) -> None:
    fields = " ".join(f"{it.name} of{at} = {at + 1};" for at, it in enumerate(made))
    text = (
        f"{file_of(made[0])} {' '.join(it.declared for it in made[1:])} message All {{ {fields} }}"
    )
    whole = b"".join(field(at + 1, LENGTH, it.content) for at, it in enumerate(made))
    frame = frame_of(opened.spark, [(whole,), (b"\xff",), (whole,)], "value binary")
    rows = opened.decoded(frame, "protobuf", schema=text, reader="All").collect()
    assert [it["value_problem"] is None for it in rows] == [True, False, True]
    said = {f"of{at}": it.said for at, it in enumerate(made)}
    assert same_message(rows[2]["value_decoded"].asDict(recursive=True), said), (rows[2], said)


def test_what_a_json_schema_describes_is_a_struct(opened: Hub, ids: dict[str, int]) -> None:
    rows = opened.decoded(opened.records(CHECKED), "json_schema").orderBy("offset").collect()
    assert [(it.value_decoded, it.value_problem, it.value_schema) for it in rows] == [
        (Row(n=1), None, ids["checked"]),
        (None, "is no JSON object of this schema", ids["checked"]),
        (Row(n=2), None, ids["checked"]),
        (None, "names no schema: no zero byte and an id, nor a header", None),
    ]


def test_schemas_that_headers_name_decode_keys_and_values(
    opened: Hub, ids: dict[str, int], guids: dict[str, UUID]
) -> None:
    records = opened.records(HEADED).orderBy("offset")
    rows = opened.decoded(records, "avro").collect()
    order = Row(id=1, ship_to=Row(city="Bonn"))
    assert [it.value_decoded for it in rows] == [order, order, None, None, None]
    assert [it.value_schema for it in rows] == [None, ids["a"], None, ids["checked"], None]
    problems = [it.value_problem for it in rows]
    assert problems[:2] == [None, None]
    assert problems[2] == f"schema {guids['trips']} is of type Protobuf, not Avro"
    assert f"/schemas/guids/{UUID(int=5)}: 404" in problems[4]
    trips = opened.decoded(records, "protobuf").collect()
    assert (trips[2].value_decoded.id, trips[2].value_problem) == (7, None)
    keys = opened.decoded(records, "json_schema", column="key").collect()
    assert (keys[0].key_decoded, keys[0].key_problem) == (Row(n=4), None)


def test_what_cannot_be_decoded_keeps_its_row_and_the_reason(opened: Hub) -> None:
    rows = opened.decoded(opened.records(MIXED), "avro").orderBy("origin_offset").collect()
    problems = [row.value_problem for row in rows]
    assert [row.value_decoded is None for row in rows] == [False, True, False] + [True] * 6
    assert problems[0] is None and problems[7] is None
    assert "is not what schema" in problems[1]
    assert "No content with id" in problems[3]
    for at in (4, 5, 6):
        assert problems[at] == "names no schema: no zero byte and an id, nor a header"
    assert "cannot be read as the others are" in problems[8]
    users = opened.decoded(opened.records(MIXED), "avro", reader=USER)
    assert [
        it.value_decoded.id for it in users.where("value_problem is null").collect() if it.value
    ] == ["u"]
    table = opened.decoded(opened.records(MIXED), "json").orderBy("origin_offset").collect()
    assert [row.offset for row in table if row.value_decoded is not None] == [table[6].offset]
    assert table[6].value_decoded == Row(a=1) and table[0].value_problem
    texts = opened.decoded(opened.records(MIXED), "text", column="key").collect()
    assert all(row.key_problem == "is no UTF-8 text" for row in texts)


def test_a_schema_that_spark_has_no_column_for_costs_its_own_records_alone(
    opened: Hub, registries: list[ApicurioRegistry]
) -> None:
    at = {"type": "long", "logicalType": "timestamp-micros"}
    node = {"name": "next", "type": ["null", "Tree"]}
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}
    schemas: dict[str, Any] = {
        "Good": [{"name": "at", "type": at}],
        "Tree": [{"name": "v", "type": "int"}, node],
        "Wide": [{"name": "d", "type": wide}],
    }
    values, ids = [], {}
    for name, fields in schemas.items():
        schema = {"type": "record", "name": name, "fields": fields}
        ids[name] = registries[0].register(f"odd-{name}", schema)
    values = [
        framed(ids["Good"], encoded) for encoded in (b"\x02", b"\xfe" + b"\xff" * 8 + b"\x01")
    ]
    values += [framed(ids["Tree"], b"\x02\x00"), framed(ids["Wide"], b"\x02\x01")]
    frame = frame_of(opened.spark, [(it,) for it in values], "value binary")
    rows = opened.decoded(frame, "avro", source="a").collect()
    first = datetime.fromtimestamp(0, UTC).replace(microsecond=1)
    assert rows[0].value_decoded.at.astimezone(UTC) == first
    # Of a year that Python has not, which would fail the whole frame.
    assert rows[1].value_decoded.at is None
    assert "outside of the years 1 to 9999" in rows[1].value_problem
    for row, why in ((rows[2], "recursive"), (rows[3], "exceeds max precision")):
        assert row.value_decoded is None
        assert f"schema {row.value_schema} makes no column of Spark" in row.value_problem
        assert why in row.value_problem


def test_json_and_plain_avro_are_decoded_by_a_given_schema(opened: Hub) -> None:
    frame = opened.decoded(opened.records(PLAIN), "json", schema="n BIGINT, by STRING")
    assert frame.where("value_decoded.by = origin_cluster").count() == 2 * RECORDS
    stripped = opened.records(ORDERS, sources="a").selectExpr("substring(value, 6) AS value")
    assert (
        opened.decoded(stripped, "avro", schema=ORDER).where("value_problem is null").count() == 20
    )


def test_a_row_leads_to_its_source_and_is_compared(opened: Hub) -> None:
    row = opened.records(PLAIN, sources="b").first()
    assert row is not None
    found = opened.source_of(row)
    assert found.record is not None
    assert (found.source, found.topic, found.same, found.differs) == ("b", PLAIN, True, ())
    assert json.loads(str(found.record.value))["by"] == "b"
    other = opened.source_of({**row.asDict(), "key": b"other", "value": None})
    assert other.differs == ("key", "value")
    gone = opened.source_of({**row.asDict(), "origin_offset": 10**6})
    assert (gone.record, gone.same) == (None, False)
    with pytest.raises(AggregatorError, match="does not say where it came from"):
        opened.source_of({"key": b"k"})


def test_tables_are_frames_with_time_travel(opened: Hub, config_file: Path) -> None:
    # The table was made empty by its first version.
    assert opened.checkpoints(version=0).count() == 0
    assert 0 < opened.checkpoints(version=1).count() < opened.checkpoints().count()
    assert opened.checkpoints(as_of="0s").count() == opened.checkpoints().count()
    with pytest.raises(CheckpointError, match="nothing of it is kept"):
        opened.checkpoints(as_of="7d")
    assert opened.history().where("topic is null").agg({"records": "sum"}).first() == (COPIED,)
    assert opened.audits().where("missing > 0").count() == 0
    assert opened.events().count() > 0
    with pytest.raises(CheckpointError, match="no table of gaps yet"):
        opened.gaps()
    assert opened.completeness().where("source = 'a' AND up_to IS NOT NULL").count() > 0
    assert opened.plot_completeness(topic=PLAIN).axes[0].lines
    for plot in (opened.plot_lag, opened.plot_throughput, opened.plot_latency, opened.plot_flow):
        assert plot().axes


def test_what_the_docs_show_without_spark_works(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(config_file.parent)
    page = (ROOT / "docs" / "read-the-hub.md").read_text("utf-8").split("## Without Spark")[1]
    examples = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(examples) == 3
    for example in examples:
        # Not installed here: it would slow down everything else. Arrow's table is made alike.
        text = example.replace("to_pandas(", "to_pyarrow_table(")
        *lines, last = ast.parse(text).body
        names: dict[str, Any] = {}
        exec(compile(ast.Module(lines, []), "docs", "exec"), names)
        assert isinstance(last, ast.Expr)
        assert eval(compile(ast.Expression(last.value), "docs", "eval"), names) is not None
    path = config_file.parent / "state" / "history"
    by_polars = polars.read_delta(str(path)).filter(polars.col("topic").is_null())
    assert by_polars["records"].sum() == COPIED
    database = duckdb.connect()
    database.execute(f"SET extension_directory = '{tmp_path}'")
    import_extension("delta", con=database)
    query = f"SELECT sum(records) FROM delta_scan('{path}') WHERE topic IS NULL"
    assert database.execute(query).fetchall() == [(COPIED,)]


@pytest.fixture(scope="module")
def shown(config_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What each notebook prints, cell by cell; all in one kernel, so that Java starts once."""
    folder = tmp_path_factory.mktemp("notebooks")
    program = folder / "run.py"
    program.write_text(RUN_ALL)
    done = subprocess.run(
        [sys.executable, str(program), str(folder), *map(str, sorted(NOTEBOOKS.glob("*.ipynb")))],
        capture_output=True,
        text=True,
        timeout=800,
        env={
            **os.environ,
            "AGGREGATOR_CONFIG": str(config_file),
            "TOPIC": PLAIN,
            "AVRO_TOPIC": ORDERS,
        },
    )
    assert done.returncode == 0, done.stderr[-5_000:]
    books = {path.stem: json.loads(path.read_text("utf-8")) for path in folder.glob("*.ipynb")}
    if RENDERED:
        for stem, book in books.items():
            render(book, stem, Path(RENDERED), {str(config_file.parent): "/data"})
    return {
        stem: [
            "".join(str(it.get("text") or sorted(it.get("data", {}))) for it in cell["outputs"])
            for cell in book["cells"]
            if cell["cell_type"] == "code"
        ]
        for stem, book in books.items()
    }


RUN_ALL = """\
import sys
from pathlib import Path
import nbformat
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient

manager, client = start_new_kernel()
client.stop_channels()
folder, *paths = map(Path, sys.argv[1:])
for path in paths:
    book = nbformat.read(path, as_version=4)
    NotebookClient(book, km=manager, timeout=240).execute(cleanup_kc=False)
    # As one text each, which is easier to read than lines.
    (folder / path.name).write_text(nbformat.writes(book, split_lines=False))
manager.shutdown_kernel(now=True)
"""


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_a_first_look_shows_origins_and_checkpoints(shown: dict[str, list[str]]) -> None:
    counted = next(text for text in shown["first-look"] if "distinct_origins" in text)
    for source in ("a", "b"):
        lines = [cells_of(it) for it in counted.splitlines() if it.startswith(f"|{source} ")]
        assert [source, PLAIN, PLAIN, str(RECORDS), str(RECORDS)] in [it[:5] for it in lines]
    positions = next(text for text in shown["first-look"] if "moved" in text)
    rows = [cells_of(line) for line in positions.splitlines() if PLAIN in line]
    assert len(rows) == 3
    assert sum(int(row[3]) for row in rows) == 2 * RECORDS


def test_the_other_notebooks_show_what_they_say(
    shown: dict[str, list[str]], ids: dict[str, int]
) -> None:
    assert "{" in "".join(shown["where-from"])
    schemas = next(text for text in shown["avro-across-clusters"] if "count" in text)
    rows = [cells_of(line) for line in schemas.splitlines() if line.startswith("|")]
    assert rows[1:] == [["a", str(ids["a"]), "20"], ["b", str(ids["b"]), "20"]]
    assert sum("image/png" in text for text in shown["lag-over-time"]) == 5
    complete = next(text for text in shown["complete-and-cost"] if "complete_up_to" in text)
    rows = [cells_of(line) for line in complete.splitlines() if line.startswith("|")]
    assert [(row[0], row[2], row[4]) for row in rows[1:]] == [("a", "0", "0"), ("b", "0", "0")]
    assert sum("image/png" in text for text in shown["complete-and-cost"]) == 2
    compared = next(text for text in shown["compare-sources-and-hub"] if "altered" in text)
    rows = [cells_of(line) for line in compared.splitlines() if line.startswith("|")]
    assert rows[1:] == [[it, str(RECORDS), "0", "0"] for it in ("a", "b")]


def test_a_rewind_writes_nothing_twice_and_what_lands_in_delta_is_there_once(
    shown: dict[str, list[str]],
) -> None:
    rewound = "".join(shown["rewind-safely"])
    assert "what the hub lacks from" in rewound and "Set in commit" in rewound
    assert f"before {RECORDS}, after {RECORDS}, distinct origins {RECORDS}" in rewound
    landed = "".join(shown["land-in-delta"])
    for source in ("a", "b"):
        assert any([source, str(RECORDS)] == cells_of(line)[1:] for line in landed.splitlines()), (
            landed
        )
