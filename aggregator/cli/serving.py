"""Serves the API beside a run: takes its port first, or when another instance releases it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from aggregator.config.values import parse_listen
from aggregator.model.errors import AggregatorError, ConfigError

if TYPE_CHECKING:
    from aggregator.api.latest_status import StatusHolder
    from aggregator.api.server import ApiServer
    from aggregator.engine.control.commands import Control
    from aggregator.features.timeline.recorder import Recorder
    from aggregator.features.verify.audit_process import AuditRunner
    from aggregator.status.view import View

RETRY_SECONDS = 0.5

Log = Callable[..., None]


@contextmanager
def serving(
    control: Control, log: Log, recorder: Recorder, *, take_over: bool
) -> Iterator[Callable[[View], None]]:
    """The API while the block runs, which commands by `control`; gives what takes each new view.

    Events are those of `recorder`.

    With a port that cannot be had: CheckpointConflictError when that is because another instance
    runs on this checkpoint, else ConfigError. With `take_over` it answers once the port is free.
    """
    from aggregator.api.latest_status import StatusHolder
    from aggregator.features.verify.audit_process import AuditRunner
    from aggregator.status.assemble import status

    holder, audits = StatusHolder(), AuditRunner()

    def take(view: View) -> None:
        holder.recent.take(view)
        holder.put(view.at, view.phase, lambda: status(view))

    make = partial(_server, control, holder, recorder, audits, log)
    over = threading.Event()
    server: ApiServer | None = None
    waiting: threading.Thread | None = None
    try:
        server = make()
    except ConfigError:
        if not take_over:
            from aggregator.store.lease.lock import refuse_if_locked

            refuse_if_locked(control.config.checkpoint.path)
            raise
        waiting = threading.Thread(
            target=_later, args=(make, control.config.api.listen, log, over), daemon=True
        )
        waiting.start()
    try:
        if server is not None:
            _start(server, log)
        yield take
    finally:
        over.set()
        # Who follows the events would keep the server from ending.
        recorder.feed.close()
        audits.close()
        if server is not None:
            server.stop()
        if waiting is not None:
            waiting.join()


def _later(
    make: Callable[[], ApiServer | None], listen: str, log: Log, over: threading.Event
) -> None:
    log("api", f"api.listen {listen} is in use: waiting for it")
    while not over.wait(RETRY_SECONDS):
        try:
            server = make()
        except ConfigError:
            continue
        if server is None:
            return
        try:
            _start(server, log)
            over.wait()
        except AggregatorError as error:
            log("api_failed", str(error))
        finally:
            server.stop()
        return


def _start(server: ApiServer, log: Log) -> None:
    server.start()
    log("api", f"the API answers on {server.url}")


def _server(
    control: Control, holder: StatusHolder, recorder: Recorder, audits: AuditRunner, log: Log
) -> ApiServer | None:
    config = control.config
    address = parse_listen(config.api.listen)
    if address is None:
        return None
    from aggregator.api.app import make_app
    from aggregator.api.server import ApiServer

    app = make_app(control, holder, recorder, audits)

    def died(reason: str) -> None:
        log(
            "api_failed",
            f"the API has ended ({reason}); records flow on; restart to have it back",
        )

    return ApiServer(app, *address, config.api.tls, on_death=died)
