"""Avro records of two registries arrive decodable with the hub's registry alone.

The ids of the three registries clash: the same number is another schema in each of them.
"""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest

from aggregator.cli.plan import with_schemas
from aggregator.cli.render import Report
from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.config.schemas import SchemasConfig
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.features.lineage.catalog import Catalog
from aggregator.features.lineage.lineage_jobs import LineageJob, topic_at
from aggregator.features.schemas import translator
from aggregator.features.verify.audit import VerifyRequest, verify
from aggregator.features.verify.schema_meaning import SchemaPairs
from aggregator.kafka.discovery.prepare import prepare
from aggregator.kafka.registry import Registry, framed
from aggregator.kafka.registry.copying import Subjects, copy_schema, read_definition
from aggregator.model.errors import ClusterError, RegistryError
from support.guids import guids_in_front
from support.openlineage import event_problems
from support.reading import Record, read_topic, wait_for, wait_until_topic_has
from support.registry import ApicurioRegistry, asked, framed_avro, schema_registries
from support.running import Run, make_config, run_in_background, source

CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "by", "type": "shop.Customer"},
    ],
}
NEWER: dict[str, Any] = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}],
}
PAYMENT = {"type": "record", "name": "Payment", "fields": [{"name": "cents", "type": "long"}]}
NUMBER = {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "int"}]}
OTHER_PAYMENT = {
    **PAYMENT,
    "fields": [{"name": "cents", "type": "string"}, {"name": "by", "type": "string"}],
}
UNKNOWN = 9_999
KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
"""Where Confluent's newer serializers write it: a zero byte and an id, or a one and a GUID."""


def whole(order: dict[str, Any]) -> dict[str, Any]:
    """An order's schema with that of the customer in it."""
    number, by, *others = order["fields"]
    return {**order, "fields": [number, {**by, "type": CUSTOMER}, *others]}


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[ApicurioRegistry]]:
    with schema_registries(tmp_path_factory.mktemp("registries"), 3) as found:
        yield found


class Shop:
    """Two sources and a hub with a registry each, and what was written to the sources."""

    def __init__(
        self,
        clusters: tuple[EmbeddedCluster, EmbeddedCluster, EmbeddedCluster],
        registries: list[ApicurioRegistry],
        topic: str,
    ) -> None:
        self.clusters = dict(zip(("eu", "us", "hub"), clusters, strict=True))
        self.registries = dict(zip(("eu", "us", "hub"), registries, strict=True))
        self.topic, self.hub_topic = topic, f"all.{topic}"
        for alias in ("eu", "us"):
            create_topic(self.clusters[alias].bootstrap_servers, topic, partitions=1)
        self.sent: dict[tuple[str, int], tuple[Any, Any]] = {}

    def config(self, folder: Path, **topics: Any) -> Config:
        def own(alias: str) -> dict[str, Any]:
            return {"schemas": {"registry": self.registries[alias].url}}

        return make_config(
            self.clusters["hub"],
            folder / "state",
            {
                alias: source(self.clusters[alias], self.topic, **own(alias))
                for alias in ("eu", "us")
            },
            hub=own("hub"),
            topics={"rename": "all.${topic}", "schemas": "translate", **topics},
        )

    def send(self, alias: str, key: bytes | None, value: bytes, *read: Any) -> None:
        """Write a record that must be read as `read`, key and value; without it as they are."""
        number = sum(of == alias for of, _ in self.sent)
        produce(self.clusters[alias].bootstrap_servers, self.topic, [NewRecord(value, key)])
        self.sent[alias, number] = read or (key, value)

    def arrived(self, least: int) -> dict[tuple[str, int], tuple[Any, Any]]:
        """What a reader of the hub reads who knows its registry alone."""
        servers = self.clusters["hub"].bootstrap_servers
        wait_until_topic_has(servers, self.hub_topic, least)
        registry = Registry(SchemasConfig(registry=self.registries["hub"].url))
        found = {}
        for record in read_topic(servers, self.hub_topic):
            origin = record.origin
            place = (origin.cluster, origin.offset)
            found[place] = (read(registry, record.key), read(registry, record.value))
        return found


