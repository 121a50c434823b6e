"""`aggregator run`: run until stopped, or until caught up, and serve the status meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from aggregator.audit.document import Status
from aggregator.cli.logs import event_log
from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config, masked
from aggregator.cli.render import Output, Report, Table, show
from aggregator.cli.signals import stop_on_signals
from aggregator.cli.submit import as_submitted
from aggregator.cli.tables import sources_table
from aggregator.config.checks import warnings
from aggregator.config.mask import masked as masked_config
from aggregator.config.schema import Config
from aggregator.config.values import parse_listen

if TYPE_CHECKING:
    from aggregator.engine.run import RunResult
    from aggregator.serve.holder import StatusHolder
    from aggregator.serve.server import ApiServer

EXAMPLES = (
    "aggregator run -c aggregator.yaml",
    "aggregator run -c aggregator.yaml --until-caught-up",
    "aggregator run -c aggregator.yaml --set api.listen=off --set stream.lanes=1",
)

Answer = TypeVar("Answer")
Log = Callable[..., None]


def run(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Copy what is there now, then end.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the aggregation until it is stopped.

    Ctrl-C and SIGTERM ask for a clean stop; a second signal ends it at once, without a last
    checkpoint. Events are logged to stderr. With --until-caught-up a table of the sources is
    printed at the end.
    """
    config = as_submitted(load_config(ctx, config_file, sets))
    log = event_log(lambda text: masked(ctx, text))
    for warning in warnings(config):
        log("warning", warning)
    stop = threading.Event()
    with stop_on_signals(stop, log), _api(config, log) as put:
        result = in_thread(lambda: _engine(config, until_caught_up, stop, put, log))
    if until_caught_up:
        show(report_of_result(result.status, result.exit_code, result.problems), output)
    for problem in result.problems:
        typer.echo(f"problem: {masked(ctx, problem)}", err=True)
    raise typer.Exit(result.exit_code)


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
    thread.join()
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
                sum(lane.records for lane in status.lanes),
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
    config: Config,
    until_caught_up: bool,
    stop: threading.Event,
    put: Callable[[Status], None],
    log: Log,
) -> RunResult:
    from aggregator.engine.run import run as run_engine

    return run_engine(
        config,
        until_caught_up=until_caught_up,
        stop=stop,
        on_status=put,
        on_event=lambda event: log(event.kind, event.message, **event.fields),
    )


@contextmanager
def _api(config: Config, log: Log) -> Iterator[Callable[[Status], None]]:
    """The API while the block runs; gives what takes each new status."""
    from aggregator.serve.holder import StatusHolder

    holder = StatusHolder()
    server = _server(config, holder)
    if server is None:
        yield holder.put
        return
    try:
        server.start()
        log("api", f"the API answers on {server.url}")
        yield holder.put
    finally:
        server.stop()


def _server(config: Config, holder: StatusHolder) -> ApiServer | None:
    address = parse_listen(config.api.listen)
    if address is None:
        return None
    from aggregator.serve.app import make_app
    from aggregator.serve.server import ApiServer

    return ApiServer(make_app(holder, masked_config(config)), *address)
