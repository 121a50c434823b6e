"""`aggregator history`: records, lag and latency of the sources over time; no Spark."""

from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.options import (
    SinceOption,
    SourceOption,
    TopicOption,
    UntilOption,
    duration,
    moment,
)
from aggregator.cli.render import Columns, Report, report, table
from aggregator.features.timeline.past_queries import read_history
from aggregator.features.timeline.timeline_report import HistoryReport
from aggregator.status.percentiles import short_duration, size_text

COLUMNS: Columns = {
    "until (UTC)": "at",
    "source": "source",
    "topic": "topic",
    "state": "state",
    "records": "records",
    "records/s": lambda it: it.records / it.seconds if it.seconds else None,
    "bytes/s": lambda it: size_text(round(it.bytes / it.seconds)) if it.seconds else None,
    "lag": "lag",
    "lag bytes": lambda it: None if it.lag_bytes is None else size_text(it.lag_bytes),
    "behind": lambda it: None if it.seconds_behind is None else short_duration(it.seconds_behind),
    "age p50 ms": "age_p50_ms",
    "p95": "age_p95_ms",
    "p99": "age_p99_ms",
    "in flight p99": "flight_p99_ms",
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
    found = read_history(config, begin, end, source=source, topic=topic, step_seconds=seconds)
    return report_of_history(found, config.checkpoint.path)


def report_of_history(found: HistoryReport, path: str) -> Report:
    """Rows in the order of time."""
    if not found.rows:
        return report(found, f"Nothing was written down in that time under {path}.")
    return report(found, table("History", COLUMNS, found.rows, [*COLUMNS][4:]))
