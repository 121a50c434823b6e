"""`python -m bench.checkpoint`: what a commit and a start cost, after many commits.

No broker and no Spark: real Delta tables on the local disk, with the maintenance that a run does.
Commits follow each other without a pause, some dozens in a second. A run of ten lanes that commits
every ten seconds makes one. So what a table keeps for an hour is kept here for two minutes, in
which as much comes together.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable

from aggregator.checkpoint.delta import table_uri
from aggregator.checkpoint.maintenance import maintain
from aggregator.checkpoint.rows import Checkpoint
from aggregator.checkpoint.table import CheckpointTable
from aggregator.model import Positions, SourcePartition, TopicPartition

HISTORY_SECONDS = 7 * 86_400.0
HUB_PARTITIONS = 12
KEPT = "interval 2 minutes"


@dataclass(frozen=True, slots=True)
class Span:
    """Commits up to `commits`: milliseconds of one (median, slowest), and of a start after them.

    `cpu_ms` is what the processor had to do for one, whatever else the machine was doing.
    """

    commits: int
    median_ms: float
    cpu_ms: float
    slowest_ms: float
    maintenance_ms: float
    start_ms: float
    start_cpu_ms: float


def measure(path: str, partitions: int, commits: int, every: int) -> Iterator[Span]:
    """Commit positions of so many partitions, and tell after each `every` commits."""
    CheckpointTable.create(path).claim_epoch("bench, which makes the table")
    kept = {"delta.logRetentionDuration": KEPT, "delta.deletedFileRetentionDuration": KEPT}
    DeltaTable(table_uri(path)).alter.set_table_properties(kept)
    table = CheckpointTable.open(path)
    assert table is not None
    table.claim_epoch("bench")
    parts = [SourcePartition("eu", "orders", number) for number in range(partitions)]
    took: list[float] = []
    used: list[float] = []
    maintained: list[float] = []
    for number in range(1, commits + 1):
        checkpoint = Checkpoint(
            "eu",
            1,
            number,
            Positions(dict.fromkeys(parts, number * 10)),
            {TopicPartition("orders", at): number * 7 for at in range(HUB_PARTITIONS)},
            number,
        )
        began, cpu = time.perf_counter(), time.process_time()
        table.append(checkpoint)
        took.append(time.perf_counter() - began)
        used.append(time.process_time() - cpu)
        if table.maintenance_due:
            began = time.perf_counter()
            maintain(table, HISTORY_SECONDS, time.time_ns() // 1_000_000, keep_hours=0)
            maintained.append(time.perf_counter() - began)
        if number % every == 0:
            yield _span(path, number, took, used, maintained)
            took, used, maintained = [], [], []


def _span(
    path: str,
    commits: int,
    took: Sequence[float],
    used: Sequence[float],
    kept: Sequence[float],
) -> Span:
    began, cpu = time.perf_counter(), time.process_time()
    reader = CheckpointTable.open(path)
    assert reader is not None
    state = reader.load()
    start, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert state.positions
    ms = 1000
    return Span(
        commits,
        statistics.median(took) * ms,
        statistics.median(used) * ms,
        max(took) * ms,
        (statistics.median(kept) if kept else 0.0) * ms,
        start * ms,
        cpu * ms,
    )


def to_markdown(found: Sequence[tuple[int, Sequence[Span]]]) -> str:
    """The result page: per number of partitions a table of spans."""
    lines = [
        "# What a commit and a start cost, after many commits",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, `python -m bench.checkpoint`, a local disk, every commit",
        "forced to it. Milliseconds. A start opens the table and reads the newest state. Commits",
        "follow each other without a pause; what a table keeps for an hour is kept for two",
        "minutes, in which as many come together as in an hour of a run with ten lanes.",
    ]
    for partitions, spans in found:
        lines += [
            "",
            f"## {partitions} source partitions in each commit",
            "",
            "| commits in the table | a commit, median | its CPU time | slowest "
            "| maintenance, median | a start | its CPU time |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {s.commits:,} | {s.median_ms:.1f} | {s.cpu_ms:.1f} | {s.slowest_ms:.0f} "
            f"| {s.maintenance_ms:.0f} | {s.start_ms:.0f} | {s.start_cpu_ms:.0f} |"
            for s in spans
        ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.checkpoint", description=__doc__)
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, nargs="+", default=[12])
    parser.add_argument("--every", type=int, default=10_000, help="commits per line of the table")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder")
    given = parser.parse_args()
    found: list[tuple[int, list[Span]]] = []
    page = given.out / f"{datetime.now(UTC):%Y-%m-%d}-checkpoint-cost.md"
    for partitions in given.partitions:
        spans: list[Span] = []
        found.append((partitions, spans))
        with tempfile.TemporaryDirectory() as folder:
            for span in measure(folder, partitions, given.commits, given.every):
                spans.append(span)
                print(span, file=sys.stderr, flush=True)
                page.write_text(to_markdown(found), "utf-8")
    print(f"written: {page}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
