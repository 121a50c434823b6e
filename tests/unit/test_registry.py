"""The client of schema registries: what it asks, what it keeps, and what it says when it fails."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest

import aggregator
from aggregator.config import load_text
from aggregator.config.schemas import SchemasConfig
from aggregator.extras.embedded.ports import free_ports
from aggregator.features.peek.decode_value import MOST_BYTES, Said, as_json, decode, decoded
from aggregator.kafka.registry import (
    ID_HEADERS,
    Registry,
    Schema,
    SchemaId,
    framed,
    id_header,
    open_registry,
    place_of,
    translated_topics,
)
from aggregator.kafka.registry.copying import Definition, read_definition
from aggregator.kafka.registry.copying import _subjects as subjects_of
from aggregator.kafka.registry.wire_format import whole
from aggregator.model.errors import RegistryError

CITY = {
    "type": "record",
    "name": "City",
    "namespace": "geo",
    "fields": [{"name": "n", "type": "string"}],
}
HOME = {
    "type": "record",
    "name": "Home",
    "namespace": "geo",
    "fields": [{"name": "in", "type": "City"}],
}
PERSON = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "home", "type": "geo.Home"}, {"name": "born", "type": "geo.City"}],
}


NUMBERS = [{"context": ".", "id": 7}, {"context": ".eu", "id": 8}]
GUID, UNKNOWN, NOWHERE = (UUID(int=number) for number in (1, 2, 3))


class FewSchemas(BaseHTTPRequestHandler):
    asked: list[tuple[str, str | None]] = []
    pages = {"/v7/schemas/ids/10": 200, "/v7/schemas/ids/11": 404}
    home = {"name": "geo.Home", "subject": "a/b", "version": 2}
    city = {"name": "geo.City", "subject": "city", "version": 1}
    answers: dict[str, Any] = {
        "/v7/schemas/ids/1": {"schema": json.dumps(PERSON), "references": [home]},
        "/v7/subjects/a%2Fb/versions/2": {"schema": json.dumps(HOME), "references": [city]},
        "/v7/subjects/city/versions/1": {"schema": json.dumps(CITY)},
        "/v7/schemas/ids/2": {"schema": "{}", "schemaType": "JSON"},
        f"/v7/schemas/guids/{GUID}": {"schema": "{}", "schemaType": "JSON"},
        "/v7/schemas/ids/3": {"schema": "message A {}", "schemaType": "PROTOBUF"},
        "/v7/schemas/ids/4": {"schema": "no json"},
        "/v7/schemas/ids/5": {"schema": "", "schemaType": "XML"},
        "/v7/schemas/ids/6": {
            "schema": '"x.Y"',
            "references": [{"name": "x.Y", "subject": "loop", "version": 1}],
        },
        "/v7/subjects/loop/versions/1": {
            "schema": '"x.Y"',
            "references": [{"name": "x.Y", "subject": "loop", "version": 1}],
        },
        "/v7/subjects": ["orders-value", ":.eu:shop.Order"],
        "/v7/contexts/.eu/subjects": [":.eu:shop.Order"],
        f"/v7/schemas/guids/{GUID}/ids": NUMBERS,
        f"/v7/contexts/.eu/schemas/guids/{GUID}/ids": NUMBERS,
        f"/v7/contexts/.us/schemas/guids/{GUID}/ids": NUMBERS[:1],
        "/v7/schemas/ids/7/versions": [{"subject": "orders-value", "version": 1}],
        "/v7/contexts/.eu/schemas/ids/8/versions": [{"subject": ":.eu:shop.Order", "version": 1}],
        "/v7/contexts/.us/schemas/ids/7/versions?subject=%3A.%3A": [
            {"subject": "orders-value", "version": 1}
        ],
    }

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        if self.path == "/v7/schemas/ids/7":
            self.send_response(302)
            self.send_header("Location", "/v7/schemas/ids/2")
            self.end_headers()
            return
        found = self.answers.get(self.path)
        code = {"/v7/schemas/ids/8": 500, "/v7/schemas/ids/9": 401}.get(
            self.path, 200 if found else 404
        )
        # A registry without GUIDs does not know the call.
        detail = 404 if self.path == f"/v7/schemas/guids/{NOWHERE}" else 40403
        body = found or {"error_code": detail, "message": "Schema not found"}
        content = b"<html>" if self.path in self.pages else json.dumps(body).encode()
        self.send_response(self.pages.get(self.path, code))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """No one reads it."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), FewSchemas) as found:
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        FewSchemas.asked.clear()
        yield f"http://127.0.0.1:{found.server_address[1]}/v7"
        found.shutdown()
        thread.join()


