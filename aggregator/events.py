"""What happened, as a value: the engine tells, the command line logs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: a change of state, never a sign of life."""

    kind: str
    message: str
    fields: Mapping[str, str | int] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


EventSink = Callable[[Event], None]
