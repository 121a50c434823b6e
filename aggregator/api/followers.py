"""Clients that follow an instance, its events or its live figures, as server-sent events."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import NamedTuple

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from aggregator.api.permissions import CallerError

POLL_SECONDS = 0.25
PING_SECONDS = 15.0
"""How often an idle stream sends a ping, as proxies cut off what is silent."""
EVENTS = "text/event-stream"
HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


class Message(NamedTuple):
    """What is sent: its number, the kind of event, and the JSON of it."""

    number: int
    kind: str
    data: str


class Followers:
    """At most `most` at once, and what they get; in the server's thread alone.

    `after` gives what is newer than a number; `closed` says that all of them must stop.
    """

    def __init__(
        self, most: int, after: Callable[[int], Sequence[Message]], closed: Callable[[], bool]
    ) -> None:
        self.count = 0
        self._most = most
        self._after = after
        self._closed = closed

    def answer(self, number: int) -> StreamingResponse:
        """A stream of what comes after `number`. Raises CallerError (503) when too many follow."""
        if self.count >= self._most:
            raise CallerError(503, f"{self._most} follow it already")
        return _Stream(self, number)

    async def follow(self, number: int) -> AsyncGenerator[str, None]:
        """Messages after `number` as text, until all must stop or its reader is gone."""
        yield ": here\n\n"
        sent_at = time.monotonic()
        while not self._closed():
            for message in self._after(number):
                number, sent_at = message.number, time.monotonic()
                yield f"id: {number}\nevent: {message.kind}\ndata: {message.data}\n\n"
            if time.monotonic() - sent_at >= PING_SECONDS:
                sent_at = time.monotonic()
                yield ": ping\n\n"
            await asyncio.sleep(POLL_SECONDS)


class _Stream(StreamingResponse):
    """What one of `followers` gets. It counts from its first moment to its last, also when its
    reader is gone before anything was sent.
    """

    def __init__(self, followers: Followers, number: int) -> None:
        super().__init__(followers.follow(number), media_type=EVENTS, headers=HEADERS)
        self._followers = followers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. Nothing else is done between the check and this, so no two share a place."""
        self._followers.count += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._followers.count -= 1