def read(registry: Registry, content: bytes | None) -> Any:
    """Content as Confluent's deserializers read it; as it is where it is not framed."""
    parts = framed(content) if content else None
    if parts is None:
        return content
    schema = fastavro.parse_schema(json.loads(registry.schema(parts.schema).text))
    return fastavro.schemaless_reader(io.BytesIO(parts.payload), schema, None)


@pytest.fixture
def shop(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    registries: list[ApicurioRegistry],
    unique: str,
) -> Shop:
    return Shop((source_a, source_b, hub), registries, unique)


def messages_of(run: Run) -> list[str]:
    return [event.message for event in run.events if event.kind == "schemas"]


def test_ids_that_clash_become_those_of_the_hub_live_with_references_and_new_versions(
    shop: Shop, tmp_path: Path
) -> None:
    eu, us, hub = (shop.registries[alias] for alias in ("eu", "us", "hub"))
    topic = shop.topic
    # The hub's ids are others, whatever the sources do.
    for number in range(3):
        hub.register(f"filler-{number}", {**NUMBER, "name": f"Filler{number}"})
    customer = eu.register("shop.Customer", CUSTOMER)
    order = eu.register(f"{topic}-value", ORDER, [("shop.Customer", "shop.Customer", 1)])
    key = eu.register(f"{topic}-key", NUMBER)
    eu.level(f"{topic}-key", "FULL")
    other = us.register(f"{topic}-value", PAYMENT)
    assert other == customer
    first = {"id": 7, "by": {"name": "Ada"}}
    shop.send(
        "eu",
        framed_avro(key, NUMBER, {"n": 1}),
        framed_avro(order, whole(ORDER), first),
        {"n": 1},
        first,
    )
    shop.send("us", b"plain", framed_avro(other, PAYMENT, {"cents": 5}), b"plain", {"cents": 5})
    shop.send("us", None, b'{"no": "Avro"}')
    with run_in_background(shop.config(tmp_path)) as run:
        assert shop.arrived(3) == shop.sent
        assert hub.level(f"{shop.hub_topic}-key") == "FULL"
        # A version that comes meanwhile.
        newer = eu.register(f"{topic}-value", NEWER, [("shop.Customer", "shop.Customer", 1)])
        second = {"id": 8, "by": {"name": "Bo"}, "note": "new"}
        shop.send("eu", None, framed_avro(newer, whole(NEWER), second), None, second)
        assert shop.arrived(4) == shop.sent
        assert any(f"schema {newer} of values of {topic} is" in it for it in messages_of(run))
    # An audit compares all but the ids, and asks the registries what these mean.
    config = shop.config(tmp_path)
    report = verify(config, VerifyRequest())
    assert report.exit_code == 0, report.findings
    assert (report.totals.present, report.totals.not_judged) == (4, 0)
    pairs = SchemaPairs(config)
    (right,) = {
        int.from_bytes(it.value[1:5], "big")
        for it in read_topic(shop.clusters["hub"].bootstrap_servers, shop.hub_topic)
        if it.value is not None and it.origin[:1] == ("us",) and it.value[:1] == b"\x00"
    }
    wrong = hub.register("another", {**NUMBER, "name": "Another"})

    def same(number: int) -> bool | None:
        return pairs.same("us", f"/00{other:08x}", f"/00{number:08x}")

    assert [same(it) for it in (right, wrong, UNKNOWN)] == [True, False, False]
    assert pairs.same("us", f"/00{UNKNOWN:08x}", f"/00{right:08x}") is None
    assert pairs.same("asia", f"/00{other:08x}", f"/00{right:08x}") is None


