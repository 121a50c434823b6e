"""Reads a query's scratch folder: which batches have ended, and at which offsets.

A query writes there before it tells its progress, and telling takes a question to each source: one
that hangs keeps back the end of a batch that the hub holds in full. Checked against Spark 4.2.0
(MicroBatchExecution, OffsetSeqLog version 1: a version, metadata, then a line per source), where in
real-time mode the offsets of a batch are written at its end; held by tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

HEAD_LINES = 2
NOTHING = "-"


def has_ended(scratch: Path, batch: int) -> bool:
    """Whether all that a batch wrote is acknowledged, and its end offsets are known."""
    return (scratch / "commits" / str(batch)).exists()


def last_ended(scratch: Path) -> int | None:
    """The newest batch that has ended; None when none has."""
    commits = scratch / "commits"
    names = [file.name for file in commits.iterdir()] if commits.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=None)


def end_offsets(scratch: Path, batch: int) -> Sequence[str]:
    """The end offsets of a batch as JSON, one per source, in the order of the query's sources.

    "{}" for a source that the batch took nothing from.
    """
    lines = (scratch / "offsets" / str(batch)).read_text("utf-8").splitlines()[HEAD_LINES:]
    return ["{}" if line == NOTHING else line for line in lines]
