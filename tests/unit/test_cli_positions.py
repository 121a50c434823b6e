"""Positions, their history and the lag of a stopped instance, from a real checkpoint table."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.cli.options import moment_ms
from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.model.values import Positions, SourcePartition, TopicPartition
from aggregator.status.from_checkpoint import STOPPED, checkpoint_view, stopped_lag
from aggregator.status.rates import UNKNOWN
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.rows import Checkpoint

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
    "api.listen=off",
)
START_MS = int(datetime(2026, 1, 31, 12, 0, tzinfo=UTC).timestamp() * 1000)


class Clock:
    """A clock for the table, which moves only when a test sets it."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


def sp(partition: int, cluster: str = "eu") -> SourcePartition:
    return SourcePartition(cluster, "orders", partition)


def checkpoint(
    at_ms: int, positions: Mapping[SourcePartition, int], clean: bool = False
) -> Checkpoint:
    return Checkpoint(
        lane="eu",
        generation=1,
        batch=3,
        positions=Positions(positions),
        hub_ends={TopicPartition("orders", 0): 5},
        snapshot_at_ms=at_ms,
        log_ends=dict.fromkeys(positions, 1000),
        clean=clean,
    )


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return load_text("", [*SETS, f"checkpoint.path={tmp_path / 'state'}"])


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(config: Config, clock: Clock) -> CheckpointTable:
    """Commits: 1 the epoch, 2 at 12:00, 3 ten seconds later, 4 (clean) twenty seconds later."""
    made = CheckpointTable.create(config.checkpoint.path)
    made._clock_ms = clock
    made.claim_epoch("host h, pid 1")
    made.append(checkpoint(clock.now_ms, {sp(0): 100, sp(1): 10, sp(0, "gone"): 1}))
    clock.now_ms += 10_000
    made.append(checkpoint(clock.now_ms, {sp(0): 300, sp(1): 10}))
    clock.now_ms += 10_000
    made.append(checkpoint(clock.now_ms, {sp(0): 500, sp(1): 10}, clean=True))
    return made


def run(config: Config, *args: str) -> str:
    sets = [*SETS, f"checkpoint.path={config.checkpoint.path}"]
    flags = [part for item in sets for part in ("--set", item)]
    result = CliRunner().invoke(app, [*args, *flags])
    assert result.exit_code == 0, result.output
    return result.stdout


def positions_of(config: Config, *args: str) -> dict[str, int]:
    data = json.loads(run(config, "positions", "show", "-o", "json", *args))
    return {f"{it['cluster']}-{it['partition']}": it["position"] for it in data["positions"]}


@pytest.mark.usefixtures("table")
def test_positions_now_and_then(config: Config) -> None:
    assert positions_of(config) == {"eu-0": 500, "eu-1": 10, "gone-0": 1}
    assert positions_of(config, "--version", "2") == {"eu-0": 100, "eu-1": 10, "gone-0": 1}
    assert positions_of(config, "--at", "2026-01-31T12:00:15Z")["eu-0"] == 300
    assert positions_of(config, "--at", "2026-01-31T13:00:15+01:00")["eu-0"] == 300
    assert positions_of(config, "--source", "gone") == {"gone-0": 1}
    assert positions_of(config, "--topic", "nix") == {}


@pytest.mark.usefixtures("table")
def test_positions_as_a_table(config: Config) -> None:
    text = run(config, "positions", "show", "--source", "eu")
    assert "commit 4 of epoch 1, 2026-01-31 12:00:20 UTC" in text
    assert "500" in text
    assert "No such positions." in run(config, "positions", "show", "--source", "nix")


@pytest.mark.usefixtures("table")
def test_a_past_that_is_not_kept(config: Config) -> None:
    flags = [part for item in SETS for part in ("--set", item)]
    path = ["--set", f"checkpoint.path={config.checkpoint.path}"]
    args = ["positions", "show", "--at", "2020-01-01T00:00:00Z"]
    result = CliRunner().invoke(app, [*args, *flags, *path])
    assert result.exit_code == 1
    assert "nothing that old is kept" in result.stderr


@pytest.mark.parametrize(
    "args", [["--at", "yesterday"], ["--at", "2026-01-31T12:00:00"], ["--version", "0"]]
)
def test_a_time_that_is_none_is_a_usage_error(args: list[str]) -> None:
    assert CliRunner().invoke(app, ["positions", "show", *args]).exit_code == 2


def test_at_and_version_exclude_each_other() -> None:
    args = ["positions", "show", "--at", "2026-01-31T12:00:00Z", "--version", "1"]
    assert CliRunner().invoke(app, args).exit_code == 2


