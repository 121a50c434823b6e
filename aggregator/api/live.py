"""Live figures over REST: of now, of the last minutes, as a stream, and the flow as it is drawn."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.responses import StreamingResponse

from aggregator.api.error_answers import text
from aggregator.api.followers import EVENTS, Message
from aggregator.api.instance import Here, HubTopic, StartingError, check_source
from aggregator.api.permissions import CallerError
from aggregator.status.flow_chart import FlowChart, flow_chart
from aggregator.status.live import Recent
from aggregator.status.live_report import LiveHistory, LiveMoment

MOMENT = "moment"

router = APIRouter(prefix="/api", tags=["live"])


@router.get("/live")
def now(here: Here) -> LiveMoment:
    """Rates, lag and latency of each source as they are now."""
    newest = here.holder.recent.newest()
    if newest is None:
        raise StartingError
    return newest


@router.get("/live/history")
def history(
    here: Here,
    source: Annotated[str | None, Query(description="of this source; without: of all")] = None,
    hub_topic: HubTopic = None,
) -> LiveHistory:
    """The last fifteen minutes by the second, from memory; of a source, or of a hub topic."""
    if source is not None and hub_topic is not None:
        raise CallerError(400, "source and hub_topic exclude each other: ask for one of them")
    if source is not None:
        check_source(here, source)
    return here.holder.recent.history(source, hub_topic)


@router.get("/live/stream", response_class=StreamingResponse, responses=text(EVENTS))
async def stream(
    here: Here,
    last_event_id: Annotated[int | None, Header()] = None,
) -> StreamingResponse:
    """The newest moment each second, as `/api/live` shows it."""
    return here.viewers.answer(last_event_id or 0)


@router.get("/flow")
def flow(here: Here) -> FlowChart:
    """What flows from which source into which hub topic; where there are many, in groups."""
    return flow_chart(here.status(), here.holder.earlier(), here.control.titles)


def live_messages(recent: Recent) -> Callable[[int], list[Message]]:
    """What viewers get: the newest moment, if it is another one than that of a number.

    A moment is written down once for all of them. Those that a slow reader missed are not sent.
    """
    last = Message(0, MOMENT, "")

    def after(number: int) -> list[Message]:
        nonlocal last
        if recent.number in (number, 0):
            return []
        newest = recent.newest()
        if newest is not None and newest.number != last.number:
            last = Message(newest.number, MOMENT, newest.model_dump_json())
        return [last] if last.number != number else []

    return after