def registry(url: str, timeout: float = 5.0, **more: str) -> Registry:
    return Registry(SchemasConfig(registry=url, **more), timeout)


def test_a_schema_is_had_with_all_that_it_refers_to_and_kept(server: str) -> None:
    one = registry(server)
    found = one.schema(1)
    assert (found.id, found.kind) == (1, "AVRO")
    fastavro.parse_schema(json.loads(found.text))
    assert '"City"' in found.text
    assert len(FewSchemas.asked) == 3
    assert one.schema(1) is found is one.known(1)
    assert len(FewSchemas.asked) == 3
    assert [one.schema(it).kind for it in (2, 3)] == ["JSON", "PROTOBUF"]


def test_an_unknown_guid_is_not_taken_for_a_registry_without_guids(server: str) -> None:
    one = registry(server)
    assert read_definition(one, GUID) == Definition("JSON", "{}", ())
    assert read_definition(one, UNKNOWN) is None
    assert read_definition(one, 99) is None
    with pytest.raises(RegistryError, match=r"finds no schema by its GUID.*topics\.schemas: pass"):
        read_definition(one, NOWHERE)
    assert (one.schema(GUID).kind, one.schema(GUID).id) == ("JSON", GUID)
    assert one.known(GUID) is one.schema(GUID)
    for guid, why in ((UNKNOWN, "404 Schema not found"), (NOWHERE, "no schema by its GUID")):
        with pytest.raises(RegistryError, match=why) as caught:
            one.schema(guid)
        assert not caught.value.away


@pytest.mark.parametrize(
    ("number", "why", "away"),
    [
        (99, "404 Schema not found", False),
        (4, "schema 4 is no JSON", False),
        (5, "unknown type: XML", False),
        (6, "refer to each other", False),
        (8, "500 Schema not found", True),
        (9, "set schemas.username", True),
        (10, "Apicurio's ends with /apis/ccompat/v7", True),
        (11, "404 Not Found .no registry says so.", True),
    ],
)
def test_what_cannot_be_had_says_why_and_is_not_asked_for_at_once(
    server: str, number: int, why: str, away: bool
) -> None:
    one = registry(server)
    for _ in range(3):
        with pytest.raises(RegistryError, match=why) as caught:
            one.schema(number)
        assert caught.value.away == away
    assert sum(path.endswith(f"/ids/{number}") for path, _ in FewSchemas.asked) == 1
    if not away:
        assert one.schema(2).kind == "JSON"


@pytest.mark.parametrize(
    ("place", "context", "subjects", "of_guid"),
    [
        ("", ".", ("orders-value",), ("orders-value",)),
        ("/contexts/.eu", ".eu", (":.eu:shop.Order",), (":.eu:shop.Order",)),
        ("/contexts/.us", ".us", None, ("orders-value",)),
    ],
)
def test_subjects_and_numbers_are_those_of_the_context_that_the_url_names(
    server: str,
    place: str,
    context: str,
    subjects: tuple[str, ...] | None,
    of_guid: tuple[str, ...],
) -> None:
    """Confluent's registry answers with whole names, and lists those of all contexts."""
    own = registry(server + place)
    assert own.context == context
    if subjects is not None:
        assert own.subjects() == subjects
    assert subjects_of(own, GUID) == of_guid


def test_the_name_of_a_context_may_be_written_in_several_ways() -> None:
    urls = ("h/contexts/.eu", "h/contexts/eu/", "h/contexts/%3A.eu%3A", "h/contexts/.", "h/v7")
    found = [registry(f"http://{it}").context for it in urls]
    assert found == [".eu", ".eu", ".eu", ".", "."]


def test_a_login_is_shown_to_the_registry_and_to_no_one_that_it_names(server: str) -> None:
    registry(server, username="me", password="sesame").schema(7)
    login = "Basic " + base64.b64encode(b"me:sesame").decode()
    assert FewSchemas.asked == [("/v7/schemas/ids/7", login), ("/v7/schemas/ids/2", None)]


def test_a_registry_that_is_not_there_says_so_in_words() -> None:
    (port,) = free_ports(1)
    with pytest.raises(RegistryError, match=r"no answer: .*refused") as caught:
        registry(f"http://127.0.0.1:{port}").schema(1)
    assert caught.value.away


