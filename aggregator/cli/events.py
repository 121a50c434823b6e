"""`aggregator events`: what happened, now and in the past; no Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated

import typer

from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SinceOption,
    SourceOption,
    UntilOption,
    load_config,
    masked,
    moment,
)
from aggregator.cli.render import Output, Report, Table, cell, show
from aggregator.cli.running import Absent, running_events
from aggregator.config.schema import Config
from aggregator.timeline.document import EventRow, EventsReport
from aggregator.timeline.read import read_events

EXAMPLES = (
    "aggregator events --since 7d --source eu",
    "aggregator events --kind gap -o json",
    "aggregator events --follow",
)
FOLLOW_SECONDS = 1.0


def events(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    since: SinceOption = "24h",
    until: UntilOption = "0s",
    source: SourceOption = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest.")] = 100,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
) -> None:
    """Show what happened: starts, stops, outages, gaps, recoveries, what people did.

    From the table of events beside the checkpoint (kept for timeline.keep), and from the running
    instance. With --follow a line each, as it comes; with -o json each line is an object.
    """
    begin, end = moment("--since", since), moment("--until", until)
    config = load_config(ctx, config_file, sets)
    found = find_events(config, begin, end, source=source, kind=kind, limit=limit)
    if not follow:
        show(report_of_events(ctx, found), output)
        return
    last = 0
    while True:
        for row in found.events:
            last = row.id
            typer.echo(masked(ctx, _line(row, output)))
        try:
            threading.Event().wait(FOLLOW_SECONDS)
        except KeyboardInterrupt:
            return
        found = find_events(
            config, begin, datetime.now(UTC), source=source, kind=kind, limit=limit, after=last
        )


def find_events(
    config: Config,
    since: datetime,
    until: datetime,
    *,
    source: str | None = None,
    kind: str | None = None,
    limit: int = 100,
    after: int = 0,
) -> EventsReport:
    """The events of a span: the running instance's word, else what the table holds."""
    query = {"since": since.isoformat(), "until": until.isoformat(), "limit": str(limit)}
    wanted = {"source": source, "kind": kind}
    query |= {name: value for name, value in wanted.items() if value is not None}
    found = running_events(config, {**query, "after": str(after)})
    if not isinstance(found, Absent):
        return found
    return read_events(config, since, until, source=source, kind=kind, after=after, limit=limit)


def report_of_events(ctx: typer.Context, found: EventsReport) -> Report:
    """Events in the order of time."""
    parts: list[Table | str] = []
    if found.events:
        columns = ("at (UTC)", "level", "kind", "source", "what")
        parts.append(Table("Events", columns, [_row(ctx, it) for it in found.events]))
    else:
        parts.append("No such events.")
    if found.failing:
        parts.append(f"newer ones are not kept: {masked(ctx, found.failing)}")
    return Report(found.model_dump(mode="json"), tuple(parts))


def _row(ctx: typer.Context, event: EventRow) -> Sequence[str | datetime | None]:
    return (event.at, event.level, event.kind, event.source, masked(ctx, event.message))


def _line(event: EventRow, output: Output) -> str:
    if output is Output.JSON:
        return json.dumps(event.model_dump(mode="json"), ensure_ascii=False)
    return f"{cell(event.at)}  {event.level:5} {event.kind}: {event.message}"
