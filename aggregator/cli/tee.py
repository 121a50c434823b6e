"""`aggregator tee`: hub records land in Delta tables, until it is stopped or caught up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.render import Columns, Report, named, report, table
from aggregator.cli.run import in_thread
from aggregator.cli.signals import stop_on_signals
from aggregator.cli.submit import as_submitted

if TYPE_CHECKING:
    from aggregator.features.delta_sink.sink_report import TeeReport

HARD = "stopped at once by a second signal; what was under way lands next time\n"


@command(
    "aggregator tee -c aggregator.yaml",
    "aggregator tee -c aggregator.yaml --once",
    "aggregator tee --set tee.path=s3a://lake/hub --set tee.decode=json",
    "aggregator tee --once -o json | jq '.topics[] | {topic, records, undecoded}'",
)
def tee(
    call: Call,
    once: Annotated[
        bool, typer.Option("--once", help="Land what the hub holds now, then end.")
    ] = False,
) -> Report:
    """Land the hub's records in Delta tables, a table for each topic.

    Each record of the hub is in its table once, also after kill -9: each table records how far it
    is. May run beside an instance, which does not depend on it. Ctrl-C and SIGTERM ask for a clean
    stop. Events are logged to stderr; a table of the topics is printed at the end.

    Ends with 1 when a topic could not be landed, or the hub did not answer in the end.
    """
    config = as_submitted(call.config)
    call.warn(config)
    stop = threading.Event()

    def work() -> TeeReport:
        from aggregator.features.delta_sink.sink import tee as run_tee

        return run_tee(config, once=once, stop=stop, emit=call.emit)

    with stop_on_signals(stop, call.log, HARD):
        found = in_thread(work)
    for problem in found.problems:
        call.say(f"problem: {problem}")
    return report_of_tee(found)


def report_of_tee(found: TeeReport) -> Report:
    """The topics as a table."""
    columns: Columns = {
        **named("topic, records, commits, lag, not decoded=undecoded, columns, lost"),
        "state": lambda it: "failing" if it.failing else "well",
    }
    total = sum(it.records for it in found.topics)
    landed = f"{total:,} records have landed in {found.path} in {found.seconds:,.1f} s."
    shown = table("Landed", columns, found.topics)
    return report(found, shown, landed, exit_code=found.exit_code)
