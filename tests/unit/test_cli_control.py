"""Commands to an instance, and positions set by hand, as far as no cluster is needed."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.control import report_of_reload
from aggregator.cli.main import app
from aggregator.cli.render import to_text
from aggregator.cli.set_positions import report_of_moves
from aggregator.features.positions.change_report import MovesReport, row_of
from aggregator.features.positions.targets import MoveKind, PositionMove
from aggregator.model.errors import EXIT_CLUSTER, EXIT_CONFIG, EXIT_DATA
from aggregator.model.values import OffsetRange, Positions, SourcePartition
from aggregator.status.command_answers import ReloadReport
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.rows import Checkpoint
from aggregator.store.lease import lock
from aggregator.store.lease.lock import WriterLock
from aggregator.store.lease.owner import Owner

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
    "supervision.connect_timeout=1s",
    "api.listen=off",
)
SP = SourcePartition("eu", "orders", 0)


class Shell:
    def __init__(self, state: Path) -> None:
        self.state = state

    def __call__(self, *args: str, code: int = 0) -> str:
        sets = [*SETS, f"checkpoint.path={self.state}"]
        flags = [part for item in sets for part in ("--set", item)]
        result = CliRunner().invoke(app, [*args, *flags], env={"COLUMNS": "300"})
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "state")


def test_without_an_instance_a_pause_is_for_the_next_one(shell: Shell) -> None:
    table = CheckpointTable.create(str(shell.state))
    table.claim_epoch("me")
    table.append(Checkpoint("eu", 1, 1, Positions({SP: 7}), {}, 1_000, clean=True))
    assert shell("pause", "eu").startswith("Source eu is paused since 20")
    first = json.loads(shell("pause", "eu", "-o", "json"))
    assert (first["source"], first["paused"], first["by"]) == ("eu", True, "command line")
    assert "UTC by command line.\n" in shell("pause", "eu")
    assert re.search("Paused: eu since 20.* UTC by command line\n", shell("status"))
    assert json.loads(shell("status", "-o", "json"))["paused_by"] == {"eu": "command line"}
    assert "source eu is paused: aggregator resume eu" in shell("lag", "--no-bytes")
    assert shell("resume", "eu") == "Source eu is not paused.\n"
    assert "Paused" not in shell("status")


def test_without_an_instance_a_topic_or_a_partition_is_paused_for_the_next_one(
    shell: Shell,
) -> None:
    table = CheckpointTable.create(str(shell.state))
    table.claim_epoch("me")
    table.append(Checkpoint("eu", 1, 1, Positions({SP: 7}), {}, 1_000, clean=True))
    shown = shell("pause", "eu", "--topic", "orders", "--partition", "3")
    assert shown.startswith("Partition 3 of eu/orders is paused since 20")
    assert shell("sources", "pause", "eu", "--topic", "orders").startswith(
        "Topic orders of eu is paused since 20"
    )
    assert "Paused: eu/orders-3 since 20" in shell("status")
    assert "UTC by command line" in shell("status")
    assert "eu/orders is paused" in shell("lag", "--no-bytes")
    shown = shell("resume", "eu")
    assert shown == ("Source eu is not paused.\nPaused by themselves: eu/orders, eu/orders-3.\n")
    shown = shell("resume", "eu", "--topic", "orders", "--partition", "3", code=EXIT_CONFIG)
    assert "eu/orders is paused as a whole: aggregator resume eu --topic orders" in shown
    assert shell("resume", "eu", "--topic", "orders") == "Topic orders of eu is not paused.\n"
    assert "Paused" not in shell("status")
    shown = shell("pause", "eu", "--partition", "3", code=EXIT_CONFIG)
    assert "--partition is of a topic" in shown


def test_without_an_instance_a_source_is_added_for_the_next_start(shell: Shell) -> None:
    shown = shell("sources", "add", "us", "--servers", "us:1", "--topics", "a", "tasks.max=2")
    assert "added: us" in shown and "nothing runs: it holds from the next start on" in shown
    listed = json.loads(shell("sources", "-o", "json"))
    assert sorted(listed["sources"]) == ["eu", "us"] and not listed["running"]
    (change,) = listed["changes"]
    assert (change["source"], change["by"], change["removed"]) == ("us", "command line", False)
    assert "us was put at 20" in shell("sources")
    assert json.loads(shell("sources", "list", "-o", "json")) == listed
    assert shell("sources", "pause", "us").startswith("Source us is paused since 20")
    assert "PAUSED" in shell("sources", "list")
    assert shell("sources", "resume", "us") == "Source us is not paused.\n"
    assert "PAUSED" not in shell("sources", "list")
    assert "tasks: 2" in shell("config")
    assert "removed: us" in shell("sources", "remove", "us")
    assert json.loads(shell("sources", "-o", "json"))["sources"] == ["eu"]


def test_what_was_changed_of_a_source_is_taken_back(shell: Shell) -> None:
    shown = shell("sources", "reset", "eu", code=EXIT_CONFIG)
    assert "source eu is as the config file has it" in shown
    shell("sources", "remove", "eu")
    assert "sources.eu" in shell("sources", "reset", "eu")
    shell("sources", "add", "us", "--servers", "us:1", "--topics", "a")
    assert "removed: us" in shell("sources", "reset", "us")
    listed = json.loads(shell("sources", "-o", "json"))
    assert (listed["sources"], listed["changes"]) == (["eu"], [])


def test_a_source_that_is_not_right_is_not_kept(shell: Shell) -> None:
    shown = shell("sources", "add", "us", "--servers", "us", "--topics", "a", code=EXIT_CONFIG)
    assert "sources.us.bootstrap_servers: 'us' is not host:port" in shown
    shown = shell("sources", "add", "us", "--topics", "a", "transforms=x", code=EXIT_CONFIG)
    assert "src.kafka.bootstrap.servers: the address of the source is not given" in shown
    assert "transforms: " in shown
    assert "'x' is not KEY=VALUE" in shell("sources", "add", "us", "x", code=EXIT_CONFIG)
    assert "there is no source nix" in shell("sources", "remove", "nix", code=EXIT_CONFIG)
    assert not shell.state.exists()


def test_an_unknown_source_is_a_usage_error(shell: Shell) -> None:
    assert "there is no source nix; sources are eu" in shell("pause", "nix", code=EXIT_CONFIG)
    assert not shell.state.exists()


def test_what_an_instance_writes_no_one_else_changes(shell: Shell) -> None:
    with WriterLock.acquire(str(shell.state)):
        for args in (
            ("pause", "eu"),
            ("resume", "eu"),
            ("sources", "remove", "eu"),
            ("sources", "reset", "eu"),
            ("sources", "add", "us", "--servers", "us:1", "--topics", "a"),
            ("positions", "set", "--to", "earliest"),
            ("positions", "rewind", "--by", "1h", "--yes"),
        ):
            assert "another aggregator runs on it" in shell(*args, code=EXIT_DATA)


@pytest.mark.parametrize(
    ("api", "way"),
    [
        ("off", "it has no API (api.listen: off), so stop it first"),
        (
            "10.0.0.5:8083",
            "its API listens on 10.0.0.5:8083 there: give the command on that machine",
        ),
        ("", "give the command where its API answers"),
    ],
)
def test_on_an_object_store_the_one_that_writes_is_named_and_nothing_is_noted(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, api: str, way: str
) -> None:
    monkeypatch.setattr(lock, "has_lock", lambda _: False)
    monkeypatch.setattr(lock, "WATCH_SECONDS", 0.02)
    there = Owner("there", 7, "then", 1, "another boot", "pid:[1]", lease=60.0, api=api)
    table = CheckpointTable.create(str(shell.state))
    table.claim_epoch(str(there), there.to_json())
    over = threading.Event()

    def renewing() -> None:
        while not over.wait(0.05):
            table.renew()

    commands = [
        ("pause", "eu"),
        ("pause", "eu", "--topic", "orders"),
        ("resume", "eu"),
        ("sources", "add", "us", "--servers", "us:1", "--topics", "a"),
        ("sources", "remove", "eu"),
        ("sources", "reset", "eu"),
        ("sources", "restart", "eu"),
        ("backfill", "cancel", "b1"),
        ("backfill", "--source", "eu", "--topic", "orders"),
        ("positions", "set", "--to", "earliest"),
        ("reload",),
    ]
    with ThreadPoolExecutor(1) as pool:
        renewals = pool.submit(renewing)
        for args in commands if api == "off" else commands[:1]:
            shown = shell(*args, code=EXIT_DATA)
            assert f"another aggregator runs on it ({there})" in shown and way in shown
            assert "host there, pid 7, since then left no end mark: waiting 60 s" in shown
        over.set()
        renewals.result()
    assert [it.name for it in shell.state.iterdir()] == ["checkpoints"]
    # One that is silent for its lease has ended, and one that said so needs no wait.
    table.record = replace(there, lease=0.2).to_json()
    table.renew()
    assert shell("pause", "eu").startswith("Source eu is paused since 20")
    table.release()
    assert shell("resume", "eu") == "Source eu is not paused.\n"


def test_there_has_to_be_an_instance_to_reload(shell: Shell) -> None:
    shown = shell("reload", code=1)
    assert "nothing to reload: api.listen is off, so no instance can be asked" in shown


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("set",), "say where to, with one of --to, --to-offset, --to-time, --to-version"),
        (("rewind",), "--by, --by-offsets"),
        (("set", "--to", "latest", "--to-offset", "4"), "say where to"),
        (("set", "--to", "middle"), "middle"),
        (("set", "--to-offset", "-1"), "greater than or equal to 0"),
        (("set", "--to-time", "yesterday"), "--to-time yesterday"),
        (("rewind", "--by", "long"), "'long' is not a duration"),
        (("set", "--by", "1h"), "No such option"),
    ],
)
def test_the_target_has_to_be_given_once(shell: Shell, args: tuple[str, ...], why: str) -> None:
    shown = " ".join(shell("positions", *args, code=EXIT_CONFIG).replace("│", " ").split())
    assert why in shown
    assert not shell.state.exists()


def test_a_source_that_does_not_answer_ends_it(shell: Shell) -> None:
    shown = shell("positions", "set", "--to", "latest", "--yes", code=EXIT_CLUSTER)
    assert "127.0.0.1:9" in shown
    assert not shell.state.exists()
    shown = shell("positions", "set", "--source", "nix", "--to", "latest", code=EXIT_CONFIG)
    assert "there is no source nix; sources are eu" in shown


def moves(**more: Any) -> MovesReport:
    found = (
        PositionMove(SP, 50, 20, MoveKind.REPLAY, clean=False),
        PositionMove(SP._replace(partition=1), 50, 70, MoveKind.SKIP, skipped=OffsetRange(50, 70)),
        PositionMove(SP._replace(partition=2), 5, 5, MoveKind.STAY),
    )
    rows = tuple(row_of(move) for move in found)
    return MovesReport(name="central", running=False, moves=rows, notes=("careful",), **more)


def test_what_is_shown_before_and_after() -> None:
    before = to_text(report_of_moves(moves(dry_run=True, tail=1234), more=True), tty=False)
    lines = [" ".join(line.split()) for line in before.splitlines()]
    assert lines[0] == "Positions, if you say --yes"
    assert "eu orders 0 50 20 -30 what the hub lacks from 20 on is written" in lines
    assert "eu orders 1 50 70 20 50 to 69 are SKIPPED, never copied" in lines
    assert "eu orders 2 5 5 0 stays" in lines
    assert lines[-3:] == [
        "note: careful",
        "note: 1,234 offsets of the hub are read before it continues",
        "Nothing was changed. The same with --yes does it.",
    ]
    after = to_text(report_of_moves(moves(dry_run=False, commit=9), more=False), tty=False)
    assert after.startswith("Positions that were set")
    assert after.endswith("Set in commit 9.\n")
    nothing = moves(dry_run=True).model_copy(update={"moves": ()})
    assert to_text(report_of_moves(nothing, more=True), tty=False).endswith("Nothing to change.\n")


def test_what_a_reload_reports() -> None:
    done = ReloadReport(
        name="central", keys=("sources.us",), added=("us",), notes=("weak password",)
    )
    assert to_text(report_of_reload(done), tty=False).splitlines() == [
        "Taken over: sources.us",
        "added: us",
        "warning: weak password",
    ]
    same = report_of_reload(ReloadReport(name="central"))
    assert to_text(same, tty=False) == "Nothing has changed.\n"