def test_an_unknown_id_is_kept_aside_and_one_that_cannot_be_asked_for_waits(
    shop: Shop, tmp_path: Path
) -> None:
    eu, hub = shop.registries["eu"], shop.registries["hub"]
    known = eu.register(f"{shop.topic}-value", PAYMENT)
    shop.send("eu", None, framed_avro(known, PAYMENT, {"cents": 1}), None, {"cents": 1})
    config = shop.config(tmp_path, quarantine=f"{shop.topic}.aside")
    with run_in_background(config) as run:
        shop.arrived(1)
        lost = framed_avro(UNKNOWN, PAYMENT, {"cents": 2})
        servers = shop.clusters["eu"].bootstrap_servers
        produce(servers, shop.topic, [NewRecord(lost)])
        shop.sent["eu", 1] = (None, {"cents": 2})
        shop.send("eu", None, framed_avro(known, PAYMENT, {"cents": 3}), None, {"cents": 3})
        assert shop.arrived(2).keys() == {("eu", 0), ("eu", 2)}
        (aside,) = aside_of(shop)
        assert dict(aside.headers)["quarantine.reason"] == f"schema {UNKNOWN}".encode()
        assert aside.value == lost
        # The hub's registry hangs: what is known flows, what is new waits, and nothing else.
        hub.process.pause()
        try:
            shop.send("us", None, b"as it is")
            new = eu.register(f"{shop.topic}-value", {**PAYMENT, "doc": "newer"})
            shop.send("eu", None, framed_avro(known, PAYMENT, {"cents": 4}), None, {"cents": 4})
            shop.send("eu", None, framed_avro(new, PAYMENT, {"cents": 5}), None, {"cents": 5})
            wait_until_topic_has(shop.clusters["hub"].bootstrap_servers, shop.hub_topic, 4)
            run.wait_for(
                lambda: any(
                    f"with schema {new} in their value wait" in it for it in messages_of(run)
                ),
                "it says what waits",
            )
            run.wait_for(
                lambda: any(
                    f"schema {new} of a value" in part.reason for part in run.status.partitions
                ),
                "the status says which partition waits for what",
            )
        finally:
            hub.process.resume()
        del shop.sent["eu", 1]
        assert shop.arrived(5) == shop.sent


def aside_of(shop: Shop) -> list[Record]:
    servers, topic = shop.clusters["hub"].bootstrap_servers, f"{shop.topic}.aside"
    wait_until_topic_has(servers, topic, 1)
    return wait_for(lambda: read_topic(servers, topic), "it is kept aside")


def test_checked_ids_stay_as_they_are_except_unknown_ones(shop: Shop, tmp_path: Path) -> None:
    known = shop.registries["eu"].register(f"{shop.topic}-value", PAYMENT)
    good = framed_avro(known, PAYMENT, {"cents": 1})
    servers = shop.clusters["eu"].bootstrap_servers
    bad = framed_avro(UNKNOWN, PAYMENT, {"cents": 2})
    produce(servers, shop.topic, [NewRecord(good), NewRecord(bad), NewRecord(good)])
    config = shop.config(tmp_path, schemas="check", quarantine=f"{shop.topic}.aside")
    with run_in_background(config):
        hub = shop.clusters["hub"].bootstrap_servers
        wait_until_topic_has(hub, shop.hub_topic, 2)
        found = [(it.origin.offset, it.value) for it in read_topic(hub, shop.hub_topic)]
        assert found == [(0, good), (2, good)]
        assert [it.value for it in aside_of(shop)] == [bad]
    # Translated from now on: what is there keeps the ids of its source.
    report = with_schemas(Report({}), (now := shop.config(tmp_path)), prepare(now).plan)
    assert report.data["schemas"]["old_ids"] == [shop.hub_topic]
    (line,) = report.parts
    assert f"{shop.hub_topic} holds records, and the hub's registry no" in str(line)


