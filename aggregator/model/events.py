"""Events as values: the engine emits them, the command line logs them. Pure."""

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

LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR")
WARNINGS = ("warning", "unreachable", "stuck", "held", "refused", "gap")
ERRORS = ("error", "failed")
"""An event whose kind, or whose field `state`, holds one of these words is logged as such."""


@dataclass(slots=True)
class LogLevel:
    """The lowest level that is logged; may be changed by any thread, while others log."""

    level: str = "INFO"
    changed: datetime | None = None

    def set(self, level: str) -> None:
        """Log this level, one of LEVELS, and what is above it."""
        self.level, self.changed = level, datetime.now(UTC)

    def hides(self, level: str) -> bool:
        """Whether events of this level are not logged."""
        return LEVELS.index(level) < LEVELS.index(self.level)


def level_of(kind: str, fields: Mapping[str, object]) -> str:
    """The level of an event with these fields."""
    text = f"{kind} {fields.get('state', '')}".lower()
    for level, words in (("ERROR", ERRORS), ("WARN", WARNINGS)):
        if any(word in text for word in words):
            return level
    return "INFO"
