"""What commands to a running instance answer, as documents."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from aggregator.documents.document import Document, PausedPart
from aggregator.model import Part, Pause


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

    def told(self, pause: Pause | None) -> SourceControl:
        """The same with how it is paused; None when it is not."""
        if pause is None:
            return self.model_copy(update={"paused": False, "since": None, "by": ""})
        return self.model_copy(update={"paused": True, "since": pause.since, "by": pause.by})

    def of(self, part: Part, pause: Pause | None) -> SourceControl:
        """The same of a topic or a partition."""
        named = self.model_copy(update={"topic": part.topic, "partition": part.partition})
        return named.told(pause)


def paused_parts(parts: Mapping[Part, Pause]) -> tuple[PausedPart, ...]:
    """Parts of sources that are paused, in order."""
    return tuple(
        PausedPart(
            source=part.cluster,
            topic=part.topic,
            partition=part.partition,
            since=pause.since,
            by=pause.by,
        )
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
