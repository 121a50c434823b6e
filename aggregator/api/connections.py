"""Limits the connections to the API: their number, and how long one may be idle.

Each is an open file of the process that copies records, which needs files of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MOST_LINES = 256
QUIET_SECONDS = 10.0
"""Within these a request has to have come whole, but for its body."""


class Line(H11Protocol):
    """One connection. By h11, whatever else is installed: it takes 64 kB of headers and no more."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._seen: RequestResponseCycle | None = None
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_LINES:
            transport.abort()
            return
        self._look = self.loop.call_later(QUIET_SECONDS, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _check(self) -> None:
        """End one on which no request has begun since the last look, and none is being answered."""
        asked: RequestResponseCycle | None = self.cycle
        if asked is self._seen and (asked is None or asked.response_complete):
            self.transport.abort()
            return
        self._seen = asked
        self._look = self.loop.call_later(QUIET_SECONDS, self._check)
