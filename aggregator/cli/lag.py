"""`aggregator lag`: per source partition position, log end, lag in offsets, bytes and time; ETA."""

import sys
import threading
from collections.abc import Callable
from typing import Annotated, Any

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.options import SourceOption, TopicOption
from aggregator.cli.render import Columns, Output, Report, named, report, show, table
from aggregator.model.errors import CheckpointError
from aggregator.plan.health.delays import Delay
from aggregator.status.lag import LagReport, delay_of, only
from aggregator.status.measure import measure
from aggregator.status.percentiles import short_duration, size_text
from aggregator.status.rates import UNKNOWN

CLEAR = "\x1b[2J\x1b[H"
TEXTS = ("position", "log end", "lag", "bytes", "behind")
"""Columns of what is counted, which may also say that it is unknown."""


@command(
    "aggregator lag -c aggregator.yaml",
    "aggregator lag -c aggregator.yaml --watch 5 --source eu",
    "aggregator lag -o json | jq '.totals'",
)
def lag(
    call: Call,
    source: SourceOption = None,
    topic: TopicOption = None,
    watch: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.1, help="Show it again this often.")
    ] = None,
    sizes: Annotated[
        bool, typer.Option("--bytes/--no-bytes", help="Read some waiting records for their size.")
    ] = True,
) -> Report | None:
    """Show how far behind each source partition is.

    With totals, and when they will have caught up. Positions come from the running instance, else
    from the checkpoint; log ends are read live. Lag counts offsets; for how long it has been behind
    only a running instance knows. A source that cannot be reached shows "unknown".
    """
    aggregation = call.aggregation
    while True:
        if watch is not None and call.output is Output.TABLE and sys.stdout.isatty():
            typer.echo(CLEAR, nl=False)
        # Of one source or topic alone only that is asked.
        found = _measured(call, only(aggregation.lag(), source, topic), sizes=sizes)
        shown = report_of_lag(found, call.masked)
        if watch is None:
            return shown
        show(shown, call.output)
        try:
            threading.Event().wait(watch)
        except KeyboardInterrupt:
            return None


def _measured(call: Call, found: LagReport, *, sizes: bool) -> LagReport:
    """The report with what the sources say now; where their settings cannot be read, as it is."""
    try:
        config = call.config
    except CheckpointError as error:
        # An instance has answered: its log ends are hardly older.
        note = f"log ends are those that the instance knows: {call.masked(str(error))}"
        return found.model_copy(update={"notes": (*found.notes, note)})
    return measure(config, found, sizes=sizes)


def report_of_lag(lag: LagReport, mask: Callable[[str], str]) -> Report:
    """Rows and totals as a report; what is unknown says so in words."""
    sums: Columns = {
        "lag": lambda it: _known(it.lag),
        "bytes": lambda it: UNKNOWN if it.lag_bytes is None else size_text(it.lag_bytes),
        "behind": lambda it: behind_text(delay_of(it)),
    }
    rows: Columns = {
        **named("source=cluster, topic, partition"),
        "position": lambda it: _known(it.position),
        "log end": lambda it: _known(it.log_end),
        **sums,
        **named("lane, state"),
        "why": lambda it: mask(it.reason),
    }
    totals: Columns = {
        **named("source=cluster, partitions, unknown"),
        **sums,
        **named("read/s=consumed_per_second, written/s=produced_per_second, ETA=eta"),
    }
    none = () if lag.rows else ("No such partitions are known.",)
    return report(
        lag,
        table("Lag", rows, lag.rows, TEXTS),
        table("Totals", totals, lag.totals, (*TEXTS, "read/s", "written/s")),
        *none,
        *lag.notes,
    )


def behind_text(delay: Delay | None) -> str:
    """For how long something has been behind; `> 5 min` when that is all that is known."""
    if delay is None:
        return UNKNOWN
    return f"{'> ' if delay.at_least else ''}{short_duration(delay.seconds)}"


def _known(value: Any) -> int | str:
    return UNKNOWN if value is None else int(value)
