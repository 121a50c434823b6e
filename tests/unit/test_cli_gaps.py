"""`aggregator gaps`, over a real table."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.model.values import SourcePartition
from aggregator.plan.positions.gaps import Decision, GapRecord, gap_id
from aggregator.plan.positions.start import Gap, GapKind
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def record(alias: str, topic: str, hour: int, resolved: bool = False) -> GapRecord:
    sp = SourcePartition(alias, topic, 0)
    gap = Gap(sp, GapKind.BELOW_EARLIEST, 20, 30, "20 to 29 were deleted", 20, 10)
    found = GapRecord(gap_id(gap), gap, NOW + timedelta(hours=hour), 1)
    if not resolved:
        return found
    return replace(
        found, decision=Decision.SKIP, decided_at=NOW, resolved=True, resumes_at=30, note="done"
    )


RECORDS = [
    record("eu", "orders", 1),
    record("eu", "payments", 2, resolved=True),
    record("us", "orders", 3),
]
EU, PAID, US = (item.id for item in RECORDS)


@pytest.fixture
def table(tmp_path: Path) -> GapTable:
    table = GapTable(StateStore(str(tmp_path / "state")))
    table.append(RECORDS)
    return table


def call(path: str, *words: str, code: int = 0) -> str:
    sets = (
        "hub.bootstrap_servers=127.0.0.1:9",
        *(f"sources.{alias}.bootstrap_servers=127.0.0.1:10" for alias in ("eu", "us")),
        *(f"sources.{alias}.topics.include=.*" for alias in ("eu", "us")),
        f"checkpoint.path={path}",
    )
    options = [word for value in sets for word in ("--set", value)]
    done = CliRunner().invoke(app, ["gaps", *words, *options], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output if code else done.stdout


def listed(path: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(path, *words, "-o", "json"))
    return found


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ((), [US, EU, PAID]),
        (("--open",), [US, EU]),
        (("--source", "eu"), [EU, PAID]),
        (("--topic", "orders", "--limit", "1"), [US]),
        (("--topic", "nobody's"), []),
    ],
)
def test_open_gaps_come_first_and_filters_choose(
    table: GapTable, words: tuple[str, ...], ids: list[str]
) -> None:
    assert [gap["id"] for gap in listed(table.store.path, *words)["gaps"]] == ids


def test_a_gap_is_shown_with_all_that_is_known_of_it(table: GapTable) -> None:
    found = listed(table.store.path)
    assert (found["total"], found["open"]) == (3, 2)
    gap = found["gaps"][1]
    shown = ("cluster", "topic", "partition", "cause", "from_offset", "to_offset", "lost")
    assert [gap[name] for name in shown] == ["eu", "orders", 0, "BELOW_EARLIEST", 20, 30, 10]
    assert (gap["decision"], gap["resolved"], gap["resumes_at"]) == ("stop", False, None)
    text = call(table.store.path)
    assert "3 gaps, 2 of them open" in text
    assert "20 to 29 were deleted" in text and EU in text


def test_without_a_table_there_is_nothing_to_show(tmp_path: Path) -> None:
    assert "No gap was ever found" in call(str(tmp_path / "none"))
    assert listed(str(tmp_path / "none")) == {"total": 0, "open": 0, "gaps": []}
    assert not (tmp_path / "none").exists()


def test_accepted_gaps_are_open_until_an_instance_continues(table: GapTable) -> None:
    assert "1 gap accepted" in call(table.store.path, "accept", EU)
    accepted = table.load()[EU]
    assert (accepted.decision, accepted.resolved) == (Decision.ACCEPT, False)
    assert accepted.decided_at is not None
    assert table.load()[US] == RECORDS[2]
    assert "1 gap accepted" in call(table.store.path, "accept", "--source", "us")
    assert table.load()[US].decision is Decision.ACCEPT
    assert table.load()[PAID] == RECORDS[1]
    assert "No such gap is open" in call(table.store.path, "accept", "--topic", "payments")


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "name gaps"), ((PAID,), "no open gap"), ((EU, "abc"), "no open gap abc")],
)
def test_only_open_gaps_that_are_named_can_be_accepted(
    table: GapTable, words: tuple[str, ...], said: str
) -> None:
    # The message is wrapped and boxed for the terminal.
    text = " ".join(call(table.store.path, "accept", *words, code=2).replace("│", " ").split())
    assert said in text
    assert list(table.load().values()) == RECORDS
