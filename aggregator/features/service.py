"""What a service is: an optional feature that follows the plan beside the engine.

How to add one: a folder with a `Service`, and a line in `features/services.py`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.datapath.connector.hub_origins import OpenOrigins
from aggregator.kafka.admin import ClusterAdmin
from aggregator.model.events import EventSink
from aggregator.model.loop import Loop
from aggregator.model.values import LogId, Positions, SourcePartition
from aggregator.plan.completeness.marks import Mark
from aggregator.plan.lifecycle.inputs import Measured
from aggregator.plan.lifecycle.state import State
from aggregator.plan.plan import Plan
from aggregator.status.service_status import ServicePart, ServiceStatus
from aggregator.store.checkpoint.start_state import CheckpointState


@dataclass(frozen=True, slots=True)
class Resources:
    """What a service may be made of.

    `hub` is open until the service has stopped. `events` is what the connector knows of events,
    for dedup; `open_origins` has the driver's Java read where records of the hub are from.
    """

    in_force: InForce
    emit: EventSink
    hub: ClusterAdmin
    events: Any
    open_origins: OpenOrigins


@dataclass(frozen=True, slots=True)
class EngineProgress:
    """How far the engine is: its state, the positions and their logs, and the probes' answers.

    `positions` are not older than `logs`, what they count in. `ages` counts records of each source
    (alias) by age, as of when it is called. `at` are monotonic seconds, `at_ms` is the time of the
    day. With the `last` one all lanes have ended.
    """

    state: State
    logs: Mapping[SourcePartition, LogId]
    positions: Positions
    marks: Mapping[str, Mark]
    measured: Measured | None
    at: float
    at_ms: int
    ages: Callable[[], Mapping[str, Sequence[int]]] = dict
    last: bool = False


@dataclass(frozen=True, slots=True)
class Now:
    """A moment of the engine: `reading` are the sources (alias) of which records are read.

    A run that is `until_done` ends by itself. `progress` is None before the engine has any. `plan`
    is the same object until a look leads to another one.
    """

    config: Config
    plan: Plan | None
    committed: CheckpointState
    reading: frozenset[str] = frozenset()
    until_done: bool = False
    progress: EngineProgress | None = None


class Service:
    """One per run. All but its own thread (`Loop`) is the engine's thread, and must not wait.

    Calls come in this order: `start`; `follow` and `status` any number of times; `end`; perhaps
    `follow` and `status` again; `stop`. A failure is a status and an event, never an exception,
    except of `start`. Nothing that a service does decides what is copied.
    """

    name: ClassVar[str]
    """Its field of the status document."""
    part: ClassVar[type[ServiceStatus] | None] = None
    """The type of this field, if `status/schema.py` has none of this name."""

    def start(self) -> None:
        """Begin, before any record is written.

        A service without work by this config starts no thread. Raises ClusterError when the hub
        has to answer, and does not.
        """

    def follow(self, now: Now) -> None:
        """Take the newest inputs: about once a second, and once more when all lanes have ended."""

    def status(self) -> ServicePart | None:
        """Its part of the status document, a value that does not change; None when it is off."""
        return None

    def source_errors(self) -> Mapping[str, str]:
        """What it cannot do for a source: alias -> why, which is shown with the source."""
        return {}

    def heard(self) -> Collection[str] | None:
        """The sources of whose ends it knows what it has to; None when it has to know nothing.

        A run that is `until_done` waits for those that it has copied.
        """
        return None

    def end(self) -> None:
        """Begin nothing new that other systems see; returns at once. The lanes end meanwhile."""

    def stop(self) -> None:
        """Keep what has to be kept, and wait for its thread, for a limited time."""


class Looped:
    """What takes the turns of a loop."""

    _loop: Loop

    def end(self) -> None:
        """Take no more turns; returns at once."""
        self._loop.end()

    def stop(self) -> None:
        """End it, and wait for the end, for a limited time."""
        self._loop.stop()


class LoopService(Looped, Service):
    """One that takes the turns of a loop, and does nothing else."""
