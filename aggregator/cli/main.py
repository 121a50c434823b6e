"""The command `aggregator`: its subcommands, and how every error ends them."""

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
    size,
    sources,
    status,
    tee,
    top,
    verify,
    wait,
)
from aggregator.cli.command import Command, Group
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


COMMANDS: tuple[Command | Group, ...] = (
    demo.demo,
    run.run,
    plan.plan,
    size.size,
    check.check,
    status.status,
    lag.lag,
    top.top,
    dashboard.open_dashboard,
    sources.GROUP,
    control.pause,
    control.resume,
    control.reload,
    positions.GROUP,
    backfill.GROUP,
    gaps.GROUP,
    groups.GROUP,
    failover.failover,
    failover.failback,
    peek.peek,
    verify.verify,
    wait.wait,
    tee.tee,
    maintain.maintain,
    events.events,
    events.history,
    quarantine.GROUP,
    dedup.GROUP,
    import_.import_,
    mirror_maker.mirror_maker,
    replicator.replicator,
    jars.jars,
    config.config,
)
for it in COMMANDS:
    it.add_to(app)


def allow_files() -> None:
    """Allow this process as many open files as it may have, up to what is plenty.

    A cluster takes some dozen, and what services are started with is a thousand.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def open_streams() -> None:
    """Have what is written to a stream that was closed, as by `2>&-`, go nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # It takes the number of the closed one, so that no file gets what the JVM writes there.
            number = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line (by default the process's own) and end the process with its code.

    All that must be closed is closed by then. What is left are threads that are not waited for, in
    calls of the Kafka and Delta libraries to a cluster that hangs, say: Python's own way out stops
    them wherever they are, and that has ended runs that were done with a segmentation fault.
    Should one come all the same, each thread's Python stack is on stderr.
    """
    open_streams()
    # One in memory has no number.
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
            # The reader of the pipe may be gone.
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(end.code or 0)