def test_a_proxy_that_finds_no_registry_says_nothing_of_a_schema(server: str) -> None:
    with pytest.raises(RegistryError, match="no registry says so") as caught:
        read_definition(registry(server), 11)
    # Else a record that names it would be set aside.
    assert caught.value.away


def test_a_registry_whose_certificates_cannot_be_read_says_nothing_of_a_schema(
    tmp_path: Path,
) -> None:
    with pytest.raises(RegistryError, match=r"cannot read .*none\.pem") as caught:
        registry("https://127.0.0.1:1", ca=str(tmp_path / "none.pem")).schema(1)
    assert caught.value.away


def test_the_same_settings_have_the_same_registry_and_none_has_none() -> None:
    one = open_registry(SchemasConfig(registry="http://h:1"))
    assert one is not None
    assert one is open_registry(SchemasConfig(registry="http://h:1/"))
    assert open_registry(SchemasConfig()) is None


def test_the_registry_of_a_record_is_that_of_its_source_else_the_hubs() -> None:
    config = load_text("""
hub: {bootstrap_servers: "h:1", schemas: {registry: "http://hub"}}
sources:
  eu: {bootstrap_servers: "e:1", topics: {include: a}, schemas: {registry: "http://eu"}}
  us: {bootstrap_servers: "u:1", topics: {include: a}}
""")
    where = [
        place_of(config, source, "a", origin).path
        for source, origin in [
            *((None, None), (None, "eu"), (None, "us"), ("eu", "us")),
        ]
    ]
    ours = "sources.eu.schemas"
    assert where == ["hub.schemas", ours, "hub.schemas", ours]
    # No one knows whose ids those are, where sources have registries of their own.
    with pytest.raises(RegistryError, match=r"add sources\.other") as caught:
        place_of(config, None, "a", "other")
    assert not caught.value.away
    one = config.model_copy(update={"sources": {"us": config.sources["us"]}})
    assert place_of(one, None, "a", "other").path == "hub.schemas"


def test_where_ids_are_translated_the_registry_is_the_hubs_wherever_a_record_came_from() -> None:
    text = """
hub: {bootstrap_servers: "h:1", schemas: {registry: "http://hub"}}
sources:
  eu: {bootstrap_servers: "e:1", topics: {include: a}, schemas: {registry: "http://eu"}}
topics: {schemas: translate, overrides: {b: {schemas: pass}, c: {rename: d, schemas: check}}}
"""
    config = load_text(text)
    assert place_of(config, None, "a", "eu").path == "hub.schemas"
    assert place_of(config, "eu", "a").path == "sources.eu.schemas"
    for topic in ("b", "d"):
        assert place_of(config, None, topic, "eu").path == "sources.eu.schemas"
    assert translated_topics(config) == (True, frozenset({"b", "d"}))
    # The caller has looked already.
    assert place_of(config, None, None, "eu").path == "sources.eu.schemas"
    other = text.replace("schemas: translate, ", "").replace("schemas: pass", "schemas: translate")
    one = load_text(other)
    assert translated_topics(one) == (False, frozenset({"b"}))


def test_names_are_replaced_where_they_first_stand_also_in_unions_and_arrays() -> None:
    schema = {
        "type": "record",
        "name": "All",
        "namespace": "geo",
        "fields": [
            {"name": "a", "type": ["null", "City"]},
            {"name": "b", "type": {"type": "array", "items": "geo.City"}},
            {"name": "c", "type": {"type": "map", "values": "Home"}},
            {"name": "d", "type": "string"},
        ],
    }
    text = whole(json.dumps(schema), {"geo.City": json.dumps(CITY), "geo.Home": json.dumps(HOME)})
    parsed = fastavro.parse_schema(json.loads(text))
    assert text.count('"name": "City"') == text.count('"name": "Home"') == 1
    assert isinstance(parsed, dict) and parsed["name"] == "geo.All"


def avro(schema: Any, value: Any) -> bytes:
    import io

    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def schema_of(number: SchemaId) -> Schema:
    if number in (1, GUID):
        return Schema(number, "AVRO", json.dumps(CITY))
    if number == 2:
        return Schema(2, "JSON", "{}")
    raise RegistryError("no such schema")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, Said(None, "null")),
        (b"", Said("", "text")),
        (b"0xab", Said("0xab", "text")),
        (b"17", Said("17", "text")),
        (b'[1, "a"]', Said('[1, "a"]', "json")),
        (b"{not json", Said("{not json", "text")),
        (b"\xff", Said("0xff", "bytes")),
        (b"\0\0", Said("0x0000", "bytes")),
        (b"\0\0\0\0\1" + avro(CITY, {"n": "Köln"}), Said('{"n": "Köln"}', "avro", 1)),
        (b'\0\0\0\0\2{"a": 1}', Said('{"a": 1}', "json", 2)),
        (b"\0\0\0\0\3ab", Said("0x00000000036162", "bytes", 3, "no such schema")),
    ],
)
def test_what_a_value_says(content: bytes | None, said: Said) -> None:
    assert decode(content, schema_of) == said


