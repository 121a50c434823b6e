"""Commands to a running instance under load: each source's records arrive once, the others flow."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import create_topic
from aggregator.model.errors import EXIT_CONFIG, EXIT_DATA
from aggregator.model.values import SourceState
from aggregator.status.schema import PartitionState, Status
from support.application import Application, application
from support.load import load
from support.reading import wait_for, wait_until_topic_has
from support.running import make_config, source
from support.silence import Arrivals, listening
from support.verdict import assert_copied

MORE = 1_500
FLOWS = 500
"""A source writes 250 records in a second: after this many more it is known to flow."""
LOG = logging.getLogger(__name__)


class World:
    """Two sources under load, a hub, and one instance that is commanded."""

    def __init__(
        self,
        clusters: dict[str, EmbeddedCluster],
        hub: EmbeddedCluster,
        folder: Path,
        topic: str,
        **parts: Any,
    ) -> None:
        self.clusters, self.hub, self.topic, self.folder = clusters, hub, topic, folder
        for cluster in clusters.values():
            create_topic(cluster.bootstrap_servers, topic, partitions=2)
        create_topic(hub.bootstrap_servers, topic, partitions=2)
        (port,) = free_ports(1)
        self.parts: dict[str, Any] = {"api": {"listen": f"127.0.0.1:{port}"}, **parts}
        self.file = folder / "app" / "aggregator.yaml"
        self.ask = folder / "ask.yaml"
        """What the commands are given: how the instance is found, whatever its own file says."""

    def config(self, *aliases: str, **parts: Any) -> Config:
        """The config with these sources."""
        sources = {alias: source(self.clusters[alias], self.topic) for alias in aliases}
        return make_config(self.hub, self.folder / "state", sources, **{**self.parts, **parts})

    @contextmanager
    def running(self, *aliases: str, **parts: Any) -> Iterator[Application]:
        """An instance with these sources, until it is stopped cleanly."""
        config = self.config(*aliases, **parts)
        self.ask.write_text(to_yaml(config))
        with application(config, self.file.parent, again=True) as running:
            self.app = running
            running.until_logged("running")
            yield running
            running.terminate()
            running.until(lambda: not running.alive, "it has ended")
            assert running.exit_code == 0, running.text

    def cli(self, *args: str, exit_code: int = 0) -> Any:
        """The JSON that a command prints; its stderr when it is to end with another code."""
        result = CliRunner().invoke(app, [*args, "-c", str(self.ask), "-o", "json"])
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout) if exit_code == 0 else result.stderr

    def status(self) -> Status:
        found = self.cli("status")
        assert found.pop("running"), found
        return Status.model_validate(found)

    def has_caught_up(self) -> bool:
        """Whether the status has every source, and none is behind."""
        lags = {it.alias: it.lag for it in self.status().sources}
        return lags == dict.fromkeys(self.clusters, 0)

    def state(self, alias: str) -> SourceState | None:
        return next((it.state for it in self.status().sources if it.alias == alias), None)

    def positions_of(self, alias: str) -> set[int | None]:
        """The positions of a source's partitions."""
        return {it.position for it in self.status().partitions if it.cluster == alias}

    def lanes_of(self, alias: str) -> set[str]:
        """The lanes that read a source now."""
        return {
            it.name
            for it in self.status().lanes
            if alias in it.clusters and it.state in ("RUNNING", "STARTING")
        }

    def assert_copied(self, at_least: int) -> None:
        assert_copied(
            {alias: (it.bootstrap_servers, self.topic) for alias, it in self.clusters.items()},
            (self.hub.bootstrap_servers, self.topic),
            at_least,
        )


