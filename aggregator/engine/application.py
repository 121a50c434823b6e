"""One run of an aggregation, from its config to its exit code, step by step."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.datapath.spark.jvm import Driver, naming_java
from aggregator.engine.control.command_queue import STARTING
from aggregator.engine.control.commands import Control
from aggregator.engine.engine import Engine
from aggregator.engine.workers import Threads, session_of, start_driver, threads_of
from aggregator.features.quarantine.follower import QuarantineWatch
from aggregator.kafka.admin import HUB, open_admin
from aggregator.kafka.discovery.hub_logs import stood_at
from aggregator.kafka.discovery.poller import first_snapshot
from aggregator.kafka.discovery.prepare import Prepared, prepare
from aggregator.model.errors import (
    EXIT_CLUSTER,
    EXIT_DATA,
    EXIT_DONE,
    EXIT_OTHER,
    CheckpointConflictError,
    ClusterError,
    HeldError,
)
from aggregator.model.events import Event, EventSink
from aggregator.model.failpoint import failpoint
from aggregator.plan.snapshot import ClusterSnapshot
from aggregator.status.assemble import status
from aggregator.status.schema import Phase, Status
from aggregator.status.view import View, first_view, waiting_view
from aggregator.store.lease.standby import Standby
from aggregator.store.lease.writer import Writer


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: the exit code, the last status, and its problems in words."""

    exit_code: int
    status: Status
    problems: tuple[str, ...] = ()


def run(
    config: Config,
    *,
    until_caught_up: bool = False,
    take_over: bool = False,
    standby: bool = False,
    fresh: bool = False,
    control: Control | None = None,
    stop: threading.Event | None = None,
    on_view: Callable[[View], None] | None = None,
    on_event: EventSink | None = None,
) -> RunResult:
    """Run an aggregation until `stop` is set, or, with `until_caught_up`, until it has caught up.

    `until_caught_up` copies what the sources hold at the start and ends. `take_over` ends, or
    overrules, another instance that writes this checkpoint; with `standby` it waits instead, until
    that one has ended or shows no sign of life for its lease, and uses the config of then.
    `fresh` says that hub records unknown to the checkpoint cannot be from this aggregation.
    `control` takes commands while it runs.
    `on_view` gets a view about once a second, for `aggregator.status`.
    Raises ConfigError and RefusedError (nothing was touched), ClusterError (the hub or every source
    fails), CheckpointConflictError (another instance writes this checkpoint), CheckpointError,
    JarsError.
    A source or lane that fails is no error: it is in the status, and in `problems` at the end.
    """
    stop = stop or threading.Event()
    control = control or Control(config)
    emit: EventSink = on_event or (lambda _: None)
    show: Callable[[View], None] = on_view or (lambda _: None)
    options = _RunOptions(until_caught_up, take_over, fresh)
    if not standby:
        with naming_java():
            return _run(control, stop, emit, show, options)
    waits = _standby(control, stop, emit, show)
    while True:
        silent = waits.wait()
        try:
            with naming_java():
                turn = replace(options, take_over=bool(silent), stood_by=True, silent=silent)
                return _run(control, stop, emit, show, turn)
        except HeldError as error:
            # Another standby was quicker.
            waits.again(error)


@dataclass(frozen=True, slots=True)
class _RunOptions:
    """The options of a run, as in `run`; `silent` as in `Writer.take`."""

    until_caught_up: bool
    take_over: bool
    fresh: bool
    stood_by: bool = False
    silent: str = ""


def _standby(
    control: Control,
    stop: threading.Event,
    emit: EventSink,
    show: Callable[[View], None],
) -> Standby:
    """The wait for a turn as writer: shows each change, and follows the config."""
    waits_for = STARTING

    def show_wait(words: str) -> None:
        nonlocal waits_for
        waits_for = words
        control.gate.put_off(f"it {words}")
        show(_with_config(waiting_view(control.config, words), control))

    def follow() -> None:
        before = (control.config, control.config_error, control.waiting)
        control.read_again(emit)
        if before != (control.config, control.config_error, control.waiting):
            show_wait(waits_for)

    return Standby(control.config, emit, stop, show_wait, follow)


def _with_config(view: View, control: Control) -> View:
    return replace(view, waiting=control.waiting, config_error=control.config_error)


