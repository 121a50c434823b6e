"""Avro records of two registries arrive decodable with the hub's registry alone.

The ids of the three registries clash: the same number is another schema in each of them.
"""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import fastavro
import pytest

from aggregator.config.schema import Config
from aggregator.config.schemas import SchemasConfig
from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, produce
from aggregator.registry import Registry, framed
from support.reading import Record, read_topic, wait_for, wait_until_topic_has
from support.registry import ApicurioRegistry, framed_avro, schema_registries
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
UNKNOWN = 9_999


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
        """Write a record that is to be read so: key and value; as they are without `read`."""
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


def level(registry: ApicurioRegistry, subject: str, new: str | None = None) -> str:
    body = None if new is None else json.dumps({"compatibility": new}).encode()
    request = Request(
        f"{registry.url}/config/{subject}",
        body,
        {"Content-Type": "application/json"},
        method="GET" if body is None else "PUT",
    )
    with urlopen(request, timeout=30) as answer:
        told = json.load(answer)
    return str(told.get("compatibilityLevel") or told["compatibility"])


@pytest.fixture
def shop(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    registries: list[ApicurioRegistry],
    unique: str,
) -> Shop:
    return Shop((source_a, source_b, hub), registries, unique)


def told_of(run: Run) -> list[str]:
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
    level(eu, f"{topic}-key", "FULL")
    other = us.register(f"{topic}-value", PAYMENT)
    assert other == customer
    first = {"id": 7, "by": {"name": "Ada"}}
    shop.send(
        *("eu", framed_avro(key, NUMBER, {"n": 1}), framed_avro(order, whole(ORDER), first)),
        *({"n": 1}, first),
    )
    shop.send("us", b"plain", framed_avro(other, PAYMENT, {"cents": 5}), b"plain", {"cents": 5})
    shop.send("us", None, b'{"no": "Avro"}')
    with run_in_background(shop.config(tmp_path)) as run:
        assert shop.arrived(3) == shop.sent
        assert level(hub, f"{shop.hub_topic}-key") == "FULL"
        # A version that comes meanwhile.
        newer = eu.register(f"{topic}-value", NEWER, [("shop.Customer", "shop.Customer", 1)])
        second = {"id": 8, "by": {"name": "Bo"}, "note": "new"}
        shop.send("eu", None, framed_avro(newer, whole(NEWER), second), None, second)
        assert shop.arrived(4) == shop.sent
        assert any(f"schema {newer} of values of {topic} is" in it for it in told_of(run))


def test_an_id_that_nobody_knows_is_kept_aside_and_one_that_cannot_be_asked_for_waits(
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
        # The hub's registry hangs: what is known flows, what is new waits, and nobody else.
        os.kill(hub.process.pid, signal.SIGSTOP)
        try:
            shop.send("us", None, b"as it is")
            new = eu.register(f"{shop.topic}-value", {**PAYMENT, "doc": "newer"})
            shop.send("eu", None, framed_avro(known, PAYMENT, {"cents": 4}), None, {"cents": 4})
            shop.send("eu", None, framed_avro(new, PAYMENT, {"cents": 5}), None, {"cents": 5})
            wait_until_topic_has(shop.clusters["hub"].bootstrap_servers, shop.hub_topic, 4)
            run.wait_for(
                lambda: any(f"with schema {new} in their value wait" in it for it in told_of(run)),
                "it says what waits",
            )
            run.wait_for(
                lambda: any(
                    f"schema {new} of a value" in part.reason for part in run.status.partitions
                ),
                "the status says which partition waits for what",
            )
        finally:
            os.kill(hub.process.pid, signal.SIGCONT)
        del shop.sent["eu", 1]
        assert shop.arrived(5) == shop.sent


def aside_of(shop: Shop) -> list[Record]:
    servers, topic = shop.clusters["hub"].bootstrap_servers, f"{shop.topic}.aside"
    wait_until_topic_has(servers, topic, 1)
    return wait_for(lambda: read_topic(servers, topic), "it is kept aside")


def test_checked_ids_stay_as_they_are_but_for_those_that_nobody_knows(
    shop: Shop, tmp_path: Path
) -> None:
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