@pytest.fixture
def world(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> World:
    return World({"eu": source_a, "us": source_b}, hub, tmp_path, unique)


def flows(arrivals: Arrivals, alias: str) -> None:
    """Wait until more records of a source arrive; log how long it was silent."""
    arrivals.longest.pop(alias, None)
    before = arrivals.counts[alias]
    wait_for(lambda: arrivals.counts[alias] >= before + FLOWS, f"{alias} flows")
    LOG.warning("longest silence of %s: %.2f s", alias, arrivals.silence(alias))


def rests(arrivals: Arrivals, alias: str) -> bool:
    return time.monotonic() - arrivals.last[alias] > 3.0


@pytest.mark.timeout(900)
def test_pause_and_resume_under_load_while_the_other_source_flows(world: World) -> None:
    servers, topic = world.hub.bootstrap_servers, world.topic
    with load(list(world.clusters.values()), topic, 500, turn=50):
        with world.running("eu", "us"):
            wait_until_topic_has(servers, topic, MORE)
            with listening(servers, topic, 2) as arrivals:
                wait_for(lambda: len(arrivals.last) == 2, "both are heard")
                since = world.cli("pause", "us")["since"]
                assert world.cli("pause", "us")["since"] == since
                flows(arrivals, "eu")
                wait_for(lambda: rests(arrivals, "us"), "us rests")
                flows(arrivals, "eu")
                assert world.state("us") is SourceState.PAUSED
                assert world.state("eu") in (SourceState.RUNNING, SourceState.CATCHING_UP)
                paused = next(it for it in world.status().sources if it.alias == "us")
                assert json.loads(paused.model_dump_json())["since"][:19] == since[:19]
                states = {it.cluster: it.state for it in world.status().partitions}
                assert states == {"eu": PartitionState.RUNNING, "us": PartitionState.PAUSED}
                lag = world.cli("lag", "--no-bytes")
                assert {it["state"] for it in lag["rows"] if it["cluster"] == "us"} == {"PAUSED"}
                world.cli("resume", "us")
                world.app.until(lambda: not rests(arrivals, "us"), "us flows again")
                flows(arrivals, "eu")
            world.app.until(lambda: world.state("us") != SourceState.PAUSED, "us is not paused")
            assert "there is no source nix" in world.cli("pause", "nix", exit_code=EXIT_CONFIG)
            world.cli("pause", "us")
        # It stays so over a restart, and a stopped instance takes commands, too.
        assert world.cli("status")["paused"].keys() == {"us"}
        assert world.cli("pause", "eu")["paused"]
        assert world.cli("resume", "eu")["paused"] is False
        with world.running("eu", "us"):
            world.app.until(lambda: world.state("us") is SourceState.PAUSED, "the status shows it")
            assert world.lanes_of("us") == set()
            world.cli("resume", "us")
            world.app.until(lambda: world.lanes_of("us") == {"us"}, "us runs")
            wait_until_topic_has(servers, topic, wait_until_topic_has(servers, topic, 1) + MORE)
    with world.running("eu", "us"):
        world.app.until(world.has_caught_up, "it has caught up")
    world.assert_copied(at_least=2 * MORE)


@pytest.mark.timeout(900)
def test_a_source_is_added_and_removed_by_reload_and_a_bad_config_changes_nothing(
    world: World,
) -> None:
    servers, topic = world.hub.bootstrap_servers, world.topic
    with load(list(world.clusters.values()), topic, 500, turn=50), world.running("eu") as running:
        wait_until_topic_has(servers, topic, MORE)
        with listening(servers, topic, 2) as arrivals:
            wait_for(lambda: "eu" in arrivals.last, "eu is heard")
            world.file.write_text(to_yaml(world.config("eu", "us")))
            assert world.cli("reload")["added"] == ["us"]
            world.app.until(lambda: "us" in arrivals.last, "us flows")
            flows(arrivals, "eu")
            assert world.lanes_of("us") == {"us"}
            # Bad in two ways; and then with what waits for a restart, which holds up nothing else.
            world.file.write_text(
                to_yaml(world.config("eu")).replace("lanes: auto", "lanes: none") + "\nnix: 1\n"
            )
            refused = world.cli("reload", exit_code=EXIT_CONFIG)
            assert "nix" in refused
            assert "stream.lanes" in refused
            assert world.lanes_of("us") == {"us"}
            world.file.write_text(to_yaml(world.config("eu", spark={"master": "local[4]"})))
            done = world.cli("reload")
            assert (done["removed"], done["keys"]) == (["us"], ["sources.us"])
            assert "spark.master waits for a restart" in done["notes"]
            assert world.status().waits_for_restart == ("spark.master",)
            world.file.write_text(to_yaml(world.config("eu")))
            assert world.cli("reload")["notes"] == []
            assert world.status().waits_for_restart == ()
            other = world.config("eu", name="other")
            world.file.write_text(to_yaml(other))
            refused = world.cli("reload", exit_code=EXIT_CONFIG)
            assert "name: is that of another aggregation" in refused
            assert world.state("us") is None
            wait_for(lambda: rests(arrivals, "us"), "us rests")
            flows(arrivals, "eu")
            # By a signal as well; its positions were kept.
            world.file.write_text(to_yaml(world.config("eu", "us")))
            running.hang_up()
            world.app.until(lambda: not rests(arrivals, "us"), "us is back")
            assert running.has_logged("reloaded")
    with world.running("eu", "us"):
        world.app.until(world.has_caught_up, "it has caught up")
    world.assert_copied(at_least=2 * MORE)


@pytest.mark.timeout(900)
def test_in_a_shared_lane_the_other_continues_and_positions_of_the_paused_one_can_be_set(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    world = World({"eu": source_a, "us": source_b}, hub, tmp_path, unique)
    servers, topic = hub.bootstrap_servers, world.topic
    with load(list(world.clusters.values()), topic, 500, turn=50), world.running("eu", "us"):
        wait_until_topic_has(servers, topic, MORE)
        assert world.lanes_of("eu") == world.lanes_of("us") == {"union"}
        back = ("positions", "rewind", "--source", "us", "--to", "earliest")
        # Whether anything is committed by now or not: by the checkpoint it may stay where it is.
        refused = world.cli(*back, "--yes", exit_code=EXIT_CONFIG)
        assert "source us is not paused: aggregator pause us" in refused
        # Else there is nothing to go back from.
        world.app.until(lambda: 0 not in world.positions_of("us"), "some is copied")
        world.cli("pause", "us")
        assert world.lanes_of("us") == set()
        world.app.until(lambda: world.lanes_of("eu") == {"union"}, "eu runs")
        shown = world.cli(*back)
        assert (shown["dry_run"], shown["running"], shown["commit"]) == (True, True, None)
        done = world.cli(*back, "--yes")
        assert done["commit"] is not None
        assert {it["kind"] for it in done["moves"]} == {"REPLAY"}
        world.app.until(lambda: world.positions_of("us") == {0}, "the status shows it")
        world.cli("resume", "us")
        world.app.until(lambda: world.lanes_of("us") != set(), "us runs")
        assert world.app.has_logged("recovered")
        # The first may be that of a hub that other tests have quarantined records in.
        *_, recovered = [it for it in world.app.events() if it["event"] == "recovered"]
        assert (recovered["found"] > 0, recovered["holed"]) == (True, 0)
    with world.running("eu", "us"):
        world.app.until(world.has_caught_up, "it has caught up")
        assert "another aggregator" not in world.cli("status")["reason"]
    world.assert_copied(at_least=MORE)


def test_positions_are_refused_while_an_instance_runs_that_cannot_be_asked(world: World) -> None:
    with world.running("eu", api={"listen": "off"}):
        for args in (("positions", "rewind", "--by", "1h"), ("pause", "eu")):
            assert "another aggregator" in world.cli(*args, exit_code=EXIT_DATA)