def _run(
    control: Control,
    stop: threading.Event,
    emit: EventSink,
    show: Callable[[View], None],
    options: _RunOptions,
) -> RunResult:
    """One run, as `run` describes it, without the wait for another writer."""
    control.gate.put_off(STARTING)
    view = _with_config(first_view(control.config), control)
    show(view)
    with ExitStack() as stack:
        # 1 to 3: discover, plan, one writer
        writer, prepared, driver = _acquire(stack, control, stop, emit, options)
        config, plan = control.config, prepared.plan
        # 4 the session starts while the hub and the sources are asked for their offsets
        session = stack.enter_context(session_of(config, plan, driver))
        hub = stack.enter_context(open_admin(config, HUB))
        failpoint("after-lock")
        snapshot = first_snapshot(config, prepared)
        table = writer.claim()
        failpoint("after-epoch")
        # Those that exist: others are created later.
        topics = {name: it.partitions for name, it in plan.hub.topics.items()}
        stood = stood_at(hub, topics, config.supervision.connect_timeout)
        writer.ready(session.result(), config)
        if not writer.was_alone:
            # Another one may have kept copying during discovery.
            snapshot = first_snapshot(config, prepared)
        # 5 to 7: start, supervise, stop
        with threads_of(snapshot, session, hub, table, stood, control, emit) as threads:
            engine = Engine(
                view,
                threads,
                writer,
                control,
                emit,
                show,
                stop,
                until_done=options.until_caught_up,
                fresh=options.fresh,
            )
            problems = _run_engine(engine, threads, writer, snapshot, emit)
            if options.until_caught_up:
                problems |= engine.failed | engine.backfills.problems
        if not problems:
            writer.release()
    view = _last_view(engine.view, threads, problems)
    missing = {it: why for it, why in snapshot.unreachable.items() if it not in control.paused}
    code = _exit_code(engine, missing, problems, options.until_caught_up)
    said = [*problems.values()]
    if options.until_caught_up:
        said += [f"{sp}: {reason}" for sp, reason in engine.held.items()]
        said += [f"not taken: {it}" for it in engine.not_taken]
        said += list(missing.values())
    show(view)
    emit(Event("stopped", "stopped" + ("" if code == EXIT_DONE else f", exit code {code}")))
    return RunResult(code, status(view), tuple(dict.fromkeys(said)))


def _last_view(view: View, threads: Threads, problems: Mapping[str, str]) -> View:
    return replace(
        view,
        at=datetime.now(UTC),
        phase=Phase.FAILED if problems else Phase.STOPPED,
        reason="; ".join(problems.values()),
        # By now all that came into the topic is counted.
        services=threads.services.with_last(QuarantineWatch, view.services),
    )


def _run_engine(
    engine: Engine, threads: Threads, writer: Writer, snapshot: ClusterSnapshot, emit: EventSink
) -> dict[str, str]:
    """Steps 5 to 7. Returns lane -> problem for lanes that did not end well."""
    try:
        engine.begin(snapshot)
        count = len(engine.state.lanes)
        emit(Event("running", "1 lane runs" if count == 1 else f"{count} lanes run"))
        threads.observer.start()
        threads.poller.start()
        engine.supervise()
    except CheckpointConflictError:
        # Another instance writes this checkpoint: what is committed now would be overwritten.
        raise
    except Exception as error:
        if writer.error is not None:
            # A commit refused for that reason has failed with another error.
            raise writer.error from error
        # Running lanes end as cleanly as they can; the caller gets the error.
        engine.end()
        raise
    problems = engine.end()
    threads.observer.tick()
    engine.show()
    return problems


def _acquire(
    stack: ExitStack,
    control: Control,
    stop: threading.Event,
    emit: EventSink,
    options: _RunOptions,
) -> tuple[Writer, Prepared, Future[Driver]]:
    """Take the right to write until `stack` ends, with a plan, and a driver that starts.

    A former standby takes it first: where another one was quicker, it starts no Java and asks no
    cluster. All others show first that they can run. The plan is of the config as it is once no one
    else writes: until then commands may have changed it, and what is copied may be more.
    """

    def take() -> Writer:
        return stack.enter_context(
            Writer.take(
                control.config,
                take_over=options.take_over,
                emit=emit,
                stop=stop,
                silent=options.silent,
            )
        )

    if options.stood_by:
        writer = take()
        control.read_again(emit)
        # Java takes longer to start than the clusters to answer.
        driver = start_driver(control.config, emit)
        return writer, _planned(control.config, emit), driver
    driver = start_driver(control.config, emit)
    prepared = _planned(control.config, emit)
    # Nothing is written before this.
    writer = take()
    if control.read_again(emit, keep=("spark",)) or options.take_over:
        # By the plan of before, topics that the other one has copied since would be gone.
        prepared = _planned(control.config, emit)
    return writer, prepared, driver


def _planned(config: Config, emit: EventSink) -> Prepared:
    prepared = prepare(config)
    _refuse(prepared, config)
    failpoint("after-plan")
    plan = prepared.plan
    emit(Event("planned", f"{len(plan.routes)} routes from {len(plan.sources)} sources"))
    return prepared


def _refuse(prepared: Prepared, config: Config) -> None:
    prepared.plan.raise_if_refused()
    failed = prepared.discovery.failed
    if config.sources and not prepared.plan.sources:
        reasons = "\n".join(f"  - {failed[alias]}" for alias in config.sources)
        raise ClusterError(f"no source can be reached:\n{reasons}")


def _exit_code(
    engine: Engine, missing: Mapping[str, str], problems: dict[str, str], until_done: bool
) -> int:
    if problems:
        return EXIT_OTHER
    if until_done and missing:
        return EXIT_CLUSTER
    if until_done and (engine.held or engine.not_taken):
        return EXIT_DATA
    return EXIT_DONE
