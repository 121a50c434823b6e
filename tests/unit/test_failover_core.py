"""The way back from the hub to a source, and what is not at the hub when a source fails over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from aggregator.config.load import load_text
from aggregator.config.render import dump
from aggregator.config.schema import Config
from aggregator.config.yaml_text import parse_yaml
from aggregator.model.record_rules import ANY_ORIGIN
from aggregator.model.values import OffsetRange, Route, SourcePartition, TopicPartition
from aggregator.plan.failover import (
    FailbackPlan,
    Failover,
    behind_of,
    ends_of,
    next_port,
    plan_failback,
    positions_back,
    to_bring_back,
)
from aggregator.plan.positions.hub_losses import least_ends
from aggregator.plan.topics.naming import naming_of
from aggregator.plan.topics.selection import Selection
from aggregator.store.controls import Controls
from aggregator.store.failovers import Failovers
from aggregator.store.state_store import StateStore
from support.examples import ASCII, examples

HERE = Path("/opt/aggregator")
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


def back_of(routes: list[Route], text: str = TEXT) -> tuple[FailbackPlan, Config]:
    config = load_text(text, env=ENV)
    raw, _ = parse_yaml(text)
    found = plan_failback(config, raw, "eu", routes, HERE)
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
    # Its loop guard leaves out what has an origin, also one of a source that is added later.
    assert made.hub.known_as == [ANY_ORIGIN]
    # And by this one the aggregation leaves out what comes back to it.
    assert set(made.sources) == {"central"}


def test_what_batches_have_brought_goes_back_record_by_record() -> None:
    text = TEXT.replace("topics: {rename", "topics: {copy_as: batches, rename")
    text = text.replace('"${cluster}.${topic}"', '"${cluster}.${topic}", partition_by: cluster')
    _, made = back_of([route("a", "a"), route("b", "b", partition_by="source_partition")], text)
    assert not made.topics.has_batches
    assert made.hub.known_as == [ANY_ORIGIN]


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


def test_what_is_not_at_the_hub_is_reported_and_what_is_not_known_as_well() -> None:
    a, b, c, d = (SourcePartition("eu", "orders", it) for it in range(4))
    found = behind_of({a: 5, b: 9, c: 3}, {a: 5, b: 12, c: None, d: 4})
    assert [(it.partition, it.offsets) for it in found] == [(b, 3), (c, None), (d, 4)]


def test_what_holds_for_the_line_and_the_records_is_taken_over() -> None:
    text = TEXT.replace("linger.ms: 20", "linger.ms: 20, ssl.keystore.location: /hub.p12")
    text = text.replace("fetch.min.bytes: 5}", "fetch.min.bytes: 5}\n    max_bytes_per_second: 5MB")
    text = text.replace("path: /var/state", "path: ./state").replace(
        "rename: ", "on_poison: stop, overrides: {eu.b: {on_poison: quarantine}}, rename: "
    )
    found, made = back_of([route("a", "eu.a"), route("b", "eu.b", transform="m:f")], text)
    assert made.hub.producer == {"linger.ms": "20"}
    central = made.sources["central"]
    assert (central.consumer, central.max_bytes_per_second) == ({"fetch.min.bytes": "5"}, 5_000_000)
    assert [made.topics.rules_for(it).on_poison for it in ("a", "b")] == ["stop", "quarantine"]
    # From wherever it is run.
    assert made.checkpoint.path == "/opt/aggregator/state-back-eu"
    assert [it.partition(" ")[0] for it in found.notes] == [
        "eu.b",
        "hub.producer.ssl.keystore.location",
    ]


def test_schema_ids_are_those_of_the_cluster_that_is_written() -> None:
    text = TEXT.replace("eu:9092", "eu:9092\n    schemas: {registry: http://eu:1}")
    translated = text.replace("topics: {rename", "topics: {schemas: translate, rename")
    both = translated.replace("hub:9092", "hub:9092\n  schemas: {registry: http://hub:1}")
    made = back_of([route("a", "eu.a")], both)[1]
    assert made.hub.schemas.registry == "http://eu:1"
    assert made.sources["central"].schemas.registry == "http://hub:1"
    assert made.topics.schemas == "translate"
    assert back_of([route("a", "eu.a")], text)[1].topics.schemas == "pass"


def noted(folder: Path) -> tuple[Failover, ...]:
    """As another process reads them."""
    return Failovers(StateStore(str(folder))).read().get("eu", ())


def test_what_was_written_at_the_hub_before_the_newest_failover_goes_back_as_well(
    tmp_path: Path,
) -> None:
    """A source that flaps: over, resumed, and over again before anybody failed back."""
    table = Failovers(StateStore(str(tmp_path)))
    a, b, grown = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("a", 1)

    def begins(found: tuple[Failover, ...]) -> dict[TopicPartition, int]:
        return least_ends(it.hub_ends for it in found)

    assert noted(tmp_path) == ()
    table.put("eu", "hub", {a: 10, b: 7}, None)
    table.put("us", "hub", {a: 0}, None)
    table.put("eu", "hub", {a: 90, b: 5, grown: 4}, None)
    brought = to_bring_back(noted(tmp_path), "hub")
    assert len(brought) == 2
    # What the first did not know was written since: from its beginning.
    assert begins(brought) == {a: 10, b: 5}
    assert to_bring_back(noted(tmp_path), "another hub") == ()
    table.put_returned("eu", brought)
    # Done again, it is the same; and with another one, that alone.
    assert begins(to_bring_back(noted(tmp_path), "hub")) == {a: 10, b: 5}
    table.put("eu", "hub", {a: 200}, None)
    assert begins(to_bring_back(noted(tmp_path), "hub")) == {a: 200}


def test_no_clock_says_whether_a_failover_is_done(tmp_path: Path) -> None:
    table, controls = Failovers(StateStore(str(tmp_path))), Controls(StateStore(str(tmp_path)))
    controls.put("eu", paused=True)
    pause = controls.read().sources["eu"]
    # Noted by a machine whose clock is hours behind, or ahead.
    for hours in (-5, 5):
        then = replace(pause, since=pause.since + timedelta(hours=hours))
        assert not table.put("eu", "hub", {}, then.since).is_of(pause)
    table.put("eu", "hub", {}, pause.since)
    assert [it.is_of(controls.read().sources["eu"]) for it in noted(tmp_path)] == [0, 0, 1]
    controls.put("eu", paused=False)
    controls.put("eu", paused=True)
    assert not any(it.is_of(controls.read().sources["eu"]) for it in noted(tmp_path))
    assert not any(it.is_of(None) for it in noted(tmp_path))


def test_it_begins_before_the_last_record_of_the_source_and_within_the_log() -> None:
    a, b, c = (TopicPartition("a", it) for it in range(3))
    logs = {a: OffsetRange(0, 100), b: OffsetRange(40, 100), c: OffsetRange(0, 0)}
    # Partition by partition of the source; what came last of all of them counts.
    assert ends_of(logs, [{a: 30, b: 20}, {a: 60, b: 10}]) == {a: 60, b: 40, c: 0}
    assert ends_of(logs, [{a: 300}]) == {a: 100, b: 40, c: 0}
    assert ends_of(logs, []) == {a: 0, b: 40, c: 0}


def test_a_second_instance_listens_beside_the_first() -> None:
    assert next_port("0.0.0.0:65535") == "127.0.0.1:65534"
    assert next_port("off") == "off"
