"""Each alert fires: a real Prometheus, a running aggregator, and each condition on real clusters.

The rules are those of docker/prometheus. Only their durations differ: a minute of a `for`, and of a
window, is some seconds here. Their limits do not: what must be a minute behind is a minute behind.
Each test causes what its alert is for; what one needs long for is caused at the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, delete_topic
from aggregator.model.errors import EXIT_DATA
from support.board import choices, queries_of, replaced, rows
from support.changing import delete_records
from support.clusters import ClusterFactory
from support.crashed import write_again
from support.load import records
from support.prometheus import FOLDER, promtool
from support.reading import read_topic, wait_until_topic_has
from support.watched import Watched, watched

pytestmark = pytest.mark.timeout(900)

OFF = ("Dedup", "Delta", "ACLs, consumer groups, lineage")
"""Rows of the board for features that are off here; in `test_board_queries.py` they are on."""


@pytest.fixture(scope="module")
def world(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    lasting_clusters: ClusterFactory,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("alerts")
    clusters = (source_a, source_b, lasting_clusters("down"), hub)
    with watched(clusters, f"alerts-{folder.name}", folder) as found:
        yield found


def test_each_rule_is_made_to_fire_here() -> None:
    rules = re.findall(r"- alert: (\w+)", (FOLDER / "rules.yml").read_text("utf-8"))
    caused = re.findall(r'fires\(\s*"(\w+)"', Path(__file__).read_text("utf-8"))
    assert sorted(caused) == sorted(rules)


def test_while_all_is_well_nothing_fires_but_for_a_source_of_which_nothing_matches(
    world: Watched,
) -> None:
    alert = world.fires("AggregatorNothingMatched", source="none")
    assert "No topic of source none matches" in alert["annotations"]["summary"]
    others = {it["labels"]["alertname"] for it in world.prometheus.firing()} - {
        "AggregatorNothingMatched"
    }
    # It is behind from the start on.
    assert others <= {"AggregatorBehind"}


def test_prometheus_accepts_its_metrics(world: Watched) -> None:
    checked = promtool("check", "metrics", given=world.metrics())
    assert (checked.returncode, checked.stdout) == (0, "")


def test_a_record_that_the_hub_refuses(world: Watched) -> None:
    world.write(world.eu, "keys", NewRecord(b"without a key"))
    world.fires("AggregatorQuarantine", source="eu")


def test_a_topic_that_is_another_one_waits_for_a_decision(world: Watched) -> None:
    delete_topic(world.eu.bootstrap_servers, world.topic("again"))
    create_topic(world.eu.bootstrap_servers, world.topic("again"))
    alert = world.fires("AggregatorGap")
    assert alert["annotations"]["summary"].startswith("1 gaps wait")
    world.fires("AggregatorPartitionHeld", source="eu", state="QUARANTINED")


def test_records_that_are_gone_before_they_are_copied(world: Watched) -> None:
    topic = world.topic("slow")
    copied = wait_until_topic_has(world.hub.bootstrap_servers, topic, 1)
    # Far from what its reader has at hand, and more than enough is left to be behind with.
    delete_records(world.us.bootstrap_servers, topic, {0: copied + 2_000})
    world.fires("AggregatorDataLost", source="us")


def test_a_source_that_hangs(world: Watched) -> None:
    world.down.brokers[0].pause()
    try:
        world.fires("AggregatorSourceDown", source="down", state="UNREACHABLE")
    finally:
        world.down.brokers[0].resume()
    world.calms("AggregatorSourceDown", source="down")


def test_positions_that_cannot_be_committed(world: Watched) -> None:
    table = Path(world.config.checkpoint.path) / "checkpoints"
    aside = table.with_name("aside")
    table.rename(aside)
    try:
        # With a file in its place no one can write there, whatever their rights.
        table.write_text("")
        world.fires("AggregatorCheckpointOld")
    finally:
        table.unlink()
        aside.rename(table)
    world.calms("AggregatorCheckpointOld")


@pytest.fixture(scope="module")
def audited(world: Watched) -> Watched:
    """After an audit that has found three records twice."""
    servers, topic = world.hub.bootstrap_servers, world.topic("orders")
    write_again(world.hub, topic, read_topic(servers, topic)[:3])
    code, text = world.command(
        "verify", "--source", "eu", "--topic", topic, "--set", "spark.master=local[1]"
    )
    assert code == EXIT_DATA, text
    return world


def test_an_audit_that_finds_something_wrong(audited: Watched) -> None:
    world = audited
    world.fires("AggregatorAuditWrong")
    for finding, count in (("twice", 3), ("missing", 0)):
        query = f'aggregator_audit_records{{finding="{finding}"}}'
        # A scrape that a busy machine has missed leaves a moment without a value.
        world.until(partial(_is, world, query, count), f"{count} are {finding}")


def _is(world: Watched, query: str, count: int) -> bool:
    return world.prometheus.value(query) == count


def test_a_lane_that_fails_again_and_again(world: Watched) -> None:
    world.write(world.us, "broken", *records(1))
    world.fires("AggregatorLaneRestarts", lane="broken")


def test_a_source_that_is_a_minute_behind(world: Watched) -> None:
    world.fires("AggregatorBehind", source="us")


@pytest.mark.parametrize(
    "panel",
    [panel for row, own in rows() if row["title"] not in OFF for panel in own],
    ids=lambda it: str(it["title"]),
)
def test_a_panel_of_the_board_shows_something(audited: Watched, panel: dict[str, Any]) -> None:
    for expression in queries_of(panel):
        audited.until(partial(audited.prometheus.query, expression), f"{expression} has a result")


def test_the_board_offers_each_source(world: Watched) -> None:
    series, label = choices("source")

    def offered() -> set[str]:
        return {it["metric"][label] for it in world.prometheus.query(replaced(series))}

    world.until(lambda: offered() == world.config.sources.keys(), "all are offered")


def test_an_aggregator_that_is_gone(world: Watched) -> None:
    """From here on there is none that copies."""
    world.kill()
    world.fires("AggregatorAway")


def test_one_that_is_started_again_and_again_in_vain(world: Watched) -> None:
    with world.started_in_vain():
        world.fires("AggregatorRestarts", pod="aggregator-0")
        world.fires("AggregatorNotRunning", name=world.name)
