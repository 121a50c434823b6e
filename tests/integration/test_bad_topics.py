"""Topics that the hub refuses, or of which it knows something else, cost only themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import JAVA_OPTIONS, EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, grow_topic, produce
from aggregator.model.errors import EXIT_CONFIG, EXIT_DATA, EXIT_DONE
from support.changing import alter_topic
from support.clusters import ClusterFactory
from support.java_options import TRUSTING
from support.load import records
from support.locked import CLIENT, USER
from support.policed import PolicedCluster
from support.reading import topics_of, wait_until_topic_has
from support.running import Run, catch_up, make_config, run_in_background, source
from support.secured import Right, allow
from support.verdict import assert_copied

TINY = {"segment.bytes": "100000"}
"""Kafka 4.1 and newer take no less than 1 MiB."""
ADAPTED: dict[str, dict[str, str]] = {
    "small": TINY,
    "plain": {"message.downconversion.enable": "false", "message.format.version": "2.8-IV1"},
    "huge": {"max.message.bytes": "2147483647"},
}
ODD = ("a..b", "-x", "1", "_", "A", "a")
LONG = "l" * 245
CLASHES = "orders.v1"
THEIRS = "europe_orders_v1"
FORBIDDEN = "forbidden"
GROWS, STAYS = "grows", "stays"
OK = "ok"
RIGHTS = (
    *(Right("TOPIC", "*", it) for it in ("READ", "WRITE", "ALTER_CONFIGS", "CREATE")),
    Right("TOPIC", f"europe.{GROWS}", "ALTER"),
)
"""Of the two topics that are to grow with their source, one may."""


def asked(folder: Path, config: Config, command: str, exit_code: int) -> Any:
    """What a command says of a config, as JSON."""
    file = folder / "aggregator.yaml"
    file.write_text(to_yaml(config), "utf-8")
    result = CliRunner().invoke(app, [command, "-c", str(file), "-o", "json"])
    assert result.exit_code == exit_code, result.output
    return json.loads(result.stdout)


def flows(running: Run, servers: str, to: str, count: int) -> None:
    """Whether what comes into the healthy topic arrives."""
    produce(servers, OK, records(10))
    wait_until_topic_has(to, f"europe.{OK}", count)
    assert running.result is None


@pytest.mark.timeout(280)
def test_bad_topics_are_adapted_or_left_out_and_the_others_flow_at_the_start_and_later(
    cluster_factory: ClusterFactory, tmp_path: Path
) -> None:
    old = cluster_factory("bad-eu", version="3.9", java_options=(*JAVA_OPTIONS, *TRUSTING.split()))
    with PolicedCluster("bad-hub", tmp_path / "classes") as hub:
        allow(hub, USER, *RIGHTS)
        _assert_they_cost_only_themselves(old, hub, tmp_path)


def _assert_they_cost_only_themselves(
    old: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path
) -> None:
    servers, to = old.bootstrap_servers, hub.admin_servers
    for topic in (OK, *ODD, LONG, CLASHES, FORBIDDEN, GROWS, STAYS):
        create_topic(servers, topic)
        produce(servers, topic, records(10))
    for topic, configs in ADAPTED.items():
        create_topic(servers, topic, config=configs)
        produce(servers, topic, records(10))
    create_topic(to, THEIRS)
    config = make_config(
        hub,
        tmp_path / "state",
        {"europe": source(old, ".*")},
        hub={"kafka": CLIENT},
        topics={"rename": "${cluster}.${topic}", "partitions": "source", "grow": True},
        api={"listen": "off"},
    )
    planned = asked(tmp_path, config, "plan", EXIT_DONE)
    assert_warned(planned["warnings"], [it["sources"] for it in planned["refused_topics"]])
    checked = asked(tmp_path, config, "check", EXIT_CONFIG)
    assert_warned(checked["warnings"], checked["refused_topics"])
    # Neither has made anything.
    assert {it for it in topics_of(to) if not it.startswith("__")} == {THEIRS}
    with run_in_background(config) as running:
        flows(running, servers, to, 20)
        for topic in (*ADAPTED, *ODD):
            wait_until_topic_has(to, f"europe.{topic}", 10)
        # While it runs: one that is refused, a config that is, a name that is, two that grow, of
        # which the hub lets one, then a healthy one.
        create_topic(servers, "later-small", config=TINY)
        alter_topic(servers, OK, TINY)
        create_topic(to, "europe_orders_v2")
        create_topic(servers, "orders.v2")
        for topic in (GROWS, STAYS):
            grow_topic(servers, topic, 3)
            produce(servers, topic, records(10, 2))
        create_topic(servers, "later")
        for topic in ("later", "later-small"):
            produce(servers, topic, records(10))
            wait_until_topic_has(to, f"europe.{topic}", 10)
        for topic in (GROWS, STAYS):
            wait_until_topic_has(to, f"europe.{topic}", 20)
        flows(running, servers, to, 30)
        counts = topics_of(to)
        assert [counts[f"europe.{topic}"] for topic in (GROWS, STAYS)] == [3, 1]
        looks = 4
        running.wait_for(
            lambda: [it.kind for it in running.events].count("topic_refused") == looks,
            "it is reported",
        )
        left_out = [it.sources for it in running.status.refused_topics]
        assert sorted(left_out) == [
            (f"europe/{it}",) for it in (FORBIDDEN, LONG, CLASHES, "orders.v2")
        ]
        warned = [it.message for it in running.events if it.kind == "warning"]
        assert len(warned) == len(set(warned))
        assert any(it.startswith(f"hub topic europe.{OK}: the hub refuses") for it in warned)
        assert any(f"europe.{STAYS}: the hub refuses to" in it for it in warned)
        assert not {"plan_failed", "plan_refused", "lane_failed"} & set(running.kinds())
    # What is copied is not all that is selected.
    done = catch_up(config)
    assert done.exit_code == EXIT_DATA
    assert len(done.problems) == len(left_out)
    assert any("no topic is called forbidden here" in it for it in done.problems)


def assert_warned(warnings: list[str], refused: list[Any]) -> None:
    """Assert that the warnings name what the hub does not take."""
    said = " ".join(warnings)
    assert "hub topic europe.small: the hub refuses segment.bytes=100000" in said
    for config in ADAPTED["plain"]:
        assert f"the hub does not know the topic config {config}" in said
    names = " ".join(map(str, refused))
    assert len(refused) == 3
    assert f"europe/{FORBIDDEN}" in names
    assert f"europe/{LONG}" in names
    assert f"europe/{CLASHES}" in names


@pytest.mark.timeout(280)
def test_one_setting_distinguishes_clusters_with_the_same_id(
    cluster_factory: ClusterFactory, tmp_path: Path
) -> None:
    """As two containers of one image have it, that sets CLUSTER_ID."""
    stock = "5L6g3nShT-eMCtK--X86sw"
    eu, us, hub = (cluster_factory(f"stock-{it}", cluster_id=stock) for it in ("eu", "us", "hub"))
    to = hub.bootstrap_servers
    for each in (eu, us):
        create_topic(each.bootstrap_servers, OK)
        produce(each.bootstrap_servers, OK, records(10))

    def config_of(**sources: Any) -> Config:
        return make_config(hub, tmp_path / "state", sources, api={"listen": "off"})

    shared = {"shared_cluster_id": True}
    refusals = asked(tmp_path, config_of(eu=source(eu, ".*")), "plan", EXIT_CONFIG)["refusals"]
    assert "set sources.eu.shared_cluster_id: true" in refusals[0]
    assert "an image sets a fixed CLUSTER_ID" in refusals[0]
    twice = config_of(eu=source(eu, ".*", **shared), us=source(eu, ".*", **shared))
    (refusal,) = asked(tmp_path, twice, "plan", EXIT_CONFIG)["refusals"]
    assert f"sources eu and us are one cluster (cluster id {stock}, broker " in refusal

    config = config_of(eu=source(eu, ".*", **shared), us=source(us, ".*", **shared))
    with run_in_background(config):
        wait_until_topic_has(to, OK, 20)
        produce(us.bootstrap_servers, OK, records(10))
        wait_until_topic_has(to, OK, 30)
    # And across a restart: nothing is taken for that of the other one.
    produce(eu.bootstrap_servers, OK, records(10))
    with run_in_background(config) as running:
        wait_until_topic_has(to, OK, 40)
        assert not running.status.gaps.total
    servers = {"eu": (eu.bootstrap_servers, OK), "us": (us.bootstrap_servers, OK)}
    assert_copied(servers, (to, OK), 40)
