"""`aggregator events` and `history`: what happened, and lag and latency over time; no Spark."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.options import (
    Follow,
    Newest,
    SinceOption,
    SourceOption,
    TopicOption,
    UntilOption,
    duration,
    moment,
)
from aggregator.cli.render import Columns, Output, Report, cell, named, report, table
from aggregator.features.timeline.past_queries import Joining, Of, read_history
from aggregator.features.timeline.timeline_report import EventRow, EventsReport, HistoryReport
from aggregator.status.percentiles import short_duration, size_text

FOLLOW_SECONDS = 1.0
MOST = 100_000
"""Events in one answer of the API."""


@command(
    "aggregator events --since 7d --source eu",
    "aggregator events --kind gap -o json",
    "aggregator events --follow",
)
def events(
    call: Call,
    since: SinceOption = "24h",
    until: UntilOption = "0s",
    source: SourceOption = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
    limit: Newest = 100,
    follow: Follow = False,
) -> Report | None:
    """Show what happened: starts, stops, outages, gaps, recoveries, what people did.

    From the table of events beside the checkpoint (kept for timeline.keep), and from the running
    instance. With --follow a line each, as it comes; with -o json each line is an object.
    """
    begin, end, last = moment("--since", since), moment("--until", until), 0

    def look(most: int) -> EventsReport:
        return call.aggregation.events(begin, end, source=source, kind=kind, limit=most, after=last)

    found = look(limit)
    if not follow:
        return report_of_events(found, call.masked)
    while True:
        for row in found.events:
            last = row.id
            typer.echo(call.masked(_line(row, call.output)))
        try:
            threading.Event().wait(FOLLOW_SECONDS)
        except KeyboardInterrupt:
            return None
        end = datetime.now(UTC)
        found, most = look(limit), limit
        # All that came since the last look, and not only the newest of it.
        while len(found.events) >= most and most < MOST:
            most = min(10 * most, MOST)
            found = look(most)


def report_of_events(found: EventsReport, mask: Callable[[str], str]) -> Report:
    """Events in the order of time."""
    columns: Columns = {
        **named("at (UTC)=at, level, kind, source"),
        "what": lambda it: mask(it.message),
    }
    shown = table("Events", columns, found.events) if found.events else "No such events."
    failing = (f"newer ones are not kept: {mask(found.failing)}",) if found.failing else ()
    return report(found, shown, *failing)


def _line(event: EventRow, output: Output) -> str:
    if output is Output.JSON:
        return json.dumps(event.model_dump(mode="json"), ensure_ascii=False)
    return f"{cell(event.at)}  {event.level:5} {event.kind}: {event.message}"


COLUMNS: Columns = {
    **named("until (UTC)=at, source, topic, state, records"),
    "records/s": lambda it: it.records / it.seconds if it.seconds else None,
    "bytes/s": lambda it: size_text(round(it.bytes / it.seconds)) if it.seconds else None,
    "lag": "lag",
    "lag bytes": lambda it: None if it.lag_bytes is None else size_text(it.lag_bytes),
    "behind": lambda it: None if it.seconds_behind is None else short_duration(it.seconds_behind),
    **named("age p50 ms=age_p50_ms, p95=age_p95_ms, p99=age_p99_ms, in flight p99=flight_p99_ms"),
}


@command(
    "aggregator history --since 1h --source eu",
    "aggregator history --since 7d --step 1h -o json",
    "aggregator history --since 2026-11-17T08:00:00Z --until 2026-11-17T12:00:00Z --topic orders",
)
def history(
    call: Call,
    since: SinceOption = "1h",
    until: UntilOption = "0s",
    source: SourceOption = None,
    topic: TopicOption = None,
    step: Annotated[
        str, typer.Option(metavar="LENGTH", help="Join rows to spans: 5m, 1h; 0s does not.")
    ] = "0s",
) -> Report:
    """Show how the sources were, by the minute: state, records, lag, latency.

    Read from the table of history beside the checkpoint, which a running instance writes
    (timeline.interval, timeline.keep). With --step counts are added up, and the worst value is
    shown for the span: how far behind, and each percentile of latency.
    """
    begin, end = moment("--since", since), moment("--until", until)
    seconds = duration("--step", step)
    config = call.config
    joining = Joining(seconds)
    found = read_history(config, begin, end, of=Of(source, topic), joining=joining)
    return report_of_history(found, config.checkpoint.path)


def report_of_history(found: HistoryReport, path: str) -> Report:
    """Rows in the order of time."""
    if not found.rows:
        return report(found, f"Nothing was written down in that time under {path}.")
    return report(found, table("History", COLUMNS, found.rows, [*COLUMNS][4:]))
