"""What commands to a running instance answer, as documents."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from aggregator.documents.document import Document


class SourceControl(Document):
    """A source after it was paused or resumed. `since` is null when it is not paused."""

    name: str
    source: str
    paused: bool
    since: datetime | None = None


class ReloadReport(Document):
    """What the config that was read again has changed: paths of keys, and sources."""

    name: str
    keys: tuple[str, ...] = Field(default=(), description="what differs; never a value")
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    reconnected: tuple[str, ...] = Field(default=(), description="with other connection settings")
    notes: tuple[str, ...] = ()
