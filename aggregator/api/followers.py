"""Clients that follow the events of an instance, as server-sent events."""

import asyncio
import time
from collections.abc import AsyncGenerator

from aggregator.features.timeline.recorder import Feed

POLL_SECONDS = 0.25
PING_SECONDS = 15.0
"""How often an idle stream sends a ping, as proxies cut off what is silent."""


class Followers:
    """How many follow, and what they get; in the server's thread alone."""

    def __init__(self) -> None:
        self.count = 0

    async def follow(self, feed: Feed, number: int) -> AsyncGenerator[str, None]:
        """Events after `number` as text, until the feed is closed or its reader is gone."""
        self.count += 1
        try:
            yield ": here\n\n"
            sent_at = time.monotonic()
            while not feed.closed:
                for row in feed.after(number):
                    number, sent_at = row.id, time.monotonic()
                    yield f"id: {row.id}\nevent: {row.kind}\ndata: {row.model_dump_json()}\n\n"
                if time.monotonic() - sent_at >= PING_SECONDS:
                    sent_at = time.monotonic()
                    yield ": ping\n\n"
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self.count -= 1
