"""`aggregator failover` and `failback`: what they print, and how they end. What they do has real
clusters (tests/integration/test_walks_of_moves.py)."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from aggregator.cli.failover import report_of_failover
from aggregator.cli.main import app
from aggregator.cli.render import to_text
from aggregator.features.failover.failover_report import (
    BehindRow,
    FailoverReport,
    HubGroup,
    StepRow,
    StepState,
)
from aggregator.model.errors import EXIT_CLUSTER, EXIT_CONFIG

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=t",
    "supervision.connect_timeout=0.2s",
)


def invoke(folder: Path, *words: str) -> tuple[int, str]:
    sets = [*SETS, f"checkpoint.path={folder}"]
    options = [word for value in sets for word in ("--set", value)]
    done = CliRunner().invoke(app, [*words, *options])
    return done.exit_code, done.output


def test_what_a_dead_source_still_has_and_what_to_start_where_is_shown() -> None:
    report = FailoverReport(
        name="central",
        source="eu",
        dry_run=False,
        alive=False,
        reason="eu: unreachable",
        bootstrap_servers="hub:9092",
        behind=(BehindRow(topic="orders", partition=2, position=5, log_end=9, behind=4),),
        hub_groups=(HubGroup(group="billing", state="EMPTY", partitions=3, synced=True),),
        topics=("eu.orders",),
        steps=(StepRow(step="pause eu", state=StepState.DONE, detail="said"),),
        notes=("lost",),
    )
    text = to_text(report_of_failover(report), tty=False)
    for words in ("Not at the hub of eu", "billing", "pause eu", "note: lost"):
        assert words in text
    assert "bootstrap.servers=hub:9092, topics eu.orders." in text
    tried = to_text(report_of_failover(report.model_copy(update={"dry_run": True})), tty=False)
    assert "bootstrap.servers" not in tried
    refused = report.model_copy(update={"failed": {"audit": "eu: no right"}})
    assert "group audit is not taken over: eu: no right" in to_text(
        report_of_failover(refused), tty=False
    )
    unlisted = report.model_copy(update={"unlisted": "1 of 50 partitions have no leader"})
    assert "eu may have groups that are left out: 1 of 50 partitions have no leader." in to_text(
        report_of_failover(unlisted), tty=False
    )
    assert (report.done, refused.done, unlisted.done) == (True, False, False)


@pytest.mark.parametrize("command", ["failover", "failback"])
def test_a_source_that_is_not_there_is_refused_and_a_hub_that_is_silent_named(
    command: str, tmp_path: Path
) -> None:
    code, text = invoke(tmp_path, command, "us")
    assert code == EXIT_CONFIG
    assert "there is no source us" in text
    if command == "failover":
        code, text = invoke(tmp_path, command, "eu")
        assert code == EXIT_CLUSTER
        assert "127.0.0.1:9" in text


def test_groups_that_come_along_are_patterns(tmp_path: Path) -> None:
    code, text = invoke(tmp_path, "failover", "eu", "--exclude", "a.*,*")
    assert code == EXIT_CONFIG
    assert "--exclude: '*' is not a regex" in text


def test_there_is_no_way_back_for_a_source_that_the_file_does_not_have(tmp_path: Path) -> None:
    """What was added while it ran has no references to secrets that could be taken over."""
    code, text = invoke(tmp_path, "failback", "eu")
    assert code == EXIT_CONFIG
    assert "write it into the config file first" in text
