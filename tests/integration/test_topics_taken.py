"""Which topics are taken, how they are called, and one that rests while the others flow."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.datapath.jars import jars, java_command
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import admin, create_topic, delete_topic, produce
from aggregator.features.positions.targets import MoveRequest
from aggregator.kafka.discovery import creation
from aggregator.model.errors import EXIT_CONFIG, EXIT_DATA, RefusedError
from aggregator.model.values import Part
from aggregator.plan.lifecycle.judge import CREATING
from aggregator.status.schema import PartitionState, PartitionStatus, Status
from support.clusters import ClusterFactory
from support.load import load, records
from support.reading import read_topic, topics_of, wait_until_topic_has
from support.running import Run, catch_up, make_config, run_in_background, source
from support.verdict import assert_copied

COMPACT = {"cleanup.policy": "compact"}
PROGRAMS = {
    "_schemas": "a schema registry",
    "connect-configs": "Kafka Connect",
    "connect-offsets": "Kafka Connect",
    "docker-connect-status": "Kafka Connect",
    "mm2-offset-syncs.eu.internal": "MirrorMaker",
    "heartbeats": "MirrorMaker",
    "eu.checkpoints.internal": "MirrorMaker",
    "_confluent-metrics": "Confluent's platform",
    "strimzi.cruisecontrol.metrics": "Strimzi",
    "app-counts-changelog": "Kafka Streams",
}


@pytest.fixture(scope="module")
def theirs(lasting_clusters: ClusterFactory) -> Iterator[EmbeddedCluster]:
    """A cluster with a registry, Connect and MirrorMaker beside whatever a test adds."""
    cluster = lasting_clusters("theirs")
    for topic in PROGRAMS:
        create_topic(cluster.bootstrap_servers, topic, config=COMPACT)
        produce(cluster.bootstrap_servers, topic, records(3))
    yield cluster


def asked(folder: Path, config: Config, command: str, exit_code: int) -> Any:
    """What a command says of a config, as JSON."""
    file = folder / "aggregator.yaml"
    file.write_text(to_yaml(config), "utf-8")
    result = CliRunner().invoke(app, [command, "-c", str(file), "-o", "json"])
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


@pytest.mark.timeout(300)
def test_of_all_topics_those_of_users_are_taken_under_their_names_and_with_their_configs(
    theirs: EmbeddedCluster,
    source_b: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
) -> None:
    # Of its own: a rule may give the name of any topic there, so `check` looks at all of them.
    hub = cluster_factory("taken")
    cdc, clicks, prices = (f"{name}.{unique}" for name in ("cdc", "clicks", "prices"))
    servers, us, to = (it.bootstrap_servers for it in (theirs, source_b, hub))
    for topic in (cdc, clicks):
        create_topic(servers, topic, partitions=2)
        produce(servers, topic, records(40))
    for each in (servers, us):
        create_topic(each, prices, config=COMPACT)
        produce(each, prices, records(10))
    raw = f"raw.{unique}"
    config = make_config(
        hub,
        tmp_path / "state",
        {
            "all": source(theirs, ".*", rename=[{"match": r"\Qcdc.\E(.*)", "to": "raw.$1"}]),
            "us": source(source_b, prices),
        },
        topics={
            "kafka_streams": "leave_out",
            "overrides": {
                raw: {"partitions": 3, "configs": {"retention.ms": "86400000"}},
                clicks: {"rename": f"web.{unique}"},
            },
        },
        api={"listen": "off"},
    )
    before = topics_of(to)
    plan = asked(tmp_path, config, "plan", 0)
    assert {it["topic"]: it["hub_topic"] for it in plan["routes"]} == {
        cdc: raw,
        clicks: f"web.{unique}",
    }
    skipped = {it["topic"]: it["reason"] for it in plan["skipped"] if it["cluster"] == "all"}
    for topic, owner in PROGRAMS.items():
        assert skipped[topic] == f"a topic of {owner}, taken only when include names it"
    (refused,) = plan["refused_topics"]
    assert (refused["hub_topic"], refused["sources"]) == (prices, [f"all/{prices}", f"us/{prices}"])
    assert "topics.merge_compacted: true" in refused["reason"]
    check = asked(tmp_path, config, "check", EXIT_CONFIG)
    assert (check["ok"], len(check["refused_topics"]), check["refusals"]) == (False, 1, [])
    # All else is copied. The one topic that is selected and not taken waits for a person.
    result = catch_up(config)
    assert result.exit_code == EXIT_DATA
    assert result.problems == (
        f"not taken: all/{prices}, us/{prices} into hub topic {prices}: {refused['reason']}",
    )
    assert [it.hub_topic for it in result.status.refused_topics] == [prices]
    after = topics_of(to)
    made = {name: after[name] for name in after.keys() - before.keys()}
    assert made.keys().isdisjoint(PROGRAMS)
    # Besides them there are Kafka's own, of those who read there, and that of the quarantine.
    assert {name: count for name, count in made.items() if unique in name} == {
        raw: 3,
        f"web.{unique}": 2,
    }
    assert_copied({"all": (servers, cdc)}, (to, raw), at_least=40)
    assert_copied({"all": (servers, clicks)}, (to, f"web.{unique}"), at_least=40)
    again = asked(tmp_path, config, "plan", 0)
    assert again["actions"] == []
    for topic in (cdc, clicks, prices):
        delete_topic(servers, topic)


def partitions(run: Run, topic: str) -> dict[int, PartitionStatus]:
    return {it.partition: it for it in run.status.partitions if it.topic == topic}


@pytest.mark.timeout(300)
def test_a_partition_and_a_topic_rest_over_a_restart_while_the_rest_of_the_source_flows(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    servers, to = source_a.bootstrap_servers, hub.bootstrap_servers
    topic, other = f"orders.{unique}", f"clicks.{unique}"
    for name in (topic, other):
        create_topic(servers, name, partitions=2)
    config = make_config(hub, tmp_path, {"eu": source(source_a, f".*{unique}")})
    first, whole = Part("eu", topic, 1), Part("eu", other)
    control = Control(config)
    with load([source_a], topic, 200), load([source_a], other, 200):
        run = Run(config, control).start()
        wait_until_topic_has(to, topic, 200)
        generations = {it.name: it.generation for it in run.status.lanes}
        pause = control.pause_part(first, by="ann")
        assert (pause.paused, pause.by, pause.parts) == (True, "ann", (str(first),))
        rests = partitions(run, topic)[1]
        assert rests.state is PartitionState.PAUSED
        assert rests.reason.startswith("paused since 20")
        assert "by ann" in rests.reason
        with pytest.raises(RefusedError, match="did you mean orders"):
            control.pause_part(Part("eu", f"order.{unique}"))
        # The others, of its own topic as well, flow on, in the lane that they had.
        at = {key: it.position or 0 for key, it in partitions(run, topic).items()}
        run.wait_for(
            lambda: (partitions(run, topic)[0].position or 0) >= at[0] + 200, "it flows on"
        )
        assert partitions(run, topic)[1].position == at[1]
        control.pause_part(whole, by="bob")
        assert {it.state for it in partitions(run, other).values()} == {PartitionState.PAUSED}
        at[0] = partitions(run, topic)[0].position or 0
        run.wait_for(
            lambda: (partitions(run, topic)[0].position or 0) >= at[0] + 100, "it flows on"
        )
        assert {it.name: it.generation for it in run.status.lanes} == generations
        assert [(it.topic, it.partition, it.by) for it in run.status.paused] == [
            (other, None, "bob"),
            (topic, 1, "ann"),
        ]
        assert run.stop().exit_code == 0

        # A rename, while it runs: as any other change of names.
        raw = [{"match": f"orders[.]({unique})", "to": "raw.$1"}]
        eu = config.sources["eu"].model_dump() | {"rename": raw}
        named = Config.model_validate(config.model_dump() | {"sources": {"eu": eu}})
        # A start reads the config, too: it changes once this one runs.
        on_disk = [config]
        control = Control(config, lambda _: on_disk[-1])
        run = Run(config, control).start()
        assert {key for key, it in control.parts.items() if it.by} == {first, whole}
        assert partitions(run, topic)[1].position == at[1]
        control.resume_part(whole)
        run.wait_for(lambda: whole not in control.parts, "it is resumed")
        run.wait_for(
            lambda: (
                {it.state for it in partitions(run, other).values()} == {PartitionState.RUNNING}
            ),
            "it runs",
        )
        assert partitions(run, topic)[1].state is PartitionState.PAUSED
        control.resume_part(first)
        run.wait_for(lambda: (partitions(run, topic)[1].position or 0) > at[1], "it flows again")
        on_disk.append(named)
        assert control.reload().keys == ("sources.eu.rename",)
        wait_until_topic_has(to, f"raw.{unique}", 100)
    run.wait_for(lambda: all(it.lag == 0 for it in run.status.sources), "it has caught up")
    assert run.stop().exit_code == 0
    assert_copied({"eu": (servers, other)}, (to, other), at_least=300)
    # Each record is under the one name or the other, once.
    found = [it.origin for name in (topic, f"raw.{unique}") for it in read_topic(to, name)]
    assert len(found) == len(set(found))
    for number in (0, 1):
        offsets = sorted(it.offset for it in found if it.partition == number)
        assert offsets == list(range(len(offsets)))


@pytest.mark.timeout(300)
def test_a_topic_that_came_while_nothing_ran_is_copied_whole_and_an_old_one_is_filled_in(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    servers, to = source_a.bootstrap_servers, hub.bootstrap_servers
    old, new = f"old.{unique}", f"new.{unique}"
    create_topic(servers, old)
    produce(servers, old, records(20))
    eu = source(source_a, f".*{unique}", start="latest")
    config = make_config(hub, tmp_path, {"eu": eu})
    assert catch_up(config).exit_code == 0
    create_topic(servers, new)
    for topic in (old, new):
        produce(servers, topic, records(5))
    control = Control(config)
    run = Run(config, control).start()
    wait_until_topic_has(to, new, 5)
    wait_until_topic_has(to, old, 5)
    assert [it.origin.offset for it in read_topic(to, new)] == list(range(5))
    assert [it.origin.offset for it in read_topic(to, old)] == list(range(20, 25))
    # What was there before it was first read, later: each record once, the other topic flows on.
    control.pause_part(Part("eu", old))
    request = MoveRequest(source="eu", topic=old, to="earliest")
    assert control.set_positions(request, dry_run=False).commit is not None
    for topic in (old, new):
        produce(servers, topic, records(5))
    wait_until_topic_has(to, new, 10)
    control.resume_part(Part("eu", old))
    wait_until_topic_has(to, old, 30)
    assert run.stop().exit_code == 0
    # Behind what the hub had already.
    assert [it.origin.offset for it in read_topic(to, old)] == [
        *range(20, 25),
        *range(20),
        *range(25, 30),
    ]


def limit_changes(cluster: EmbeddedCluster, per_second: int) -> None:
    """Have a cluster limit the new partitions a second of a client, as providers do."""
    line = [java_command(), "-cp", os.pathsep.join(str(it) for it in jars("broker"))]
    line += ["kafka.admin.ConfigCommand", "--bootstrap-server", cluster.bootstrap_servers]
    line += ["--alter", "--entity-type", "clients", "--entity-default"]
    line += ["--add-config", f"controller_mutation_rate={per_second}"]
    subprocess.run(line, check=True, capture_output=True, timeout=60)


def waits_while_others_flow(status: Status) -> bool:
    waits = any(it.reason == CREATING for it in status.partitions)
    return waits and any(it.records for it in status.lanes)


@contextmanager
def slowest_answer(cluster: EmbeddedCluster) -> Iterator[list[float]]:
    """How long a cluster took to answer at most meanwhile, by a client that nothing throttles."""
    longest, over, client = [0.0], threading.Event(), admin(cluster.bootstrap_servers)

    def ask() -> None:
        while not over.wait(0.2):
            began = time.monotonic()
            client.list_topics(timeout=60)
            longest[0] = max(longest[0], time.monotonic() - began)

    thread = threading.Thread(target=ask, name="asking")
    thread.start()
    try:
        yield longest
    finally:
        over.set()
        thread.join()


@pytest.mark.timeout(300)
def test_what_is_there_flows_while_many_topics_are_created_at_a_hub_that_throttles(
    source_a: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten topics a request, of which the second waits nine seconds for the quota."""
    monkeypatch.setattr(creation, "AT_ONCE", 10)
    monkeypatch.setattr(creation, "MOST_TOPICS", 10)
    monkeypatch.setattr(creation, "SHOWN_SECONDS", 0.0)
    others_flow, create = threading.Event(), creation.HubChanges._try

    def create_late(*given: Any) -> Any:
        others_flow.wait(120)
        return create(*given)

    monkeypatch.setattr(creation.HubChanges, "_try", create_late)
    hub = cluster_factory("many")
    names = [f"{unique}.{number:02}" for number in range(20)]
    ok, refused = f"{unique}.ok", names[15]
    for cluster in (source_a, hub):
        create_topic(cluster.bootstrap_servers, ok)
    client = admin(source_a.bootstrap_servers)
    made = client.create_topics([NewTopic(it, 6, 1) for it in names])
    for future in made.values():
        future.result(30)
    producer = Producer({"bootstrap.servers": source_a.bootstrap_servers})
    for name in names:
        producer.produce(name, b"value")
    assert producer.flush(30) == 0
    limit_changes(hub, 6)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, rf"{re.escape(unique)}\..*")},
        topics={"overrides": {refused: {"configs": {"no.such.config": "1"}}}},
        # Less than the hub leaves a request unanswered.
        supervision={"connect_timeout": "6s"},
        api={"listen": "off"},
    )
    with (
        load([source_a], ok, per_second=50),
        slowest_answer(hub) as slowest,
        run_in_background(config) as run,
    ):
        run.wait_for(lambda: waits_while_others_flow(run.status), "others flow meanwhile")
        others_flow.set()
        wanted = {*names, ok} - {refused}
        run.wait_for(
            lambda: wanted <= {it.topic for it in run.status.partitions if it.position},
            "each has its record",
        )
        run.wait_for(
            lambda: [it.hub_topic for it in run.status.refused_topics] == [refused],
            "one is refused",
        )
    shown = [it.message for it in run.events if it.kind == "hub_changes"]
    assert "all topics are created at the hub" in shown
    # What is throttled is no failure. A hub that was slow to answer all others may be one.
    waits = [it for it in shown if "wait" in it]
    assert not waits or slowest[0] > 3, (waits, slowest)
