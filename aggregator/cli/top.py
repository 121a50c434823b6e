"""`aggregator top`: the figures of a running instance in the terminal, each second."""

import sys
import threading
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from aggregator.cli.command import Call, command
from aggregator.cli.render import Output, report, show
from aggregator.cli.running import Absent, Document, ask_running
from aggregator.cli.signals import stop_on_signals
from aggregator.cli.top_frame import WIDTH, TopDocuments, frame
from aggregator.config.schema import Config
from aggregator.model.errors import AggregatorError
from aggregator.status.live_report import LiveHistory, LiveMoment
from aggregator.status.overview import Overview

FRAME_SECONDS = 1.0
WHOLE_FRAMES = 5
"""Frames from one overview and history to the next: they are made of every partition, and of 15
minutes. In between only the moment is asked for."""


@command(
    "aggregator top -c aggregator.yaml",
    "aggregator top -c aggregator.yaml --once",
    "aggregator top -o json | jq '.total.records_per_second'",
)
def top(
    call: Call,
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame, as it does without a terminal.")
    ] = False,
) -> None:
    """Watch the running instance in the terminal, refreshed each second, until Ctrl-C.

    Records and bytes per second, lag, age of records and copy latency; a row for
    each source with its last minutes; and what needs a person. With -o json, the live figures once.
    """
    config = call.written
    if call.output is Output.JSON:
        whole(config)
        show(report(_answer(config, "/api/live", LiveMoment)), call.output)
        return
    answers = answers_of(config)
    if once or not sys.stdout.isatty():
        Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False).print(frame(answers))
        return
    _watch(config, answers)


def answers_of(config: Config) -> TopDocuments:
    """What the instance of this config says now. AggregatorError when none answers, and why."""
    return TopDocuments(
        whole(config),
        _answer(config, "/api/live", LiveMoment),
        _answer(config, "/api/live/history", LiveHistory),
    )


def whole(config: Config) -> Overview:
    """The overview, which says that it is of this config. AggregatorError when none answers."""
    return _answer(config, "/api/overview", Overview, named=True)


def _answer(config: Config, path: str, kind: type[Document], *, named: bool = False) -> Document:
    found = ask_running(config, path, kind, named=named)
    if not isinstance(found, Absent):
        return found
    if found.is_there:
        raise AggregatorError(f"there is nothing to watch yet: {found.reason}")
    raise AggregatorError(
        f"there is nothing to watch: {found.reason}; start it with aggregator run, or name the "
        "config that it was started with by -c"
    )


def _watch(config: Config, answers: TopDocuments) -> None:
    """Frame after frame until a signal; without answers the last one, and why there is none."""
    stop, frames = threading.Event(), 0
    with (
        # Before the screen changes: the terminal gets its own back whichever signal comes.
        stop_on_signals(stop, _ignore, hard=""),
        Live(frame(answers), screen=True, auto_refresh=False) as live,
    ):
        while not stop.wait(FRAME_SECONDS):
            frames += 1
            try:
                if frames % WHOLE_FRAMES:
                    answers = answers.at(_answer(config, "/api/live", LiveMoment))
                else:
                    answers = answers_of(config)
                problem = ""
            except AggregatorError as error:
                problem = str(error)
            live.update(frame(answers, problem), refresh=True)


def _ignore(*_: object, **__: object) -> None:
    """The screen of the frames takes no lines of a log."""