def test_a_schema_that_does_not_fit_is_reported_by_its_fields_and_holds_back_its_records_alone(
    shop: Shop, tmp_path: Path
) -> None:
    eu, us, hub = (shop.registries[alias] for alias in ("eu", "us", "hub"))
    # One schema of several topics: the setting is that of the one that is copied.
    eu.register(f"another-{shop.topic}-value", PAYMENT)
    good = eu.register(f"{shop.topic}-value", PAYMENT)
    eu.level(f"{shop.topic}-value", "BACKWARD")
    us.register(f"{shop.topic}-other", NUMBER)
    bad = us.register(f"{shop.topic}-value", OTHER_PAYMENT)
    config = shop.config(tmp_path)
    # Ahead of the run, and nothing is registered by it.
    before = asked(hub.url, "GET", "/subjects")
    plan = prepare(config).plan
    report = with_schemas(Report({}), config, plan)
    (conflict,) = report.data["schemas"]["conflicts"]
    assert [it["field"] for it in conflict["fields"]] == ["cents", "by"]
    assert conflict["refused"] is None
    assert report.data["schemas"]["unknown"] == {}
    (line,) = report.parts
    assert "cents: long at eu, string at us; by: not there at eu, string at us" in str(line)
    us.process.pause()
    try:
        away = with_schemas(Report({}), config, plan).data["schemas"]
        assert list(away["unknown"]) == ["us"]
        assert away["conflicts"] == []
    finally:
        us.process.resume()
    assert asked(hub.url, "GET", "/subjects") == before
    # While it runs.
    shop.send("eu", None, framed_avro(good, PAYMENT, {"cents": 1}), None, {"cents": 1})
    with run_in_background(config) as run:
        assert shop.arrived(1) == shop.sent
        shop.send("us", None, b"as it is")
        value = {"cents": "2", "by": "Ada"}
        shop.send("us", None, framed_avro(bad, OTHER_PAYMENT, value), None, value)
        fields = (
            "cents: long at the hub, string at the source; by: not there at the hub, string at the"
        )
        run.wait_for(lambda: any(fields in it for it in messages_of(run)), "the log says so")
        run.wait_for(
            lambda: any(
                f"schema {bad} of a value waits" in part.reason and fields in part.reason
                for part in run.status.partitions
                if part.cluster == "us"
            ),
            "the status says which fields differ",
        )
        shop.send("eu", None, framed_avro(good, PAYMENT, {"cents": 3}), None, {"cents": 3})
        held = shop.sent.pop(("us", 1))
        assert shop.arrived(3) == shop.sent
        # It ends cleanly while a record waits, and continues with it.
        stopped = run.stop()
        assert (stopped.exit_code, stopped.problems) == (0, ())
    with run_in_background(config) as run:
        run.wait_for(lambda: any(fields in it for it in messages_of(run)), "it is reported again")
        # What people allow is taken up.
        shop.sent["us", 1] = held
        hub.level(f"{shop.hub_topic}-value", "NONE")
        assert shop.arrived(4) == shop.sent


