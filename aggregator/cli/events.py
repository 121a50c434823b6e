"""`aggregator events`: what happened, now and in the past; no Spark."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.options import Follow, Newest, SinceOption, SourceOption, UntilOption, moment
from aggregator.cli.render import Columns, Output, Report, cell, report, table
from aggregator.features.timeline.timeline_report import EventRow, EventsReport

FOLLOW_SECONDS = 1.0


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
    begin, end = moment("--since", since), moment("--until", until)
    last = 0
    while True:
        found = call.aggregation.events(
            begin, end, source=source, kind=kind, limit=limit, after=last
        )
        if not follow:
            return report_of_events(found, call.masked)
        for row in found.events:
            last = row.id
            typer.echo(call.masked(_line(row, call.output)))
        try:
            threading.Event().wait(FOLLOW_SECONDS)
        except KeyboardInterrupt:
            return None
        end = datetime.now(UTC)


def report_of_events(found: EventsReport, mask: Callable[[str], str]) -> Report:
    """Events in the order of time."""
    columns: Columns = {
        "at (UTC)": "at",
        "level": "level",
        "kind": "kind",
        "source": "source",
        "what": lambda it: mask(it.message),
    }
    shown = table("Events", columns, found.events) if found.events else "No such events."
    failing = (f"newer ones are not kept: {mask(found.failing)}",) if found.failing else ()
    return report(found, shown, *failing)


def _line(event: EventRow, output: Output) -> str:
    if output is Output.JSON:
        return json.dumps(event.model_dump(mode="json"), ensure_ascii=False)
    return f"{cell(event.at)}  {event.level:5} {event.kind}: {event.message}"
