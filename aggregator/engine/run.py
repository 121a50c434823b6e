"""One run of an aggregation, from its config to its exit code: the steps, in their order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from aggregator.audit.document import Phase, Status
from aggregator.checkpoint.lock import WriterLock
from aggregator.checkpoint.table import CheckpointTable
from aggregator.config.schema import Config
from aggregator.discover import HUB, ClusterAdmin, open_admin
from aggregator.engine.board import Board
from aggregator.engine.engine import Engine, Parts
from aggregator.engine.events import Event, EventSink
from aggregator.engine.hub import read_snapshot
from aggregator.engine.look import Look, Lookout, first_look, identity_of
from aggregator.engine.observer import Observer
from aggregator.engine.prepare import Prepared, prepare
from aggregator.engine.sources import SourcesWatch
from aggregator.errors import (
    EXIT_CLUSTER,
    EXIT_DATA,
    EXIT_DONE,
    EXIT_OTHER,
    CheckpointConflictError,
    ClusterError,
)
from aggregator.jars import cache_folder, jars, java_command, spark_java_home
from aggregator.plan.plan import Plan
from aggregator.stream.interceptor import interceptor_jar
from aggregator.stream.session import build_session, session_conf


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: the exit code, the last status, and what did not go well, in words."""

    exit_code: int
    status: Status
    problems: tuple[str, ...] = ()


def run(
    config: Config,
    *,
    until_caught_up: bool = False,
    stop: threading.Event | None = None,
    on_status: Callable[[Status], None] | None = None,
    on_event: EventSink | None = None,
) -> RunResult:
    """Run an aggregation until `stop` is set, or, with `until_caught_up`, until it has caught up.

    `until_caught_up` copies what the sources hold at the start and ends. Raises ConfigError and
    RefusedError (nothing was touched), ClusterError (the hub or every source fails),
    CheckpointConflictError (another instance writes this checkpoint), CheckpointError, JarsError.
    A source or lane that fails is no error: it stands in the status, and in `problems` at the end.
    """
    stop = stop or threading.Event()
    emit: EventSink = on_event or (lambda _: None)
    tell: Callable[[Status], None] = on_status or (lambda _: None)
    trigger = "available-now" if until_caught_up else config.stream.trigger
    until_done = trigger == "available-now"
    board = Board(config, trigger)
    tell(board.document())
    # 1 discover, 2 plan
    prepared = prepare(config)
    _refuse(prepared, config)
    plan = prepared.plan
    emit(Event("planned", f"{len(plan.routes)} routes from {len(plan.sources)} sources"))
    with (
        # 3 one writer: nothing is written before this
        WriterLock.acquire(config.checkpoint.path) as lock,
        # 4 the session starts while the hub and the sources are asked for their offsets
        _session(config, plan, emit) as session,
        open_admin(config, HUB) as hub,
    ):
        look = first_look(config, prepared)
        table = CheckpointTable.create(config.checkpoint.path, config.checkpoint.storage_options)
        table.claim_epoch(str(lock.owner))
        # 5 to 7: start, supervise, stop
        with _parts(config, look, session, hub, table, board, emit) as parts:
            engine = Engine(config, parts, trigger, emit, tell, stop)
            problems = _live(engine, parts, look, board, emit, until_done)
    board.phase = Phase.FAILED if problems else Phase.STOPPED
    board.reason = "; ".join(problems.values())
    code = _exit_code(engine, look, problems, until_done)
    said = [*problems.values()]
    if until_done:
        said += [f"{sp}: {reason}" for sp, reason in engine.held.items()]
        said += list(look.unreachable.values())
    status = board.document()
    tell(status)
    emit(Event("stopped", "stopped" + ("" if code == EXIT_DONE else f", exit code {code}")))
    return RunResult(code, status, tuple(dict.fromkeys(said)))


def _live(
    engine: Engine, parts: Parts, look: Look, board: Board, emit: EventSink, until_done: bool
) -> dict[str, str]:
    """Steps 5 to 7. Returns lane -> problem for lanes that did not end well."""
    try:
        engine.begin(look)
        board.phase = Phase.RUNNING
        emit(Event("running", f"{len(board.lanes)} lanes run"))
        parts.observer.start()
        parts.sources.start()
        parts.lookout.start()
        engine.supervise(until_done=until_done)
    except CheckpointConflictError:
        # Somebody else writes this checkpoint: whatever is committed now would be his.
        raise
    except Exception:
        # What runs already ends as cleanly as it can; the error is what the caller sees.
        engine.end()
        raise
    problems = engine.end()
    parts.observer.tick()
    engine.tell(now=True)
    failed = {name: note.reason for name, note in board.lanes.items() if note.reason}
    return problems | (failed if until_done else {})


def _refuse(prepared: Prepared, config: Config) -> None:
    prepared.plan.raise_if_refused()
    failed = prepared.discovery.failed
    if not prepared.plan.sources:
        reasons = "\n".join(f"  - {failed[alias]}" for alias in config.sources)
        raise ClusterError(f"no source can be reached:\n{reasons}")


@contextmanager
def _session(config: Config, plan: Plan, emit: EventSink) -> Iterator[Future[SparkSession]]:
    """The Spark session, built in the background; ended with the block, also after an error."""
    folder = Path(config.spark.jars) if config.spark.jars else None
    paths = jars("spark", folder=folder, progress=lambda line: emit(Event("jars", line)))
    clients = next(path for path in paths if path.name.startswith("kafka-clients-"))
    extra = interceptor_jar(cache_folder(), clients, java_command())
    partitions = sum(route.partitions for route in plan.routes)
    conf = session_conf(config, plan.slots.master, [*paths, extra], partitions)
    with ThreadPoolExecutor(1, thread_name_prefix="session") as pool:
        future = pool.submit(build_session, conf, spark_java_home())
        try:
            yield future
        finally:
            future.result().stop()


@contextmanager
def _parts(
    config: Config,
    look: Look,
    session: Future[SparkSession],
    hub: ClusterAdmin,
    table: CheckpointTable,
    board: Board,
    emit: EventSink,
) -> Iterator[Parts]:
    """What an engine is made of; its threads are ended with the block."""
    observer = Observer(
        table,
        lambda topics: read_snapshot(hub, topics, config.supervision.connect_timeout),
        identity_of(look.plan),
        config.stream.checkpoint_interval,
        config.checkpoint.history,
        emit,
    )
    lookout = Lookout(config, look.plan.sources)
    sources = SourcesWatch(config)
    try:
        with open_admin(config, HUB) as admin:
            yield Parts(session.result(), observer, lookout, sources, admin, board)
    finally:
        lookout.stop()
        sources.stop()
        observer.stop()


def _exit_code(engine: Engine, look: Look, problems: dict[str, str], until_done: bool) -> int:
    if problems:
        return EXIT_OTHER
    if until_done and look.unreachable:
        return EXIT_CLUSTER
    if until_done and engine.held:
        return EXIT_DATA
    return EXIT_DONE
