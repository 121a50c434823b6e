"""Backfills on real brokers: an older range beside the live flow, once, whatever happens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.engine.application import RunResult, run
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import create_topic, produce
from aggregator.model.events import Event
from support.application import KILLED, application
from support.changing import delete_records
from support.load import load, records
from support.reading import SECONDS, read_topic, wait_for, wait_until_topic_has
from support.running import catch_up, make_config, source
from support.small_plans import AS_OPTIONS
from support.verdict import assert_copied

OLD = 10_000
"""Records of each partition that were there before the live flow began."""
RATE = 2_000
LIVE = 400
"""Records a second of the live flow."""
PARTITIONS = 2


class World:
    """A source topic with older records, a hub, and commands to the instance that runs."""

    def __init__(
        self, cluster: EmbeddedCluster, hub: EmbeddedCluster, folder: Path, topic: str, **of: Any
    ) -> None:
        self.source, self.hub, self.topic, self.folder = cluster, hub, topic, folder
        create_topic(cluster.bootstrap_servers, topic, partitions=PARTITIONS)
        create_topic(hub.bootstrap_servers, topic, partitions=3)
        (port,) = free_ports(1)
        self.config: Config = make_config(
            hub,
            folder / "state",
            {"eu": source(cluster, topic, **of)},
            stream={"checkpoint_interval": "1s"},
            api={"listen": f"127.0.0.1:{port}"},
        )
        self.file = folder / "ask.yaml"
        self.file.write_text(to_yaml(self.config))

    def write(self, count: int) -> None:
        """Write `count` more records to each partition."""
        for partition in range(PARTITIONS):
            produce(self.source.bootstrap_servers, self.topic, records(count, partition))

    def cli(self, *args: str, exit_code: int = 0) -> Any:
        """The JSON that a command prints; its stderr when it is to end with another code."""
        result = CliRunner().invoke(app, [*args, "-c", str(self.file), "-o", "json"])
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout) if exit_code == 0 else result.stderr

    def order(self, *args: str) -> Any:
        """Order a backfill of the topic."""
        return self.cli("backfill", "--source", "eu", "--topic", self.topic, *args)

    def newest(self) -> Any:
        """The backfill that was ordered last."""
        return self.cli("backfill", "list")["backfills"][-1]

    def backfill(self) -> tuple[RunResult, list[Event]]:
        """Do what was ordered, and nothing else."""
        events: list[Event] = []
        control = Control(self.config, only_backfills=True)
        done = run(self.config, control=control, until_caught_up=True, on_event=events.append)
        assert (done.exit_code, done.problems) == (0, ())
        return done, events

    def assert_copied(self, beside: range, at_least: int) -> None:
        """Everything is there once, what came beside the live flow and all else each in order."""
        assert_copied(
            {"eu": (self.source.bootstrap_servers, self.topic)},
            (self.hub.bootstrap_servers, self.topic),
            at_least,
            {("eu", partition): beside for partition in range(PARTITIONS)},
        )


@pytest.mark.timeout(600)
def test_killed_in_the_midst_beside_the_live_flow_each_record_is_there_once(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    world = World(source_a, hub, tmp_path, unique, start="latest")
    world.write(OLD)
    to = hub.bootstrap_servers
    with application(world.config, tmp_path / "app") as first:
        first.until_logged("running")
        with load([source_a], unique, LIVE):
            wait_until_topic_has(to, unique, 400)
            shown = world.order("--dry-run", "--until", str(OLD), "--rate", f"{RATE}/s")
            assert [(it["begin"], it["until"]) for it in shown["backfill"]["parts"]] == [
                (0, OLD)
            ] * PARTITIONS
            assert world.cli("backfill", "list")["backfills"] == []
            first.until(
                lambda: all(
                    it["position"] > OLD for it in world.cli("positions", "show")["positions"]
                ),
                "what the live flow has written is committed",
            )
            # Up to where the live flow is by now: what that has written is left out.
            ordered = world.order("--rate", f"{RATE}/s")["backfill"]
            assert ordered["parts"][0]["until"] > OLD
            first.until_logged("backfill_started")
            lags: list[int] = []

            def some_is_copied() -> bool:
                (eu,) = world.cli("status")["sources"]
                lags.append(eu["lag"] or 0)
                return bool(world.newest()["records"] > RATE)

            first.until(some_is_copied, "some of it is copied")
            # The live flow was not held up meanwhile.
            assert max(lags) < 4 * LIVE
            assert (world.newest()["state"], world.newest()["left"] > OLD / 4) == ("ACTIVE", True)
            first.kill()
            assert first.wait_gone()
            assert first.exit_code == KILLED
            for place in ("backfill-scanned", "backfill-point:2"):
                with application(world.config, tmp_path / "app", failpoint=place) as dies:
                    assert dies.wait(SECONDS), f"it dies at {place}"
                    assert dies.exit_code == KILLED, dies.text
                    assert dies.wait_gone()
            for event in ("backfill_started", "backfill_done"):
                with application(world.config, tmp_path / "app", again=True) as later:
                    later.until_logged("running")
                    later.until_logged(event)
                    # Returns when nothing of the source is read any more, a backfill neither.
                    world.cli("sources", "restart", "eu")
                    later.terminate()
                    assert later.wait(SECONDS)
                    assert later.exit_code == 0, later.text
                    left = world.newest()["left"]
                    assert (left > 0) == (event == "backfill_started")
            # It was stopped in the midst, and the next start had nothing to doubt.
            assert not later.has_logged("doubt"), later.text
    assert catch_up(world.config).exit_code == 0
    done = world.newest()
    assert (done["state"], done["left"], done["lost"]) == ("DONE", 0, 0)
    world.assert_copied(range(OLD), PARTITIONS * OLD + 400)


def test_what_the_hub_held_already_of_the_range_is_not_written_again(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    world = World(source_a, hub, tmp_path, unique)
    to = hub.bootstrap_servers
    world.write(300)
    assert catch_up(world.config).exit_code == 0
    world.write(500)
    world.cli("positions", "set", "--to", "latest", "--yes")
    world.write(100)
    assert catch_up(world.config).exit_code == 0
    assert len(read_topic(to, unique)) == PARTITIONS * 400
    world.order("--rate", "400/s")
    # Two would write the same records.
    refused = world.cli("positions", "rewind", "--to-offset", "500", "--yes", exit_code=2)
    assert "backfill b1 reads it up to 900" in refused
    assert "backfill b1 reads it already" in world.cli(
        "backfill", "--source", "eu", "--topic", unique, exit_code=2
    )
    _, events = world.backfill()
    assert world.newest()["records"] == PARTITIONS * 500
    (start,) = [it.at for it in events if it.kind == "backfill_started"]
    (end,) = [it.at for it in events if it.kind == "backfill_done"]
    assert (end - start).total_seconds() > PARTITIONS * 500 / 400 - 1
    world.assert_copied(range(300, 800), PARTITIONS * 900)
    # Ordered again nothing is left to be written, and a run that copies does what is ordered, too.
    world.order()
    assert catch_up(world.config).exit_code == 0
    assert (world.newest()["state"], world.newest()["records"]) == ("DONE", 0)
    assert world.cli("backfill", "cancel", "b2", exit_code=2).count("is DONE already") == 1
    # What came so is found again by a rewind: the history's bounds still hold.
    world.cli("positions", "rewind", "--to", "earliest", "--yes")
    assert catch_up(world.config).exit_code == 0
    world.assert_copied(range(300, 800), PARTITIONS * 900)
    # And the audit takes what came so for present, and in order for a known reason.
    audit = world.cli("verify", *AS_OPTIONS)
    assert not any(it["missing"] or it["out_of_order"] for it in audit["partitions"]), audit
    assert sum(it["present"] for it in audit["partitions"]) == PARTITIONS * 900


def test_it_begins_where_the_log_does_and_says_what_is_lost(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    world = World(source_a, hub, tmp_path, unique, start="latest")
    world.write(200)
    assert catch_up(world.config).exit_code == 0
    world.write(10)
    assert catch_up(world.config).exit_code == 0
    world.order("--partition", "0", "--until", "100")
    assert world.cli("backfill", "cancel", "b1")["backfill"]["state"] == "CANCELLED"
    delete_records(source_a.bootstrap_servers, unique, {0: 50, 1: 60})
    ordered = world.order("--from", "40")
    assert [it["begin"] for it in ordered["backfill"]["parts"]] == [50, 60]
    assert "the source has deleted 10 offsets, 40 to 49" in str(ordered["notes"])
    # More is deleted before it begins.
    delete_records(source_a.bootstrap_servers, unique, {0: 55})
    world.backfill()
    done = world.newest()
    assert (done["state"], done["records"], done["lost"]) == ("DONE", 145 + 140, 10 + 5 + 20)
    wait_for(lambda: len(read_topic(hub.bootstrap_servers, unique)) == 20 + 285, "all is there")
    assert "is not selected" in world.cli(
        "backfill", "--source", "eu", "--topic", "nix", exit_code=2
    )
