"""`aggregator run`: run until stopped, or until caught up, and serve the status meanwhile.

What is logged is also kept: history and events are stored beside the run.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.logs import event_log
from aggregator.cli.render import Columns, Report, show, table
from aggregator.cli.serving import serving
from aggregator.cli.signals import (
    SIGNAL_SECONDS,
    reload_on_hangup,
    stop_on_dead_thread,
    stop_on_signals,
)
from aggregator.cli.submit import as_submitted
from aggregator.cli.tables import sources_table
from aggregator.config.checks import warnings
from aggregator.config.load import Added
from aggregator.config.schema import Config
from aggregator.engine.control.commands import Control
from aggregator.model.errors import EXIT_DONE, EXIT_OTHER
from aggregator.model.events import Event
from aggregator.status.lag import sum_known
from aggregator.status.schema import Phase, Status

if TYPE_CHECKING:
    from aggregator.engine.application import RunResult
    from aggregator.features.timeline.recorder import Recorder
    from aggregator.status.view import View

Log = Callable[..., None]

COLLECT_EVERY = 50_000
"""New objects after which Python looks for garbage. A request for thousands of partitions makes
several for each of them, and by Python's own 700 most of its time goes into that."""


class Record:
    """Takes each event of a run, and its newest view."""

    def __init__(self, control: Control, log: Log, mask: Callable[[str], str]) -> None:
        from aggregator.datapath.connector.reports import bucket_bounds
        from aggregator.features.timeline.recorder import Recorder

        self.view: View | None = None
        self._log = log
        self.recorder: Recorder = Recorder(
            control.in_force, self._phase, self._latest, mask, self._logged, bucket_bounds()
        )

    def take(self, event: Event) -> None:
        """Log an event, and keep it."""
        self._logged(event)
        self.recorder.take(event)

    def _phase(self) -> Phase | None:
        return self.view.phase if self.view is not None else None

    def _latest(self) -> Status | None:
        from aggregator.status.assemble import status

        view = self.view
        return status(view) if view is not None else None

    def _logged(self, event: Event) -> None:
        self._log(event.kind, event.message, **event.fields)


@contextmanager
def recording(control: Control, log: Log, mask: Callable[[str], str]) -> Iterator[Record]:
    """What keeps history and events while the block runs; texts go through `mask`."""
    record = Record(control, log, mask)
    record.recorder.start()
    try:
        yield record
    finally:
        record.recorder.stop()


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """When a run begins and ends."""

    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Copy what is there now, then end.")
    ] = False
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over", help="Take the place of the instance that runs on this checkpoint."
        ),
    ] = False
    standby: Annotated[
        bool,
        typer.Option(
            "--standby",
            help="Wait while another instance runs on this checkpoint, and take its place when it "
            "has ended or is silent for the time of its lease.",
        ),
    ] = False


@command(
    "aggregator run -c aggregator.yaml",
    "aggregator run -c aggregator.yaml --until-caught-up",
    "aggregator run -c aggregator.yaml --take-over",
    "aggregator run -c aggregator.yaml --standby",
    "aggregator run -c aggregator.yaml --set api.listen=off --set stream.lanes=source",
)
def run(
    call: Call,
    how: RunOptions,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Trust the checkpoint: do not look in the hub for what it does not know of.",
        ),
    ] = False,
) -> None:
    """Run the aggregation until it is stopped.

    Ctrl-C and SIGTERM ask for a clean stop; a second signal ends it at once, without a last
    checkpoint. SIGHUP has the config read again. Events are logged to stderr. With
    --until-caught-up a table of the sources is printed at the end.
    """
    run_config(call, call.load, how, fresh=fresh)


def run_config(
    call: Call,
    load: Callable[[Added], Config],
    how: RunOptions,
    *,
    fresh: bool = False,
    only_backfills: bool = False,
) -> None:
    """Run the config from `load`, which is called again at a reload; ends the command."""

    def read(added: Added) -> Config:
        return as_submitted(load(added))

    if how.standby and (how.take_over or how.until_caught_up):
        other = "--take-over" if how.take_over else "--until-caught-up"
        raise typer.BadParameter(f"it excludes {other}", param_hint="--standby")
    gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])
    control = Control(read({}), read, only_backfills=only_backfills)
    log = event_log(call.masked, level=control.log_level)
    for warning in warnings(control.config):
        log("warning", warning)
    stop = threading.Event()
    with (
        stop_on_signals(stop, log),
        stop_on_dead_thread(stop, log) as died,
        reload_on_hangup(lambda: _reload(control, log), log),
        recording(control, log, call.masked) as record,
        serving(control, log, record.recorder, take_over=how.take_over or how.standby) as put,
    ):

        def show_view(view: View) -> None:
            record.view = view
            put(view)

        def work() -> RunResult:
            from aggregator.engine.application import run as run_engine

            return run_engine(
                control.config,
                control=control,
                until_caught_up=how.until_caught_up,
                take_over=how.take_over,
                standby=how.standby,
                fresh=fresh,
                stop=stop,
                on_view=show_view,
                on_event=record.take,
            )

        result = in_thread(work)
    code = result.exit_code or (EXIT_OTHER if died else EXIT_DONE)
    result = replace(result, exit_code=code, problems=(*result.problems, *died))
    if how.until_caught_up and not only_backfills:
        show(report_of_result(result.status, code, result.problems), call.output)
    for problem in result.problems:
        call.say(f"problem: {problem}")
    raise typer.Exit(code)


def _reload(control: Control, log: Callable[..., None]) -> None:
    """Have the config read again; what a person has to know of it is logged."""
    for note in control.reload().notes:
        log("warning", note)


def in_thread(work: Callable[[], Answer]) -> Answer:
    """Do the work in a thread of its own and wait for it; raises what it raises.

    Signals are handled by the main thread, and Spark replaces the handlers of the thread that it
    is started in, if that is the main one.
    """
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            answers.append(work())
        except BaseException as error:  # raised in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=call, name="engine", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(SIGNAL_SECONDS)
    if errors:
        raise errors[0]
    return answers[0]


def report_of_result(status: Status, exit_code: int, problems: tuple[str, ...]) -> Report:
    """What was copied, per source and in all."""
    columns: Columns = {
        "sources": len,
        "topics": lambda all: sum(it.topics for it in all),
        "partitions": lambda all: sum(it.partitions for it in all),
        "records": lambda all: sum(it.records for it in all),
        "lag": lambda all: sum_known(it.lag for it in all),
    }
    data = {
        "exit_code": exit_code,
        "problems": list(problems),
        "status": status.model_dump(mode="json"),
    }
    return Report(data, (sources_table(status), table("Total", columns, [status.sources])))