def test_bytes_that_no_schema_fits_are_shown_with_the_reason() -> None:
    whole_value = b"\0\0\0\0\1" + avro(CITY, {"n": "Bonn"})
    for content in (whole_value[:-1], whole_value + b"!", b"\0\0\0\0\1", b"\0\0\0\0\2{"):
        found = decode(content, schema_of)
        assert (found.text, found.format) == (f"0x{content.hex()}", "bytes")
        assert "is not what its schema says" in found.problem


def test_what_is_long_is_cut_off_and_is_decoded_before_that() -> None:
    long = decode(b"\0\0\0\0\1" + avro(CITY, {"n": "a" * 9_000}), schema_of, MOST_BYTES)
    assert long.text is not None
    assert (len(long.text), long.format, long.text[-1]) == (MOST_BYTES + 1, "avro", "…")


def test_what_json_does_not_know_is_shown_as_text() -> None:
    schema = {
        "type": "record",
        "name": "Odd",
        "fields": [
            {"name": "b", "type": "bytes"},
            {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {
                "name": "d",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            },
        ],
    }
    payload = b"\x04\xff\x00" + b"\x00" + b"\x04\x04\xd2"
    text = as_json(decoded(payload, Schema(1, "AVRO", json.dumps(schema))))
    assert json.loads(text) == {"b": "0xff00", "t": "1970-01-01T00:00:00+00:00", "d": "12.34"}


def test_the_wire_format_is_a_zero_and_four_bytes() -> None:
    assert framed(b"\0\1\2\3\4rest") == (0x01020304, b"rest")
    assert framed(b"\0\1\2\3") is framed(b"\1\1\2\3\4rest") is framed(b"") is None


BY_GUID, BY_ID = b"\1" + GUID.bytes, b"\0\0\0\0\2"


def test_a_header_names_the_schema_of_all_of_a_value_and_goes_before_its_first_bytes() -> None:
    inside = b"\0\0\0\0\7x"
    assert framed(inside, BY_GUID) == (GUID, inside)
    assert framed(inside, BY_ID) == (2, inside)
    assert framed(inside) == (7, b"x")
    # Behind it follows which message of Protobuf it is.
    assert framed(b"rest", BY_GUID + b"\2\2") == (GUID, b"\2\2rest")
    for odd in (b"", b"\0\0\0\2", BY_GUID[:-1], b"\2" + GUID.bytes):
        assert framed(inside, odd) is None


def test_of_several_headers_the_last_one_counts_and_one_of_null_is_none() -> None:
    name = ID_HEADERS["value"]
    several = [(name, BY_ID), (ID_HEADERS["key"], b"k"), ("other", b""), (name, BY_GUID)]
    assert id_header(several, "value") == BY_GUID
    assert id_header(several, "key") == b"k"
    assert id_header([*several, (name, None)], "value") is id_header([], "value") is None


def test_the_connector_looks_at_the_same_headers() -> None:
    text = (
        Path(aggregator.__file__).parent / "datapath" / "connector" / "SchemaIds.java"
    ).read_text("utf-8")
    for what, name in ID_HEADERS.items():
        assert f'{what.upper()}("{what}", "{name}")' in text


@pytest.mark.parametrize(
    ("content", "header", "said"),
    [
        (avro(CITY, {"n": "Köln"}), BY_GUID, Said('{"n": "Köln"}', "avro", GUID)),
        (b'{"a": 1}', BY_ID, Said('{"a": 1}', "json", 2)),
        (b'{"a": 1}', b"odd", Said('{"a": 1}', "json")),
        (None, BY_GUID, Said(None, "null")),
        (b"ab", b"\1" + UNKNOWN.bytes, Said("0x6162", "bytes", UNKNOWN, "no such schema")),
    ],
)
def test_what_a_value_says_whose_schema_a_header_names(
    content: bytes | None, header: bytes, said: Said
) -> None:
    assert decode(content, schema_of, None, header) == said
