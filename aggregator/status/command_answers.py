"""What commands to a running instance answer, as documents."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from aggregator.model.alike import made_of
from aggregator.model.values import Part, Pause
from aggregator.status.schema import Document, PausedPart


class SourceControl(Document):
    """A source, or a part of one, after it was paused or resumed.

    `since` is null when it is not paused.
    """

    name: str
    source: str
    topic: str = Field(default="", description="of a topic alone, or of one of its partitions")
    partition: int | None = None
    paused: bool = False
    since: datetime | None = None
    by: str = Field(default="", description="who paused it")
    parts: tuple[str, ...] = Field(
        default=(), description="topics and partitions of the source that are paused by themselves"
    )


def source_control(
    name: str,
    alias: str,
    part: Part | None,
    sources: Mapping[str, Pause],
    parts: Mapping[Part, Pause],
) -> SourceControl:
    """How a source, or a part of it, is now; `sources` by alias and `parts` are what is paused."""
    pause = sources.get(alias) if part is None else parts.get(part)
    return SourceControl(
        name=name,
        source=alias,
        topic="" if part is None else part.topic,
        partition=None if part is None else part.partition,
        paused=pause is not None,
        since=None if pause is None else pause.since,
        by="" if pause is None else pause.by,
        parts=tuple(sorted(str(it) for it in parts if it.cluster == alias)),
    )


def paused_parts(parts: Mapping[Part, Pause]) -> tuple[PausedPart, ...]:
    """Parts of sources that are paused, in order."""
    return tuple(
        made_of(PausedPart, part, pause, source=part.cluster)
        for part, pause in sorted(parts.items(), key=lambda it: str(it[0]))
    )


class ReloadReport(Document):
    """What the config that was read again has changed: paths of keys, and sources."""

    name: str
    keys: tuple[str, ...] = Field(default=(), description="what differs; never a value")
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    reconnected: tuple[str, ...] = Field(default=(), description="with other connection settings")
    notes: tuple[str, ...] = ()
