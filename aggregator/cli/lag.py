"""`aggregator lag`: per source partition position, log end, lag in offsets, bytes and time; ETA."""

from __future__ import annotations

import sys
import threading
from typing import Annotated

import typer

from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SourceOption,
    TopicOption,
    load_config,
    masked,
)
from aggregator.cli.render import Output, Report, Table, show
from aggregator.cli.running import Absent, running_lag
from aggregator.config.schema import Config
from aggregator.documents.lag import LagReport, delay_of, only
from aggregator.documents.rates import UNKNOWN
from aggregator.documents.sample import measure
from aggregator.documents.stopped import stopped_lag
from aggregator.documents.units import short_duration, size_text
from aggregator.plan.behind import Delay

EXAMPLES = (
    "aggregator lag -c aggregator.yaml",
    "aggregator lag -c aggregator.yaml --watch 5 --source eu",
    "aggregator lag -o json | jq '.totals'",
)
LAG_COLUMNS = (
    "source",
    "topic",
    "partition",
    "position",
    "log end",
    "lag",
    "bytes",
    "behind",
    "lane",
    "state",
    "why",
)
CLEAR = "\x1b[2J\x1b[H"


def lag(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: TopicOption = None,
    watch: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.1, help="Show it again and again.")
    ] = None,
    sizes: Annotated[
        bool, typer.Option("--bytes/--no-bytes", help="Read some waiting records for their size.")
    ] = True,
) -> None:
    """Show how far behind each source partition is.

    With totals, and when they will have caught up. Positions come from the running instance, else
    from the checkpoint; log ends are read live. Lag counts offsets; for how long it has been behind
    only a running instance knows. A source that cannot be reached shows "unknown".
    """
    config = load_config(ctx, config_file, sets)
    while True:
        if watch is not None and output is Output.TABLE and sys.stdout.isatty():
            typer.echo(CLEAR, nl=False)
        show(report_of_lag(ctx, find_lag(config, source, topic, sizes=sizes)), output)
        if watch is None:
            return
        try:
            threading.Event().wait(watch)
        except KeyboardInterrupt:
            return


def find_lag(
    config: Config, source: str | None = None, topic: str | None = None, *, sizes: bool = True
) -> LagReport:
    """The lag now: of the running instance, else of the checkpoint, with live log ends.

    Of one source or topic alone only that is asked.
    """
    found = running_lag(config)
    if isinstance(found, Absent):
        found = stopped_lag(config)
    return measure(config, only(found, source, topic), sizes=sizes)


def report_of_lag(ctx: typer.Context, lag: LagReport) -> Report:
    """Rows and totals as a report; what is unknown says so in words."""
    right = frozenset({"partition", "partitions", "position", "log end", "lag", "bytes", "behind"})
    rows = Table(
        "Lag",
        LAG_COLUMNS,
        [
            (
                row.cluster,
                row.topic,
                row.partition,
                _known(row.position),
                _known(row.log_end),
                _known(row.lag),
                _size(row.lag_bytes),
                behind_text(delay_of(row)),
                row.lane,
                row.state,
                masked(ctx, row.reason) or None,
            )
            for row in lag.rows
        ],
        right,
    )
    totals = Table(
        "Totals",
        ("source", "partitions", "unknown", "lag", "bytes", "behind", "read/s", "written/s", "ETA"),
        [
            (
                total.cluster,
                total.partitions,
                total.unknown,
                _known(total.lag),
                _size(total.lag_bytes),
                behind_text(delay_of(total)),
                total.consumed_per_second,
                total.produced_per_second,
                total.eta,
            )
            for total in lag.totals
        ],
        right | {"unknown", "read/s", "written/s"},
    )
    return Report(lag.model_dump(mode="json"), (rows, totals, *lag.notes))


def behind_text(delay: Delay | None) -> str:
    """For how long something has been behind; `> 5 min` when that is all that is known."""
    if delay is None:
        return UNKNOWN
    return f"{'> ' if delay.at_least else ''}{short_duration(delay.seconds)}"


def _known(value: int | None) -> int | str:
    return UNKNOWN if value is None else value


def _size(value: int | None) -> str:
    return UNKNOWN if value is None else size_text(value)
