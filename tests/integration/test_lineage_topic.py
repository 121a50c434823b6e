"""Lineage events in a Kafka topic: they arrive in order, and one that does not is reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import create_topic
from aggregator.features.lineage.emitter import Lineage
from aggregator.features.service import Now
from aggregator.model.events import Event
from aggregator.model.values import ClusterFacts, Discovery, TopicFacts
from aggregator.plan import Plan, make_plan
from aggregator.store.checkpoint.start_state import CheckpointState
from support.openlineage import event_problems
from support.reading import read_topic, wait_for


def test_events_are_written_to_the_hub_and_those_that_do_not_arrive_are_reported(
    hub: EmbeddedCluster, unique: str
) -> None:
    create_topic(hub.bootstrap_servers, unique)
    to_hub = {"type": "kafka", "topic": unique}
    away = {"bootstrap.servers": f"127.0.0.1:{free_ports(1)[0]}", "message.timeout.ms": "500"}
    config = config_of(hub, {**to_hub, "config": away})
    events: list[Event] = []
    lineage = Lineage(events.append)
    now = Now(config, plan_of(config), CheckpointState())
    try:
        lineage.follow(now)
        wait_for(lambda: bool(events), "it says that it cannot")
        status = lineage.status()
        assert status is not None
        assert (status.events, status.error) == (0, f"topic {unique}: no answer")
        lineage.follow(replace(now, config=config_of(hub, to_hub)))
        wait_for(lambda: len(read_topic(hub.bootstrap_servers, unique)) == 2, "they arrive")
    finally:
        lineage.end()
        lineage.stop()
    found = read_topic(hub.bootstrap_servers, unique)
    assert {it.key for it in found} == {b"run:kafka-aggregator/central"}
    sent = [json.loads(it.value or b"") for it in found]
    assert [event_problems(it) for it in sent] == [[]] * 4
    found_jobs = [(it["eventType"], it["job"]["name"]) for it in sent]
    names = ["central.copy.orders", "central.copy.payments"]
    assert found_jobs == [("START", it) for it in names] + [("COMPLETE", it) for it in names]


def config_of(hub: EmbeddedCluster, transport: Mapping[str, object]) -> Config:
    return load_text(
        "",
        [
            "name=central",
            f"hub.bootstrap_servers={hub.bootstrap_servers}",
            "sources.eu.bootstrap_servers=eu:9093",
            "sources.eu.topics.include=.*",
            f"lineage.transport={json.dumps(transport)}",
        ],
    )


def plan_of(config: Config) -> Plan:
    topics = {name: TopicFacts(name, name, 2, 1) for name in ("orders", "payments")}
    found = {"eu": ClusterFacts("eu", "EU", 1, topics)}
    return make_plan(config, Discovery(found), ClusterFacts("hub", "HUB", 1, {}))