def test_ids_and_guids_in_headers_become_those_of_the_hub(shop: Shop, tmp_path: Path) -> None:
    us, hub = shop.registries["us"], shop.registries["hub"]
    # The hub has the customer in its second version: what refers to it has another GUID there.
    customer, record = f"shop.Customer.{shop.topic}", {**CUSTOMER, "doc": "an older one"}
    hub.register(customer, record)
    with (
        guids_in_front(shop.registries["eu"].url) as eu_front,
        guids_in_front(hub.url) as hub_front,
    ):
        eu_url, hub_url = eu_front.url, hub_front.url
        body: dict[str, Any] = {"schema": json.dumps(CUSTOMER)}
        asked(eu_url, "POST", f"/subjects/{customer}/versions", body)
        body = {
            "schema": json.dumps(ORDER),
            "references": [{"name": "shop.Customer", "subject": customer, "version": 1}],
        }
        eu_guid = UUID(
            asked(eu_url, "POST", f"/subjects/{shop.topic}-value/versions", body)["guid"]
        )
        number = us.register(f"{shop.topic}-key", NUMBER)
        order = {"id": 7, "by": {"name": "Ada"}}
        value = framed_avro(0, whole(ORDER), order)[5:]
        key = framed_avro(0, NUMBER, {"n": 1})[5:]
        said = (VALUE_HEADER, b"\x01" + eu_guid.bytes)
        own = [("a", b"1"), said, ("b", None)]
        servers = {alias: shop.clusters[alias].bootstrap_servers for alias in ("eu", "us", "hub")}
        produce(servers["eu"], shop.topic, [NewRecord(value, headers=own)])
        in_us = [(KEY_HEADER, b"\x00" + number.to_bytes(4, "big"))]
        produce(servers["us"], shop.topic, [NewRecord(b"x", key, headers=in_us)])
        lost = [(VALUE_HEADER, b"\x01" + UUID(int=5).bytes)]
        produce(servers["eu"], shop.topic, [NewRecord(value, headers=lost)])
        config = shop.config(tmp_path, quarantine=f"{shop.topic}.aside")
        with run_in_background(with_registries(config, eu=eu_url, hub=hub_url)):
            wait_until_topic_has(servers["hub"], shop.hub_topic, 2)
            (aside,) = aside_of(shop)
        found = {it.origin.cluster: it for it in read_topic(servers["hub"], shop.hub_topic)}
        reason = dict(aside.headers)["quarantine.reason"]
        assert reason == f"schema {UUID(int=5)}".encode()
        headers = [it for it in found["eu"].headers if not it[0].startswith("origin")]
        assert [it for it, _ in headers] == ["a", VALUE_HEADER, "b"]
        at_hub = headers[1][1] or b""
        assert (len(at_hub), at_hub[0]) == (17, 1)
        assert at_hub != said[1]
        answer = asked(hub_url, "GET", f"/schemas/guids/{UUID(bytes=at_hub[1:])}")
        assert json.loads(answer["schema"]) == ORDER
        assert [(it["subject"], it["version"]) for it in answer["references"]] == [(customer, 2)]
        assert found["eu"].value == value
        # An id in a header, which the same deserializers read.
        head = dict(found["us"].headers)[KEY_HEADER] or b""
        schema = Registry(SchemasConfig(registry=hub.url)).schema(int.from_bytes(head[1:], "big"))
        assert head[0] == 0
        assert fastavro.schemaless_reader(
            io.BytesIO(found["us"].key or b""), json.loads(schema.text), None
        ) == {"n": 1}


def with_registries(config: Config, *, eu: str, hub: str) -> Config:
    """The same with other registries."""
    tree = config.model_dump(mode="json", exclude_unset=True)
    tree["sources"]["eu"]["schemas"]["registry"] = eu
    tree["hub"]["schemas"]["registry"] = hub
    return load_text(json.dumps(tree))


def same_id(topic: str, one: ApicurioRegistry, other: ApicurioRegistry) -> int:
    """An id by which the first registry knows NUMBER, and the other one PAYMENT."""
    ids = {True: 0, False: -1}
    for count in itertools.count():
        if ids[True] == ids[False]:
            return ids[True]
        is_one = ids[True] < ids[False]
        registry, schema = (one, NUMBER) if is_one else (other, PAYMENT)
        ids[is_one] = registry.register(f"{topic}.{count}", {**schema, "doc": f"{topic} {count}"})
    raise AssertionError("two ids never meet")


