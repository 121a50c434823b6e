"""History and events of a running instance: out of the tables, and live as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from aggregator.config.values import parse_duration
from aggregator.serve.answers import text
from aggregator.serve.control import CallerError
from aggregator.steering.control import Control
from aggregator.timeline.document import EventsReport, HistoryReport
from aggregator.timeline.feed import Feed
from aggregator.timeline.read import read_events, read_history
from aggregator.timeline.recorder import Recorder
from aggregator.timeline.rows import moment_of

POLL_SECONDS = 0.25
PING_SECONDS = 15.0
"""So often an idle stream says that it lives, as proxies cut off what is silent."""
FOLLOWERS = 50
"""So many may follow at once."""
ROWS = 100_000
DAY = "24h"
EVENTS = "text/event-stream"
LEAST_STEP_SECONDS = 1.0

Since = Annotated[str, Query(description="so long ago (1h, 7d), or an ISO time")]
Until = Annotated[str, Query(description="the same; 0s is now")]
Text = Annotated[str | None, Query()]


def timeline_router(control: Control, recorder: Recorder) -> APIRouter:
    """The endpoints; none of them changes anything."""
    router = APIRouter(prefix="/api", tags=["timeline"])
    followers = _Followers()

    # Plain functions: they read tables, in threads.
    @router.get("/history")
    def history(
        since: Since = DAY,
        until: Until = "0s",
        source: Text = None,
        topic: Text = None,
        step: Annotated[str, Query(description="join minutes to spans: 5m, 1h")] = "0s",
    ) -> HistoryReport:
        """Figures of the sources, and with `topic` of one topic, by the minute."""
        try:
            step_seconds = float(parse_duration(step))
        except ValueError as error:
            raise CallerError(400, str(error)) from error
        if 0 < step_seconds < LEAST_STEP_SECONDS:
            raise CallerError(400, f"step is shorter than {LEAST_STEP_SECONDS:g} s")
        begin, end = _span(since, until)
        return read_history(
            control.config, begin, end, source=source, topic=topic, step_seconds=step_seconds
        )

    @router.get("/events")
    def events(
        since: Since = DAY,
        until: Until = "0s",
        source: Text = None,
        kind: Text = None,
        after: Annotated[int, Query(description="only those with a larger id")] = 0,
        limit: Annotated[int, Query(ge=1, le=ROWS, description="the newest of them")] = 200,
    ) -> EventsReport:
        """What happened, the oldest first; those that no table holds yet as well."""
        begin, end = _span(since, until)
        return read_events(
            control.config,
            begin,
            end,
            source=source,
            kind=kind,
            after=after,
            limit=limit,
            unsaved=recorder.feed.unsaved(),
            failing=recorder.failing,
        )

    @router.get("/events/stream", response_class=StreamingResponse, responses=text(EVENTS))
    async def stream(
        last_event_id: Annotated[int | None, Header()] = None,
    ) -> StreamingResponse:
        """New events as they come; after `Last-Event-ID` those of this run that came since."""
        if followers.count >= FOLLOWERS:
            raise CallerError(503, f"{FOLLOWERS} follow the events already")
        begin = recorder.feed.last if last_event_id is None else last_event_id
        return StreamingResponse(
            followers.follow(recorder.feed, begin),
            media_type=EVENTS,
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    return router


class _Followers:
    """Those that follow the events; in the server's thread alone."""

    def __init__(self) -> None:
        self.count = 0

    async def follow(self, feed: Feed, number: int) -> AsyncIterator[str]:
        """Events after `number` as text, until the feed is closed or nobody reads any more."""
        self.count += 1
        try:
            yield ": here\n\n"
            told = time.monotonic()
            while not feed.closed:
                for row in feed.after(number):
                    number, told = row.id, time.monotonic()
                    yield f"id: {row.id}\nevent: {row.kind}\ndata: {row.model_dump_json()}\n\n"
                if time.monotonic() - told >= PING_SECONDS:
                    told = time.monotonic()
                    yield ": ping\n\n"
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self.count -= 1


def _span(since: str, until: str) -> tuple[datetime, datetime]:
    return _moment(since), _moment(until)


def _moment(text: str) -> datetime:
    try:
        return moment_of(text, datetime.now(UTC))
    except ValueError as error:
        raise CallerError(400, str(error)) from error
