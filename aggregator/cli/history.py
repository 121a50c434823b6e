"""`aggregator history`: how the sources were: records, lag, latency over time; no Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SinceOption,
    SourceOption,
    TopicOption,
    UntilOption,
    load_config,
    moment,
)
from aggregator.cli.render import Output, Report, Table, show
from aggregator.config.values import parse_duration
from aggregator.documents.units import short_duration, size_text
from aggregator.timeline.document import HistoryReport
from aggregator.timeline.read import read_history

EXAMPLES = (
    "aggregator history --since 1h --source eu",
    "aggregator history --since 7d --step 1h -o json",
    "aggregator history --since 2026-11-17T08:00:00Z --until 2026-11-17T12:00:00Z --topic orders",
)
COLUMNS = ("until (UTC)", "source", "topic", "state", "records", "records/s", "bytes/s", "lag")
LATER = ("lag bytes", "behind", "age p50 ms", "p95", "p99", "in flight p99")


def history(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    since: SinceOption = "1h",
    until: UntilOption = "0s",
    source: SourceOption = None,
    topic: TopicOption = None,
    step: Annotated[
        str, typer.Option(metavar="LENGTH", help="Join rows to spans: 5m, 1h; 0s does not.")
    ] = "0s",
) -> None:
    """Show how the sources were, by the minute: state, records, lag, latency.

    Read from the table of history beside the checkpoint, which a running instance writes
    (timeline.interval, timeline.keep). With --step counts are added up, and what was worst stands
    for the span: how far behind, and each percentile of latency.
    """
    begin, end = moment("--since", since), moment("--until", until)
    try:
        seconds = float(parse_duration(step))
    except ValueError as error:
        raise typer.BadParameter(f"--step: {error}") from error
    config = load_config(ctx, config_file, sets)
    found = read_history(config, begin, end, source=source, topic=topic, step_seconds=seconds)
    show(report_of_history(found, config.checkpoint.path), output)


def report_of_history(found: HistoryReport, path: str) -> Report:
    """Rows in the order of time."""
    data = found.model_dump(mode="json")
    if not found.rows:
        return Report(data, (f"Nothing was written down in that time under {path}.",))
    rows = [
        (
            row.at,
            row.source,
            row.topic,
            row.state,
            row.records,
            row.records / row.seconds if row.seconds else None,
            size_text(round(row.bytes / row.seconds)) if row.seconds else None,
            row.lag,
            size_text(row.lag_bytes) if row.lag_bytes is not None else None,
            short_duration(row.seconds_behind) if row.seconds_behind is not None else None,
            row.age_p50_ms,
            row.age_p95_ms,
            row.age_p99_ms,
            row.flight_p99_ms,
        )
        for row in found.rows
    ]
    right = frozenset((*COLUMNS[4:], *LATER))
    return Report(data, (Table("History", (*COLUMNS, *LATER), rows, right),))
