"""The queue of commands to a running engine: put by any thread, executed by the engine's own.

Nothing else changes a running instance. A queue is closed until the engine opens it.
"""

import queue
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from aggregator.features.backfill.ranges import Backfill
from aggregator.features.positions.proposal import Proposal
from aggregator.model.errors import (
    AggregatorError,
    CheckpointConflictError,
    CheckpointError,
    ClusterError,
    ConfigError,
    RefusedError,
)
from aggregator.model.values import Part
from aggregator.plan.plan import Plan

STARTING = "it is still starting: try again in a moment"
"""The answer to a command before any can be executed."""

Answer = TypeVar("Answer")


class Actor(Protocol):
    """The engine's interface for commands. All calls are in the engine's thread."""

    def leave(self, aliases: Collection[str]) -> None:
        """End the lanes of these sources; what shares a lane with them continues."""

    def rest(self, part: Part) -> None:
        """Wait until no lane reads this part of a source."""

    def check_part(self, part: Part) -> None:
        """Raise RefusedError when none of it is selected."""

    def request_discovery(self) -> None:
        """Run discovery soon, and apply its result."""

    def put(self, proposal: Proposal) -> int:
        """Commit positions that were set by hand; returns the commit's number."""

    def order_backfill(self, backfill: Backfill) -> Backfill:
        """Store a backfill, and begin it when its turn has come."""

    def cancel_backfill(self, name: str) -> Backfill:
        """Cancel a backfill."""

    def check(self, plan: Plan) -> None:
        """Raise ConfigError when a transform of this plan does not fit."""

    def publish(self) -> None:
        """Publish the status of now."""


class NotReadyError(AggregatorError):
    """No command can be executed now: the instance is still starting, or stopping."""


class CommandGate:
    """Holds commands until the engine's thread executes them."""

    def __init__(self) -> None:
        self._commands: queue.SimpleQueue[tuple[Future[Any], Callable[[Actor], Any]]]
        self._commands = queue.SimpleQueue()
        self._closed = STARTING
        self._lock = threading.Lock()

    def ask(self, act: Callable[[Actor], Answer], seconds: float) -> Answer:
        """Run `act` in the engine's thread; returns or raises what it does.

        NotReadyError while the queue is closed, and when there is no answer within `seconds`.
        """
        future: Future[Answer] = Future()
        with self._lock:
            self.check_open()
            self._commands.put((future, act))
        try:
            return future.result(seconds)
        except TimeoutError as error:
            future.cancel()
            raise NotReadyError("it is busy and did not answer in time: see its log") from error

    @property
    def has_commands(self) -> bool:
        """Whether a command waits."""
        return not self._commands.empty()

    def check_open(self) -> None:
        """Raise NotReadyError while the queue is closed."""
        if self._closed:
            raise NotReadyError(self._closed)

    def open(self) -> None:
        """Take commands from now on."""
        self._closed = ""

    def put_off(self, why: str) -> None:
        """Refuse commands with this reason until `open`."""
        self._closed = why

    def close(self) -> None:
        """Refuse further commands, and those that wait."""
        with self._lock:
            self._closed = "it is stopping"
        while (command := self._next()) is not None:
            future, _ = command
            # No one waits for one that was not executed in time.
            if future.set_running_or_notify_cancel():
                future.set_exception(NotReadyError(self._closed))

    def handle(self, engine: Actor) -> None:
        """Execute what waits. A refusal is the caller's; any other error is also the engine's."""
        while (command := self._next()) is not None:
            future, act = command
            if not future.set_running_or_notify_cancel():
                continue
            try:
                answer = act(engine)
                # A caller that is answered, and then asks for the status, has to find it done.
                engine.publish()
                future.set_result(answer)
            except (ConfigError, RefusedError, ClusterError, CheckpointError) as error:
                future.set_exception(error)
                if isinstance(error, CheckpointConflictError):
                    # Another instance writes: nothing may be done after it.
                    raise
            except BaseException as error:
                future.set_exception(error)
                raise

    def _next(self) -> tuple[Future[Any], Callable[[Actor], Any]] | None:
        try:
            return self._commands.get_nowait()
        except queue.Empty:
            return None
