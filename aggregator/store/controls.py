"""The table of controls, beside the checkpoints: what is paused or stopped, for good.

That is a source, one of its topics, or one of a topic's partitions. Append-only: the newest row of
each counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from aggregator.model.errors import RefusedError
from aggregator.model.values import Part, Pause
from aggregator.store.state_store import StateStore

TABLE = "controls"

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("cluster", pa.string()),
        ("paused", pa.bool_()),
        ("stopped", pa.bool_()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("by", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Paused:
    """All that is paused: sources by alias, and parts of sources."""

    sources: Mapping[str, Pause] = field(default_factory=dict)
    parts: Mapping[Part, Pause] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Controls:
    """The table under `path` (the setting checkpoint.path).

    Whatever cannot be read or written is a CheckpointError; `put` returns when the row is in the
    table, on a local disk forced to the disk.
    """

    store: StateStore

    def read(self) -> Paused:
        """What is paused."""
        sources: dict[str, Pause] = {}
        parts: dict[Part, Pause] = {}
        for row in self.store.table(TABLE).rows():
            # A table that is older than a column says nothing of it.
            stopped, by = bool(row.get("stopped")), row.get("by") or ""
            if topic := row.get("topic"):
                part = Part(row["cluster"], topic, row.get("partition"))
                first = parts.pop(part, None)
                if row["paused"]:
                    parts[part] = first or Pause(row["at"], by=by)
                continue
            before = sources.pop(row["cluster"], None)
            if row["paused"]:
                since = row["at"] if before is None else before.since
                sources[row["cluster"]] = Pause(since, stopped, by if before is None else before.by)
        return Paused(sources, parts)

    def put(self, alias: str, *, paused: bool, stopped: bool = False, by: str = "") -> datetime:
        """Note that a source is paused or stopped, or is no longer; returns when that was."""
        at = datetime.now(UTC)
        row = {"at": at, "cluster": alias, "paused": paused, "stopped": stopped, "by": by}
        self.store.table(TABLE).append_notes([row], SCHEMA)
        return at

    def put_parts(self, parts: Iterable[Part], *, paused: bool, by: str = "") -> datetime:
        """Note that parts of sources are paused, or are no longer; returns when that was."""
        at = datetime.now(UTC)
        rows = [{"at": at, **part._asdict(), "paused": paused, "by": by} for part in parts]
        self.store.table(TABLE).append_notes(rows, SCHEMA)
        return at


def to_resume(part: Part, paused: Collection[Part]) -> list[Part]:
    """What is to be resumed with a part: of a topic its partitions, too.

    RefusedError for a partition of a topic that is paused as a whole.
    """
    topic = Part(part.cluster, part.topic)
    if part != topic and topic in paused:
        again = f"aggregator resume {part.cluster} --topic {part.topic}"
        raise RefusedError([f"topic {topic} is paused as a whole: {again}"])
    return sorted(
        (it for it in paused if it == part or (part == topic and it[:2] == topic[:2])), key=str
    )