def test_answers_of_registries_are_kept_no_longer_than_they_hold(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator, "LOOK_SECONDS", 0.5)
    eu, other, hub = (shop.registries[alias] for alias in ("eu", "us", "hub"))
    servers = shop.clusters["hub"].bootstrap_servers
    both = same_id(shop.topic, eu, hub)
    first = eu.register(f"{shop.topic}-value", PAYMENT)
    eu.level(f"{shop.topic}-value", "FULL")

    sent: list[bytes] = []

    def arrives(content: bytes, value: Any, registry: ApicurioRegistry) -> bool:
        """Whether one more record is read so at the hub."""
        sent.append(content)
        produce(shop.clusters["eu"].bootstrap_servers, shop.topic, [NewRecord(content)])
        wait_until_topic_has(servers, shop.hub_topic, len(sent))
        newest = max(read_topic(servers, shop.hub_topic), key=lambda it: it.origin.offset)
        # Not one that has asked before.
        asks = Registry(SchemasConfig(registry=registry.url))
        try:
            return bool(read(asks, newest.value) == value)
        except RegistryError:
            return False

    with guids_in_front(hub.url) as front:
        front.refused.add("PUT")
        config = with_registries(shop.config(tmp_path), eu=eu.url, hub=front.url)
        on_disk = [config]
        control = Control(config, lambda _: on_disk[-1])
        with run_in_background(config, control) as run:
            assert arrives(framed_avro(first, PAYMENT, {"cents": 1}), {"cents": 1}, hub)
            # The subject is there without its setting: the log says so, and it is tried again.
            words = f"{shop.hub_topic}-value of the hub has not got the compatibility setting FULL"
            run.wait_for(lambda: any(words in it for it in messages_of(run)), "the log says so")
            front.refused.clear()
            run.wait_for(lambda: setting(hub, f"{shop.hub_topic}-value") == "FULL", "it is set")

            # At the hub's address answers a registry that has lost it, and gives its id again.
            number = framed_avro(both, NUMBER, {"n": 2})
            assert arrives(number, {"n": 2}, hub)
            front.upstream = other.url
            words = f"schema {both} of values of {shop.topic} is not what it was at a registry"
            run.wait_for(lambda: any(words in it for it in messages_of(run)), "it is noticed")
            run.wait_for(lambda: arrives(number, {"n": 2}, other), "it is registered again")

            # The source has another registry, in which the same id is another schema.
            on_disk.append(with_registries(config, eu=hub.url, hub=front.url))
            control.reload()
            assert arrives(framed_avro(both, PAYMENT, {"cents": 4}), {"cents": 4}, other)


def setting(registry: ApicurioRegistry, subject: str) -> str | None:
    """The compatibility setting that a subject has of its own."""
    try:
        return registry.level(subject)
    except ClusterError:
        return None


def at_hub(subject: str) -> Callable[[Collection[str]], Subjects]:
    """Whatever else it is called at its source."""
    return lambda _: Subjects(subject, f"all.{subject}")


def test_protobuf_and_json_schema_are_copied_with_what_they_refer_to(
    registries: list[ApicurioRegistry], unique: str
) -> None:
    eu, _, hub = registries
    source, there = (Registry(SchemasConfig(registry=it.url)) for it in (eu, hub))
    named, other = f"customer-{unique}.proto", f"customer-{unique}.json"
    message = 'syntax = "proto3";\npackage shop;\nmessage Customer {\n  string name = 1;\n}\n'
    order = (
        f'syntax = "proto3";\npackage shop;\nimport "{named}";\n'
        "message Order {\n  int64 id = 1;\n  Customer by = 2;\n}\n"
    )
    person = {"type": "object", "properties": {"name": {"type": "string"}}}
    sale = {"type": "object", "properties": {"by": {"$ref": other}}}
    eu.register(named, message, kind="PROTOBUF")
    eu.register(other, person, kind="JSON")
    # Two versions that the hub has more: what is referred to is the second and not the newest.
    for number in (2, 3):
        hub.register(named, message.replace("name = 1", f"name = {number}"), kind="PROTOBUF")
    ids = [
        eu.register(f"{unique}-key", order, [(named, named, 1)], kind="PROTOBUF"),
        eu.register(f"{unique}-value", sale, [(other, other, 1)], kind="JSON"),
    ]
    for subject, number in zip((f"{unique}-key", f"{unique}-value"), ids, strict=True):
        definition = read_definition(source, number)
        assert definition is not None
        copied = copy_schema(source, there, number, definition, at_hub(subject))
        # What was copied is found by its id, and copying it again changes nothing.
        found = asked(hub.url, "GET", f"/schemas/ids/{copied.number}")
        assert copied.guid is None
        again = copy_schema(source, there, number, definition, at_hub(subject))
        assert again == copied
        assert asked(hub.url, "GET", f"/subjects/all.{subject}/versions") == [1]
        (reference,) = found["references"]
        path = f"/subjects/{reference['subject']}/versions/{reference['version']}"
        referred = asked(hub.url, "GET", path)["schema"]
        if subject.endswith("-key"):
            assert "name = 1;" in referred
            assert "Customer by = 2" in found["schema"]
        else:
            assert json.loads(referred) == person
            assert json.loads(found["schema"]) == sale