def test_a_time_is_one_with_a_utc_offset() -> None:
    assert moment_ms("--at", "2026-01-31T12:00:00Z") == START_MS
    with pytest.raises(typer.BadParameter, match="UTC offset"):
        moment_ms("--at", "2026-01-31T12:00:00")


@pytest.mark.usefixtures("table")
def test_history_of_commits(config: Config) -> None:
    data = json.loads(run(config, "positions", "history", "-o", "json"))
    assert [it["seq"] for it in data] == [4, 3, 2, 1]
    assert [it["kind"] for it in data] == ["checkpoint"] * 3 + ["epoch"]
    assert data[0]["clean"] is True
    assert len(json.loads(run(config, "positions", "history", "-o", "json", "--limit", "2"))) == 2
    assert "host h, pid 1" in run(config, "positions", "history")


@pytest.mark.usefixtures("table")
def test_history_of_one_partition(config: Config) -> None:
    args = ("positions", "history", "--source", "eu", "--topic", "orders", "--partition", "0")
    data = json.loads(run(config, *args, "-o", "json"))
    assert [(it["seq"], it["position"]) for it in data] == [(4, 500), (3, 300), (2, 100)]
    assert [it["seq"] for it in json.loads(run(config, *args, "-o", "json", "--limit", "1"))] == [4]
    assert "300" in run(config, *args)


def test_without_a_checkpoint(config: Config) -> None:
    for command in ("show", "history"):
        assert "There is no checkpoint" in run(config, "positions", command)
    assert "No such positions." in run(config, "positions", "history", "--source", "eu")
    assert not Path(config.checkpoint.path).exists()


@pytest.mark.usefixtures("table")
def test_status_of_a_stopped_instance(config: Config) -> None:
    text = run(config, "status")
    assert "central: not running" in text
    assert "Last commit 4 of epoch 1, 2026-01-31 12:00:20 UTC, not clean" in text


def test_a_clean_end_is_called_clean(config: Config) -> None:
    made = CheckpointTable.create(config.checkpoint.path)
    made.claim_epoch("me")
    made.append(checkpoint(START_MS, {sp(0): 1}, clean=True))
    assert checkpoint_view(config).clean
    assert ", clean" in run(config, "status")


@pytest.mark.usefixtures("table")
def test_lag_of_a_stopped_instance(config: Config) -> None:
    report = stopped_lag(config)
    assert not report.running
    assert [(str(it.source_partition), it.position, it.state) for it in report.rows] == [
        ("eu/orders-0", 500, STOPPED),
        ("eu/orders-1", 10, STOPPED),
    ]
    assert [it.consumed_per_second for it in report.rows] == [20.0, 0.0]
    assert [it.produced_per_second for it in report.rows] == [0.0, 0.0]
    assert any("no such source: gone" in note for note in report.notes)


@pytest.mark.parametrize(("interval", "rate"), [("60s", 10.0), ("30s", None)])
def test_rates_look_back_three_intervals(
    tmp_path: Path, clock: Clock, interval: str, rate: float | None
) -> None:
    path = f"checkpoint.path={tmp_path / 'state'}"
    config = load_text("", [*SETS, path, f"stream.checkpoint_interval={interval}"])
    made = CheckpointTable.create(config.checkpoint.path)
    made._clock_ms = clock
    made.claim_epoch("me")
    made.append(checkpoint(clock.now_ms, {sp(0): 100}))
    clock.now_ms += 110_000
    made.append(checkpoint(clock.now_ms, {sp(0): 1200}))
    assert [it.consumed_per_second for it in stopped_lag(config).rows] == [rate]


def test_an_unclean_checkpoint_of_now_is_a_running_instance_without_api(config: Config) -> None:
    made = CheckpointTable.create(config.checkpoint.path)
    made.claim_epoch("me")
    made.append(checkpoint(START_MS, {sp(0): 1}))
    report = stopped_lag(config)
    assert report.running
    assert report.rows[0].state != STOPPED
    assert report.totals[0].eta == UNKNOWN


@pytest.mark.parametrize(("seconds", "running"), [(70, True), (100, False)])
def test_an_instance_that_has_nothing_to_copy_commits_once_a_minute(
    config: Config, seconds: int, running: bool
) -> None:
    made = CheckpointTable.create(config.checkpoint.path)
    at_ms = time.time_ns() // 1_000_000 - 1000 * seconds
    made._clock_ms = lambda: at_ms
    made.claim_epoch("me")
    made.append(checkpoint(at_ms, {sp(0): 1}))
    assert stopped_lag(config).running is running


def test_lag_without_a_checkpoint(config: Config) -> None:
    report = stopped_lag(config)
    assert report.rows == ()
    assert "nothing was copied" in report.notes[0]
    assert "nothing was copied" in run(config, "lag")
