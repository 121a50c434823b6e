"""`aggregator tee`: hub records land in Delta tables, until it is stopped or caught up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.logs import event_log
from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config, masked, warn
from aggregator.cli.render import Output, Report, Table, show
from aggregator.cli.run import in_thread
from aggregator.cli.signals import stop_on_signals
from aggregator.cli.submit import as_submitted
from aggregator.events import Event

if TYPE_CHECKING:
    from aggregator.tee.report import TeeReport

EXAMPLES = (
    "aggregator tee -c aggregator.yaml",
    "aggregator tee -c aggregator.yaml --once",
    "aggregator tee --set tee.path=s3a://lake/hub --set tee.decode=json",
    "aggregator tee --once -o json | jq '.topics[] | {topic, records, undecoded}'",
)
HARD = "stopped at once by a second signal; what was under way lands next time\n"
NUMBERS = frozenset({"records", "commits", "lag", "not decoded", "columns", "lost"})


def tee(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    once: Annotated[
        bool, typer.Option("--once", help="Land what the hub holds now, then end.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Land the hub's records in Delta tables, a table for each topic.

    Each record of the hub is in its table once, also after kill -9: the tables say themselves how
    far they are. May run beside an instance, which neither knows nor needs it. Ctrl-C and SIGTERM
    ask for a clean stop. Events are logged to stderr; a table of the topics is printed at the end.

    Ends with 1 when a topic could not be landed, or the hub did not answer in the end.
    """
    config = as_submitted(load_config(ctx, config_file, sets))
    warn(config, ctx)
    log = event_log(lambda text: masked(ctx, text))

    def tell(event: Event) -> None:
        log(event.kind, event.message, **event.fields)

    def work() -> TeeReport:
        from aggregator.tee.run import tee as run_tee

        return run_tee(config, once=once, stop=stop, tell=tell)

    stop = threading.Event()
    with stop_on_signals(stop, log, HARD):
        report = in_thread(work)
    show(report_of_tee(report), output)
    for problem in report.problems:
        typer.echo(f"problem: {masked(ctx, problem)}", err=True)
    raise typer.Exit(report.exit_code)


def report_of_tee(report: TeeReport) -> Report:
    """The topics as a table."""
    rows = [
        (
            it.topic,
            it.records,
            it.commits,
            it.lag,
            it.undecoded,
            it.columns,
            it.lost,
            "failing" if it.failing else "well",
        )
        for it in report.topics
    ]
    columns = ("topic", "records", "commits", "lag", "not decoded", "columns", "lost", "state")
    total = sum(it.records for it in report.topics)
    return Report(
        report.model_dump(mode="json"),
        (
            Table("Landed", columns, rows, NUMBERS),
            f"{total:,} records have landed in {report.path} in {report.seconds:,.1f} s.",
        ),
    )