def test_a_new_subject_has_its_setting_before_its_first_schema(
    registries: list[ApicurioRegistry], unique: str
) -> None:
    """So a kill in between loses none: the next try finds a subject that is not new any more."""
    eu, _, hub = registries
    subject = f"{unique}-value"
    number = eu.register(subject, PAYMENT)
    eu.level(subject, "FULL")
    source = Registry(SchemasConfig(registry=eu.url))
    definition = read_definition(source, number)
    assert definition is not None
    with guids_in_front(hub.url) as front:
        there = Registry(SchemasConfig(registry=front.url))
        front.refused.add("POST")
        with pytest.raises(RegistryError):
            copy_schema(source, there, number, definition, at_hub(subject))
        assert setting(hub, f"all.{subject}") == "FULL"
        front.refused.clear()
        assert copy_schema(source, there, number, definition, at_hub(subject)).owed == ()
    assert setting(hub, f"all.{subject}") == "FULL"


def test_a_catalog_is_sent_the_fields_of_topics_by_their_registries(
    registries: list[ApicurioRegistry], unique: str, tmp_path: Path
) -> None:
    eu, _, hub = registries
    eu.register(f"{unique}.customer", CUSTOMER)
    eu.register(f"{unique}-value", NEWER, [("shop.Customer", f"{unique}.customer", 1)])
    message = 'syntax = "proto3";\nmessage Order {\n  int64 id = 1;\n}\n'
    hub.register(f"{unique}-value", message, kind="PROTOBUF")
    path = tmp_path / "events"
    transport = {"type": "file", "log_file_path": str(path), "append": True}
    unreachable = f"http://127.0.0.1:{free_ports(1)[0]}"
    servers = {"hub": hub.url, "sources.eu": eu.url, "sources.us": unreachable}
    sets = [f"lineage.transport={json.dumps(transport)}"]
    for name, url in servers.items():
        sets += [f"{name}.bootstrap_servers={name}:9092", f"{name}.schemas.registry={url}"]
    sets += [f"sources.{it}.topics.include=.*" for it in ("eu", "us")]
    catalog = Catalog(load_text("", sets))
    known, away, other, output = (
        topic_at("sources.eu:9092", unique),
        topic_at("sources.us:9092", unique),
        topic_at("sources.eu:9092", "other"),
        topic_at("hub:9092", unique),
    )
    job = LineageJob("copy", (known, away, other), output)
    catalog.send("START", job)
    assert catalog.schema_error.startswith(unreachable)
    catalog.send("COMPLETE", job)
    catalog.close()
    begun, ended = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert event_problems(begun) == event_problems(ended) == []
    assert [fields_of(it) for it in (*begun["inputs"], *begun["outputs"])] == [
        {"id": "long", "by": "record shop.Customer", "by.name": "string", "note": "string"},
        {},
        {},
        {"Order.id": "int64 number 1"},
    ]
    assert not any(fields_of(it) for it in (*ended["inputs"], *ended["outputs"]))


def fields_of(dataset: dict[str, Any]) -> dict[str, str]:
    """The fields that an event has of a dataset, and their types."""
    schema = dataset.get("facets", {}).get("schema", {"fields": []})
    return {it["name"]: it["type"] for it in schema["fields"]}
