"""Events as log lines on stderr: to read on a terminal, JSON elsewhere; one per state change."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

import structlog

from aggregator.model.events import LogLevel, level_of


def event_log(
    mask: Callable[[str], str], stream: TextIO | None = None, level: LogLevel | None = None
) -> Callable[..., None]:
    """A function `log(kind, message, **fields)` that writes one line; texts go through `mask`.

    Errors are logged as warnings: the run continues. What `level` hides is not written.

    A line and its end are one write. The JVM writes to the same stderr, and where Python does not
    buffer, as in the image, it would come in between.
    """
    out = stream if stream is not None else sys.stderr
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=True)
        if out.isatty()
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    logger = structlog.wrap_logger(
        structlog.WriteLogger(out),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            renderer,
        ],
        wrapper_class=structlog.BoundLogger,
        cache_logger_on_first_use=False,
    )

    def log(kind: str, message: str, **fields: str | int) -> None:
        own = level_of(kind, fields)
        if level is not None and level.hides(own):
            return
        shown = {
            name: mask(value) if isinstance(value, str) else value for name, value in fields.items()
        }
        write = logger.info if own == "INFO" else logger.warning
        said = mask(message)
        # Its reader, its terminal or the room for it may be gone: no run ends for that.
        with suppress(OSError):
            write(kind, message=said, **_renamed(shown))

    return log


def _renamed(fields: dict[str, str | int]) -> dict[str, str | int]:
    """Fields under names that no part of the line has already."""
    taken = {"event", "message", "level", "at"}
    return {f"{name}_" if name in taken else name: value for name, value in fields.items()}
