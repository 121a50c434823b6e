"""`python -m bench.checkpoint`: what a commit and a start cost, after many commits.

No broker and no Spark: real Delta tables on the local disk, with the maintenance that a run does.
Commits follow each other without a pause, some dozens in a second. A run of ten lanes that commits
every ten seconds makes one. So what a table keeps for an hour is kept here for two minutes, in
which as much comes together.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deltalake import DeltaTable

from aggregator.model.values import Positions, SourcePartition, TopicPartition
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.maintenance import maintain
from aggregator.store.checkpoint.rows import Checkpoint
from aggregator.store.delta import table_uri

HISTORY_SECONDS = 7 * 86_400.0
HUB_PARTITIONS = 12
KEPT = "interval 2 minutes"
PAIRS = 500
STARTS = 3


@dataclass(frozen=True, slots=True)
class Span:
    """Commits up to `commits`: milliseconds of one (median, slowest), and of a start after them.

    `cpu_ms` is what the processor had to do for one, whatever else the machine was doing. How fast
    that is changes with the hour: so `paired_ms` are the CPU times of the last `PAIRS` commits and
    `young_ms` those of as many into a table that was made a moment before, in turns, and
    `start_cpu_ms` has `young_start_ms` beside it.
    """

    commits: int
    median_ms: float
    cpu_ms: float
    slowest_ms: float
    maintenance_ms: float
    paired_ms: float
    young_ms: float
    start_ms: float
    start_cpu_ms: float
    young_start_ms: float


class Table:
    """A checkpoint table with positions of some partitions, and what its commits took."""

    def __init__(self, path: str, partitions: int) -> None:
        self.path = path
        CheckpointTable.create(path).claim_epoch("bench, which makes the table")
        kept = {"delta.logRetentionDuration": KEPT, "delta.deletedFileRetentionDuration": KEPT}
        DeltaTable(table_uri(path)).alter.set_table_properties(kept)
        table = CheckpointTable.open(path)
        assert table is not None
        table.claim_epoch("bench")
        self._table = table
        self._parts = [SourcePartition("eu", "orders", number) for number in range(partitions)]
        self._number = 0
        self.took: list[float] = []
        self.used: list[float] = []
        self.maintained: list[float] = []

    def commit(self) -> None:
        """Commit once, with the maintenance that is due."""
        self._number += 1
        number = self._number
        checkpoint = Checkpoint(
            "eu",
            1,
            number,
            Positions(dict.fromkeys(self._parts, number * 10)),
            {TopicPartition("orders", at): number * 7 for at in range(HUB_PARTITIONS)},
            number,
        )
        began, cpu = time.perf_counter(), time.process_time()
        self._table.append(checkpoint)
        self.took.append(time.perf_counter() - began)
        self.used.append(time.process_time() - cpu)
        if self._table.maintenance_due:
            began = time.perf_counter()
            maintain(self._table, HISTORY_SECONDS, time.time_ns() // 1_000_000, keep_hours=0)
            self.maintained.append(time.perf_counter() - began)

    def start(self) -> tuple[float, float]:
        """Open it again and read the newest state: seconds, and seconds of CPU."""
        began, cpu = time.perf_counter(), time.process_time()
        reader = CheckpointTable.open(self.path)
        assert reader is not None
        assert reader.load().positions
        return time.perf_counter() - began, time.process_time() - cpu

    def forget(self) -> None:
        """Begin to count again."""
        self.took, self.used, self.maintained = [], [], []


def measure(folder: Path, partitions: int, commits: int, every: int) -> Iterator[Span]:
    """Commit positions of the partitions, and report after each `every` commits."""
    old = Table(str(folder / "old"), partitions)
    pairs = min(PAIRS, every)
    for done in range(every, commits + 1, every):
        for _ in range(every - pairs):
            old.commit()
        young = Table(str(folder / f"young-{done}"), partitions)
        for _ in range(pairs):
            old.commit()
            young.commit()
        yield _span(done, pairs, old, young)
        old.forget()
        shutil.rmtree(young.path)


def _span(commits: int, pairs: int, old: Table, young: Table) -> Span:
    # The least of a few: the first look at a table is a cold one.
    start, cpu = (min(each) for each in zip(*(old.start() for _ in range(STARTS)), strict=True))
    _, young_cpu = (min(each) for each in zip(*(young.start() for _ in range(STARTS)), strict=True))
    ms = 1000
    return Span(
        commits,
        statistics.median(old.took) * ms,
        statistics.median(old.used) * ms,
        max(old.took) * ms,
        (statistics.median(old.maintained) if old.maintained else 0.0) * ms,
        statistics.median(old.used[-pairs:]) * ms,
        statistics.median(young.used) * ms,
        start * ms,
        cpu * ms,
        young_cpu * ms,
    )


def to_markdown(found: Sequence[tuple[int, Sequence[Span]]]) -> str:
    """The result page: per number of partitions a table of spans."""
    lines = [
        "# What a commit and a start cost, after many commits",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, `python -m bench.checkpoint`, a local disk, every commit",
        "forced to it. Milliseconds. A start opens the table and reads the newest state. Commits",
        "follow each other without a pause; what a table keeps for an hour is kept for two",
        "minutes, in which as many come together as in an hour of a run with ten lanes. The speed",
        "of the machine changes with the hour, so the last commits of each line were done in turns",
        "with as many into a new table: their ratio says what the age of the table costs.",
    ]
    for partitions, spans in found:
        lines += [
            "",
            f"## {partitions} source partitions in each commit",
            "",
            "| commits in the table | a commit, median | its CPU time | slowest "
            "| maintenance, median | CPU of a commit beside one into a new table, median "
            "| ratio | a start | its CPU time | of a new table |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {s.commits:,} | {s.median_ms:.1f} | {s.cpu_ms:.1f} | {s.slowest_ms:.0f} "
            f"| {s.maintenance_ms:.0f} | {s.paired_ms:.1f}, {s.young_ms:.1f} "
            f"| {s.paired_ms / s.young_ms:.2f} | {s.start_ms:.0f} | {s.start_cpu_ms:.0f} "
            f"| {s.young_start_ms:.0f} |"
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
            for span in measure(Path(folder), partitions, given.commits, given.every):
                spans.append(span)
                print(span, file=sys.stderr, flush=True)
                page.write_text(to_markdown(found), "utf-8")
    print(f"written: {page}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
