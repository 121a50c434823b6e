"""What is recorded and reported of gaps, as tests look at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from deltalake import DeltaTable
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.status.schema import PartitionState, Status
from support.running import Run


class GapRow(NamedTuple):
    """What a row of the table of gaps says."""

    topic: str
    partition: int
    cause: str
    start: int
    end: int | None
    lost: int | None
    decision: str
    resolved: bool
    resumes_at: int | None


def rows(config: Config) -> list[GapRow]:
    """Every row of the table, sorted."""
    table = DeltaTable(f"{config.checkpoint.path}/gaps").to_pyarrow_table()
    return sorted(
        (
            GapRow(
                row["topic"],
                row["partition"],
                row["cause"],
                row["from_offset"],
                row["to_offset"],
                row["lost"],
                row["decision"],
                row["resolved"],
                row["resumes_at"],
            )
            for row in table.to_pylist()
        ),
        key=str,
    )


def cli(config: Config, folder: Path, *words: str) -> Any:
    """What `aggregator gaps ... -o json` prints."""
    file = folder / "gaps.yaml"
    file.write_text(to_yaml(config), "utf-8")
    done = CliRunner().invoke(
        app, ["gaps", *words, "-c", str(file), "-o", "json"], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def states(status: Status) -> dict[tuple[str, str, int], PartitionState]:
    """(alias, topic, partition) -> state, of those that are not RUNNING."""
    return {
        (part.cluster, part.topic, part.partition): part.state
        for part in status.partitions
        if part.state is not PartitionState.RUNNING
    }


def gap_events(running: Run, *words: str) -> list[str]:
    return [
        event.message
        for event in running.events
        if event.kind == "gap" and all(word in event.message for word in words)
    ]
