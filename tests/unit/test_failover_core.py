"""The way back from the hub to a source, and what is not at the hub when a source fails over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from aggregator.checkpoint.failovers import Failovers
from aggregator.config.load import load_text
from aggregator.config.render import dump
from aggregator.config.schema import Config
from aggregator.config.yaml_text import parse_yaml
from aggregator.failover.core import (
    WayBack,
    behind_of,
    next_port,
    positions_back,
    way_back,
)
from aggregator.model import Route, SourcePartition, TopicPartition
from aggregator.plan.naming import naming_of
from aggregator.plan.selection import Selection
from support.examples import ASCII, examples

SECRET = "${env:EU_LOGIN}"
TEXT = f"""
name: central
hub:
  bootstrap_servers: hub:9092
  kafka: {{security.protocol: SSL}}
  producer: {{linger.ms: 20}}
sources:
  eu:
    bootstrap_servers: eu:9092
    topics: {{include: ".*"}}
    consumer: {{fetch.min.bytes: 5}}
    kafka:
      security.protocol: SASL_SSL
      sasl.mechanism: PLAIN
      sasl.jaas.config: {SECRET}
  us:
    bootstrap_servers: us:9092
    topics: {{include: orders}}
topics: {{rename: "${{cluster}}.${{topic}}"}}
checkpoint: {{path: /var/state, history: 1d}}
"""
ENV = {"EU_LOGIN": "org.x.PlainLoginModule required username=a password=never-shown;"}
topics = st.from_regex(r"[a-zA-Z][a-zA-Z0-9._-]{0,12}", fullmatch=True, alphabet=ASCII)


def back_of(routes: list[Route], text: str = TEXT) -> tuple[WayBack, Config]:
    config = load_text(text, env=ENV)
    raw, _ = parse_yaml(text)
    found = way_back(config, raw, "eu", routes)
    return found, load_text(dump(dict(found.tree)), env=ENV)


def route(topic: str, hub_topic: str, **more: Any) -> Route:
    return Route("eu", topic, hub_topic, 3, more.pop("hub_partitions", 3), **more)


def test_the_two_clusters_change_places_and_secrets_stay_references() -> None:
    found, made = back_of([route("orders", "eu.orders"), Route("us", "orders", "us.orders", 1, 1)])
    assert made.name == "central-back-eu"
    assert made.hub.bootstrap_servers == "eu:9092"
    assert made.hub.kafka["sasl.jaas.config"] == ENV["EU_LOGIN"]
    assert made.sources["central"].bootstrap_servers == "hub:9092"
    assert made.sources["central"].kafka == {"security.protocol": "SSL"}
    assert made.checkpoint.path == "/var/state-back-eu"
    assert made.checkpoint.history == 86_400
    assert made.api.listen == "127.0.0.1:8084"
    assert not made.topics.sync_configs
    text = dump(dict(found.tree))
    assert SECRET in text
    assert "never-shown" not in text


def test_what_came_from_a_source_is_known_and_stays() -> None:
    _, made = back_of([route("orders", "eu.orders")])
    # By these names its loop guard leaves records out, in which an origin names one of them.
    assert set(made.hub.known_as) == {"eu", "us"}
    # And by this one the aggregation leaves out what comes back to it.
    assert set(made.sources) == {"central"}


@given(st.dictionaries(topics, st.sampled_from(["eu.{}", "{}", "all-{}"]), max_size=6))
@examples(100)
def test_each_topic_gets_its_old_name(names: dict[str, str]) -> None:
    routes = [route(topic, form.format(topic)) for topic, form in names.items()]
    # Of none that can go back it is refused.
    assume(len({it.hub_topic for it in routes}) == len(routes) > 0)
    by_hub_topic = {it.hub_topic: it.topic for it in routes}
    found, made = back_of(routes)
    naming, selection = naming_of(made, "central"), Selection.of(made.sources["central"].topics)
    for hub_topic in found.topics:
        assert naming.of(hub_topic).name == by_hub_topic[hub_topic]
    assert all(selection.matches(it) == (it in found.topics) for it in by_hub_topic)


def test_a_hub_topic_of_several_topics_does_not_go_back() -> None:
    found, made = back_of([route("a", "all"), route("b", "all"), route("c", "c")])
    assert found.topics == ("c",)
    assert "all is not copied back" in found.notes[0]
    assert made.sources["central"].topics.include == ["c"]


def test_partitions_are_kept_where_they_were_kept_on_the_way_there() -> None:
    kept, other = route("a", "a", partition_by="source_partition"), route("b", "b")
    assert back_of([kept])[1].topics.partition_by == "source_partition"
    made = back_of([kept, other])[1]
    assert made.topics.partition_by == "key"
    assert yaml.safe_load(dump(dict(back_of([kept, other])[0].tree)))["topics"]["overrides"] == {
        "a": {"partition_by": "source_partition"}
    }
    grown = route("a", "a", partition_by="source_partition", hub_partitions=6)
    assert back_of([grown])[1].topics.partition_by == "key"


def test_it_begins_where_the_hub_ended_of_topics_that_go_back() -> None:
    ends = {TopicPartition("a", 0): 7, TopicPartition("a", 1): 0, TopicPartition("b", 0): 4}
    assert positions_back(ends, ["a"]) == {"a": {0: 7, 1: 0}}


def test_what_is_not_at_the_hub_is_told_and_what_is_not_known_as_well() -> None:
    a, b, c, d = (SourcePartition("eu", "orders", it) for it in range(4))
    found = behind_of({a: 5, b: 9, c: 3}, {a: 5, b: 12, c: None, d: 4})
    assert [(it.partition, it.offsets) for it in found] == [(b, 3), (c, None), (d, 4)]


def test_the_newest_failover_of_a_source_counts(tmp_path: Path) -> None:
    table = Failovers(str(tmp_path), {})
    assert table.newest("eu") is None
    table.put("eu", "hub-1", {TopicPartition("a", 0): 1})
    table.put("us", "hub-1", {})
    ends = {TopicPartition("a", 0): 5, TopicPartition("b", 2): 0}
    table.put("eu", "hub-2", ends)
    found = Failovers(str(tmp_path), {}).newest("eu")
    assert found is not None
    assert (found.hub_cluster_id, found.hub_ends) == ("hub-2", ends)


def test_a_second_instance_listens_beside_the_first() -> None:
    assert next_port("0.0.0.0:65535") == "127.0.0.1:65534"
    assert next_port("off") == "off"
