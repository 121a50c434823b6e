"""History and events of a running instance, from the tables and live as server-sent events."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query
from fastapi.responses import StreamingResponse

from aggregator.api.error_answers import text
from aggregator.api.followers import EVENTS, Message
from aggregator.api.instance import Here, HubTopic
from aggregator.api.permissions import CallerError
from aggregator.config.values import parse_duration
from aggregator.features.timeline.minutes import moment_of
from aggregator.features.timeline.past_queries import Joining, Of, read_events, read_history
from aggregator.features.timeline.recorder import Feed
from aggregator.features.timeline.timeline_report import EventsReport, HistoryReport

ROWS = 100_000
DAY = "24h"
LEAST_STEP_SECONDS = 1.0

Since = Annotated[str, Query(description="a duration ago (1h, 7d), or an ISO time")]
Until = Annotated[str, Query(description="the same; 0s is now")]
Text = Annotated[str | None, Query()]


router = APIRouter(prefix="/api", tags=["timeline"])


def joining_of(
    step: Annotated[str, Query(description="join minutes to spans: 5m, 1h")] = "0s",
    total: Annotated[bool, Query(description="all sources as one, a row for each span")] = False,
    limit: Annotated[int, Query(ge=1, le=ROWS, description="of the table the newest rows")] = ROWS,
) -> Joining:
    """How a request wants rows of history to be joined. Raises CallerError (400)."""
    try:
        step_seconds = float(parse_duration(step))
    except ValueError as error:
        raise CallerError(400, str(error)) from error
    if 0 < step_seconds < LEAST_STEP_SECONDS:
        raise CallerError(400, f"step is shorter than {LEAST_STEP_SECONDS:g} s")
    return Joining(step_seconds, total, limit)


# Plain functions: they read tables, in threads.
@router.get("/history")
def history(
    here: Here,
    joining: Annotated[Joining, Depends(joining_of)],
    since: Since = DAY,
    until: Until = "0s",
    source: Text = None,
    topic: Text = None,
    hub_topic: HubTopic = None,
) -> HistoryReport:
    """Figures of the sources, and with `topic` of one topic, by the minute; or with `total` sums.

    With `hub_topic` they are those of the topics of sources that are copied to it now.

    Of `total` how far behind, and each percentile, is that of the slowest source. Where there are
    more rows than `limit`, `cut` says so.
    """
    if hub_topic is not None and topic is not None:
        raise CallerError(400, "topic and hub_topic exclude each other: ask for one of them")
    begin, end = moment(since), moment(until)
    of = Of(source, topic)
    if hub_topic is not None:
        routed = (it for it in here.status().partitions if it.hub_topic == hub_topic)
        of = Of(source, into=tuple({(it.cluster, it.topic) for it in routed}))
    return read_history(here.control.config, begin, end, of=of, joining=joining)


@router.get("/events")
def events(
    here: Here,
    since: Since = DAY,
    until: Until = "0s",
    source: Text = None,
    kind: Text = None,
    after: Annotated[int, Query(description="only those with a larger id")] = 0,
    limit: Annotated[int, Query(ge=1, le=ROWS, description="the newest of them")] = 200,
) -> EventsReport:
    """What happened, the oldest first; those that no table holds yet as well."""
    begin, end = moment(since), moment(until)
    return read_events(
        here.control.config,
        begin,
        end,
        source=source,
        kind=kind,
        after=after,
        limit=limit,
        unsaved=here.recorder.feed.unsaved(),
        failing=here.recorder.failing,
    )


@router.get("/events/stream", response_class=StreamingResponse, responses=text(EVENTS))
async def stream(
    here: Here,
    last_event_id: Annotated[int | None, Header()] = None,
) -> StreamingResponse:
    """New events as they come; after `Last-Event-ID` those of this run that came since."""
    begin = here.recorder.feed.last if last_event_id is None else last_event_id
    return here.followers.answer(begin)


def event_messages(feed: Feed) -> Callable[[int], list[Message]]:
    """What followers of events get: the events of `feed` after a number."""
    return lambda number: [
        Message(row.id, row.kind, row.model_dump_json()) for row in feed.after(number)
    ]


def moment(text: str) -> datetime:
    """A moment of a request: a duration ago, or an ISO time. CallerError for what is none."""
    try:
        return moment_of(text, datetime.now(UTC))
    except ValueError as error:
        raise CallerError(400, str(error)) from error
