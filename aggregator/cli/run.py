"""`aggregator run`: run until stopped, or until caught up, and serve the status meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from aggregator.cli.logs import event_log
from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config, masked
from aggregator.cli.recording import recording
from aggregator.cli.render import Output, Report, Table, show
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
from aggregator.documents.document import Status
from aggregator.errors import EXIT_DONE, EXIT_OTHER
from aggregator.events import EventSink
from aggregator.steering.control import Control

if TYPE_CHECKING:
    from aggregator.engine.run import RunResult
    from aggregator.status.view import View

EXAMPLES = (
    "aggregator run -c aggregator.yaml",
    "aggregator run -c aggregator.yaml --until-caught-up",
    "aggregator run -c aggregator.yaml --take-over",
    "aggregator run -c aggregator.yaml --standby",
    "aggregator run -c aggregator.yaml --set api.listen=off --set stream.lanes=source",
)

Answer = TypeVar("Answer")

UntilCaughtUp = Annotated[
    bool, typer.Option("--until-caught-up", help="Copy what is there now, then end.")
]
TakeOver = Annotated[
    bool,
    typer.Option(
        "--take-over", help="Take the place of the instance that runs on this checkpoint."
    ),
]
Standby = Annotated[
    bool,
    typer.Option(
        "--standby",
        help="Wait while another instance runs on this checkpoint, and take its place when it has "
        "ended or is silent for the time of its lease.",
    ),
]


def run(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    until_caught_up: UntilCaughtUp = False,
    take_over: TakeOver = False,
    standby: Standby = False,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Trust the checkpoint: do not look in the hub for what it does not know of.",
        ),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the aggregation until it is stopped.

    Ctrl-C and SIGTERM ask for a clean stop; a second signal ends it at once, without a last
    checkpoint. SIGHUP has the config read again. Events are logged to stderr. With
    --until-caught-up a table of the sources is printed at the end.
    """
    run_config(
        ctx,
        lambda added: load_config(ctx, config_file, sets, added),
        until_caught_up=until_caught_up,
        take_over=take_over,
        standby=standby,
        fresh=fresh,
        output=output,
    )


def run_config(
    ctx: typer.Context,
    load: Callable[[Added], Config],
    *,
    until_caught_up: bool = False,
    take_over: bool = False,
    standby: bool = False,
    fresh: bool = False,
    only_backfills: bool = False,
    output: Output = Output.TABLE,
) -> None:
    """Run what `load` gives, which is asked again when it is to be read anew; ends the command."""

    def read(added: Added) -> Config:
        return as_submitted(load(added))

    if standby and (take_over or until_caught_up):
        other = "--take-over" if take_over else "--until-caught-up"
        raise typer.BadParameter(f"it excludes {other}", param_hint="--standby")
    config = read({})
    control = Control(config, read, only_backfills=only_backfills)
    log = event_log(lambda text: masked(ctx, text), level=control.log_level)
    for warning in warnings(config):
        log("warning", warning)
    stop = threading.Event()
    with (
        stop_on_signals(stop, log),
        stop_on_dead_thread(stop, log) as died,
        reload_on_hangup(lambda: _reload(control, log), log),
        recording(control, log, lambda text: masked(ctx, text)) as record,
        serving(control, log, record.recorder, take_over=take_over or standby) as put,
    ):

        def show_view(view: View) -> None:
            record.view = view
            put(view)

        result = in_thread(
            lambda: _engine(
                *(control, until_caught_up, take_over, standby, fresh),
                *(stop, show_view, record.take),
            )
        )
    result = replace(
        result,
        exit_code=result.exit_code or (EXIT_OTHER if died else EXIT_DONE),
        problems=(*result.problems, *died),
    )
    if until_caught_up and not only_backfills:
        show(report_of_result(result.status, result.exit_code, result.problems), output)
    for problem in result.problems:
        typer.echo(f"problem: {masked(ctx, problem)}", err=True)
    raise typer.Exit(result.exit_code)


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
        except BaseException as error:  # goes on in the thread that waits
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
    total = Table(
        "Total",
        ("sources", "topics", "partitions", "records", "lag"),
        [
            (
                len(status.sources),
                sum(source.topics for source in status.sources),
                sum(source.partitions for source in status.sources),
                sum(source.records for source in status.sources),
                sum(source.lag or 0 for source in status.sources),
            )
        ],
        frozenset({"sources", "topics", "partitions", "records", "lag"}),
    )
    data = {
        "exit_code": exit_code,
        "problems": list(problems),
        "status": status.model_dump(mode="json"),
    }
    return Report(data, (sources_table(status), total))


def _engine(
    control: Control,
    until_caught_up: bool,
    take_over: bool,
    standby: bool,
    fresh: bool,
    stop: threading.Event,
    put: Callable[[View], None],
    on_event: EventSink,
) -> RunResult:
    from aggregator.engine.run import run as run_engine

    return run_engine(
        control.config,
        control=control,
        until_caught_up=until_caught_up,
        take_over=take_over,
        standby=standby,
        fresh=fresh,
        stop=stop,
        on_view=put,
        on_event=on_event,
    )
