"""Tables beside a checkpoint that a later version has written: read, added to, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from typer.testing import CliRunner

from aggregator import __version__
from aggregator.cli.main import app
from aggregator.model.errors import EXIT_OTHER, CheckpointError
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.controls import Controls
from aggregator.store.delta import FORMAT, FORMAT_PROPERTY
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore
from support.recorded import recorded_state

TABLES = (
    "backfills",
    "checkpoints",
    "completeness",
    "connectors",
    "controls",
    "dedup",
    "events",
    "failovers",
    "gaps",
    "history",
    "moved_groups",
    "topics",
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return recorded_state(tmp_path)


def with_format(table: Path, number: str) -> None:
    """Note a format in a table, as the version that makes it would."""
    properties = {FORMAT_PROPERTY: number}
    DeltaTable(str(table)).alter.set_table_properties(properties, raise_if_not_exists=False)


def with_another_column(table: Path) -> None:
    DeltaTable(str(table)).alter.add_columns([Field("of_later", PrimitiveType("string"))])


def test_columns_of_a_later_version_are_left_empty(state: Path) -> None:
    """So an update within the same format may be taken back."""
    before = CheckpointTable.open(str(state))
    assert before is not None
    known = before.load()
    for name in TABLES:
        with_another_column(state / name)
    table = CheckpointTable.open(str(state))
    assert table is not None
    assert table.load() == known
    epoch = table.claim_epoch("an older version")
    assert epoch == known.epoch + 1
    again = CheckpointTable.open(str(state))
    assert again is not None
    assert again.load().positions == known.positions
    rows = DeltaTable(str(state / "checkpoints")).to_pyarrow_table()
    assert set(rows["of_later"].to_pylist()) == {None}
    store = StateStore(str(state))
    gaps = GapTable(store).load()
    Controls(store).put("us", paused=True, by="hand")
    assert "us" in Controls(store).read().sources
    GapTable(store).append([replace(it, note="seen") for it in gaps.values()])
    assert {it.note for it in GapTable(store).load().values()} == {"seen"}


@pytest.mark.parametrize("number", [str(FORMAT + 1), "3-beta"])
def test_a_format_of_a_later_version_is_refused_with_what_to_do(state: Path, number: str) -> None:
    with_format(state / "checkpoints", number)
    words = (
        f"checkpoint.path {state}: the checkpoint table has format {number}, and this is version "
        f"{__version__}, which reads formats up to {FORMAT}: a newer version has written it, so "
        "use that one or a later one"
    )
    for open_or_create in (CheckpointTable.open, CheckpointTable.create):
        with pytest.raises(CheckpointError) as refused:
            open_or_create(str(state))
        assert str(refused.value) == words
    config = state.parent / "aggregator.yaml"
    config.write_text(
        "hub: {bootstrap_servers: 127.0.0.1:9}\n"
        "sources: {eu: {bootstrap_servers: 127.0.0.1:10, topics: {include: orders}}}\n"
        f"checkpoint: {{path: {state}}}\n"
    )
    for command in (["status"], ["lag"], ["positions", "show"]):
        result = CliRunner().invoke(app, [*command, "-c", str(config)])
        assert result.exit_code == EXIT_OTHER, (command, result.output)
        assert words in " ".join(result.stderr.split()), command


def test_other_tables_have_a_format_of_their_own(state: Path) -> None:
    with_format(state / "gaps", str(FORMAT))
    assert GapTable(StateStore(str(state))).load()
    with_format(state / "gaps", str(FORMAT + 1))
    with pytest.raises(CheckpointError, match="the table of gaps has format 2"):
        GapTable(StateStore(str(state))).load()
    assert CheckpointTable.open(str(state)) is not None


def test_one_that_waits_notices_a_format_that_came_meanwhile(state: Path) -> None:
    """Its place was taken by a newer version, which has ended by now."""
    waiting = CheckpointTable.open(str(state))
    assert waiting is not None
    waiting.load()
    with_format(state / "checkpoints", str(FORMAT + 1))
    with pytest.raises(CheckpointError, match="has format 2"):
        waiting.claim_epoch("an older version")
