"""The command `aggregator`: its subcommands, and how every error ends them."""

from __future__ import annotations

import faulthandler
import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import Annotated

import typer

from aggregator import __version__
from aggregator.cli import (
    backfill,
    check,
    config,
    control,
    dashboard,
    dedup,
    demo,
    events,
    failover,
    gaps,
    groups,
    history,
    import_,
    jars,
    lag,
    maintain,
    mirror_maker,
    peek,
    plan,
    positions,
    quarantine,
    replicator,
    run,
    sources,
    status,
    tee,
    verify,
    wait,
)
from aggregator.cli.failures import Commands
from aggregator.cli.options import examples

FILES = 65_536
"""Open files that are enough for hundreds of clusters."""
HELP = (
    examples(
        "aggregator demo                          two sources and a hub on this machine",
        "aggregator check -c aggregator.yaml      can every cluster be reached and used?",
        "aggregator plan -c aggregator.yaml       what would be done; changes nothing",
        "aggregator run -c aggregator.yaml        run until it is stopped",
        "aggregator lag -c aggregator.yaml        how far behind each source partition is",
        "aggregator verify -c aggregator.yaml     is everything there, once, unaltered, in order?",
    )
    + """

\b
The config is FILE of -c, else ./aggregator.yaml, else the file in $AGGREGATOR_CONFIG.
Exit codes: 0 done, 2 bad config or usage, 3 a cluster cannot be reached or refuses us,
4 data loss or conflict, 5 not complete in time (wait), 1 anything else."""
)

app = typer.Typer(
    name="aggregator",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def aggregator(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
    _debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (anywhere in the line).")
    ] = False,
) -> None:
    """Bring many Kafka clusters together in one hub, with one Spark application."""


app.command(epilog=examples(*demo.EXAMPLES))(demo.demo)
app.command(epilog=examples(*run.EXAMPLES))(run.run)
app.command(epilog=examples(*plan.EXAMPLES))(plan.plan)
app.command(epilog=examples(*check.EXAMPLES))(check.check)
app.command(epilog=examples(*status.EXAMPLES))(status.status)
app.command(epilog=examples(*lag.EXAMPLES))(lag.lag)
app.command("open", epilog=examples(*dashboard.EXAMPLES))(dashboard.open_dashboard)
app.add_typer(sources.app, name="sources", epilog=examples(*sources.EXAMPLES))
app.command(epilog=examples(*control.PAUSE_EXAMPLES))(control.pause)
app.command(epilog=examples(*control.RESUME_EXAMPLES))(control.resume)
app.command(epilog=examples(*control.RELOAD_EXAMPLES))(control.reload)
app.add_typer(positions.app, name="positions", epilog=examples(*positions.EXAMPLES))
app.add_typer(backfill.app, name="backfill", epilog=examples(*backfill.EXAMPLES))
app.add_typer(gaps.app, name="gaps", epilog=examples(*gaps.EXAMPLES))
app.add_typer(groups.app, name="groups", epilog=examples(*groups.EXAMPLES))
app.command(epilog=examples(*failover.FAILOVER_EXAMPLES))(failover.failover)
app.command(epilog=examples(*failover.FAILBACK_EXAMPLES))(failover.failback)
app.command(epilog=examples(*peek.EXAMPLES))(peek.peek)
app.command(epilog=examples(*verify.EXAMPLES))(verify.verify)
app.command(epilog=examples(*wait.EXAMPLES))(wait.wait)
app.command(epilog=examples(*tee.EXAMPLES))(tee.tee)
app.command(epilog=examples(*maintain.EXAMPLES))(maintain.maintain)
app.command(epilog=examples(*events.EXAMPLES))(events.events)
app.command(epilog=examples(*history.EXAMPLES))(history.history)
app.add_typer(quarantine.app, name="quarantine", epilog=examples(*quarantine.EXAMPLES))
app.add_typer(dedup.app, name="dedup", epilog=examples(*dedup.EXAMPLES))
app.command(
    "import",
    epilog=examples(*import_.EXAMPLES),
    context_settings={"ignore_unknown_options": True},
)(import_.import_)
app.command("mirror-maker", epilog=examples(*mirror_maker.EXAMPLES))(mirror_maker.mirror_maker)
app.command(epilog=examples(*replicator.EXAMPLES))(replicator.replicator)
app.command(epilog=examples(*jars.EXAMPLES))(jars.jars)
app.command(epilog=examples(*config.EXAMPLES))(config.config)


def allow_files() -> None:
    """Allow this process as many open files as it may have, up to what is plenty.

    A cluster takes some dozen, and what services are started with is a thousand.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line (by default the process's own) and end the process with its code.

    All that is to be closed is closed by then. What is left are threads that nobody waits for, in
    calls of the Kafka and Delta libraries to a cluster that hangs, say: Python's own way out stops
    them wherever they are, and that has ended runs that were done with a segmentation fault.
    Should one come all the same, each thread's Python stack is on stderr.
    """
    # There may be no stderr.
    with suppress(OSError, RuntimeError, ValueError):
        faulthandler.enable()
    allow_files()
    if isinstance(sys.stdout, TextIOWrapper):
        # A locale that lacks a character shows another one: no command ends for that.
        sys.stdout.reconfigure(errors="replace")
    try:
        app(None if arguments is None else list(arguments))
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        for stream in (sys.stdout, sys.stderr):
            # Whoever read it may be gone.
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code or 0)
