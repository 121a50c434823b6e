"""The table of controls, beside the checkpoints: what is paused or stopped, kept over restarts.

That is a source, one of its topics, or one of a topic's partitions. Append-only: the newest row of
each counts.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated

from aggregator.model.errors import RefusedError
from aggregator.model.values import Part, Pause
from aggregator.store.row_model import INT32
from aggregator.store.state_store import StateStore

TABLE = "controls"


@dataclass(frozen=True, slots=True)
class ControlRow:
    """That a source, or a part of it, is paused, or is no longer."""

    at: datetime
    cluster: str
    paused: bool
    stopped: bool | None = None
    topic: str | None = None
    partition: Annotated[int | None, INT32] = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Paused:
    """All that is paused: sources by alias, and parts of sources."""

    sources: Mapping[str, Pause] = field(default_factory=dict)
    parts: Mapping[Part, Pause] = field(default_factory=dict)


class Controls:
    """The log of controls; `put` returns when the row is on the disk. Raises CheckpointError."""

    def __init__(self, store: StateStore) -> None:
        self._log = store.log(TABLE, ControlRow)

    def read(self) -> Paused:
        """What is paused."""
        sources: dict[str, Pause] = {}
        parts: dict[Part, Pause] = {}
        for row in self._log.items():
            if row.topic:
                part = Part(row.cluster, row.topic, row.partition)
                first = parts.pop(part, None)
                if row.paused:
                    parts[part] = first or Pause(row.at, by=row.by)
                continue
            before = sources.pop(row.cluster, None) or Pause(row.at, by=row.by)
            if row.paused:
                sources[row.cluster] = Pause(before.since, bool(row.stopped), before.by)
        return Paused(sources, parts)

    def put(self, alias: str, *, paused: bool, stopped: bool = False, by: str = "") -> datetime:
        """Note that a source is paused or stopped, or is no longer; returns when that was."""
        at = datetime.now(UTC)
        self._log.append([ControlRow(at, alias, paused, stopped, by=by)])
        return at

    def put_parts(self, parts: Iterable[Part], *, paused: bool, by: str = "") -> datetime:
        """Note that parts of sources are paused, or are no longer; returns when that was."""
        at = datetime.now(UTC)
        self._log.append(ControlRow(at=at, **it._asdict(), paused=paused, by=by) for it in parts)
        return at


def to_resume(part: Part, paused: Collection[Part]) -> list[Part]:
    """What to resume together with a part: for a topic, its partitions too.

    RefusedError for a partition of a topic that is paused as a whole.
    """
    topic = Part(part.cluster, part.topic)
    if part != topic and topic in paused:
        again = f"aggregator resume {part.cluster} --topic {part.topic}"
        raise RefusedError([f"topic {topic} is paused as a whole: {again}"])
    return sorted(
        (it for it in paused if it == part or (part == topic and it[:2] == topic[:2])), key=str
    )
