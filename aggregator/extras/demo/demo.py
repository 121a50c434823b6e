"""The demo: two sources under load, a hub, an aggregator between them, and a count of the result.

What the aggregator did is judged by an independent reader (`hub_reader`, `verdict`), against what
the sources acknowledged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aggregator.extras.demo.generator import REGIONS, TOPICS, EventMaker
from aggregator.extras.demo.hub_reader import DemoReader, Example, Tail
from aggregator.extras.demo.load import Load, loading
from aggregator.extras.demo.verdict import Flow, Tally, percentile, tally
from aggregator.extras.demo.world import World, check_alive
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.model.errors import AggregatorError

SOURCE_PARTITIONS = {"eu": 6, "us": 3}
TICK_SECONDS = 0.25
START_SECONDS = 300.0
CATCH_UP_SECONDS = 60.0
WARM_UP_SECONDS = 10.0
"""Latency counts from this long after the first arrival (half of a short demo): by then the backlog
from before the start is copied, and the JVMs are warm."""


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of a demo."""

    seconds: float = 30.0
    rate: float = 1000.0
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the demo is: what it does, what the aggregator says of itself, and the counts.

    `dashboard` is the address of its pages, and empty as long as nothing answers there.
    """

    step: str
    seconds: float
    phase: str = ""
    sent: dict[Flow, int] | None = None
    arrived: dict[Flow, int] | None = None
    dashboard: str = ""


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """What came of it. Latencies are in ms, None when none was measured."""

    flows: dict[Flow, Tally]
    latency_ms: dict[str, float | None]
    measured: int
    example: Example | None
    first_record_seconds: float

    @property
    def perfect(self) -> bool:
        """Whether every record sent is in the hub once, in order, and nothing else is."""
        return bool(self.flows) and all(flow.perfect for flow in self.flows.values())


class Demo:
    """One demo; a context manager that leaves nothing behind."""

    def __init__(
        self, options: Options, report: Callable[[Progress], None], stop: threading.Event
    ) -> None:
        self.options = options
        self._report = report
        self._stop = stop
        self._began = time.monotonic()
        self._world = World(SOURCE_PARTITIONS, TOPICS, self._print)

    def __enter__(self) -> Demo:
        self._world.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._world.__exit__()

    def run(self) -> DemoOutcome:
        """The demo itself, until its seconds are over or `stop` is set; then what came of it.

        AggregatorError with the log's end when the aggregator fails, ClusterError for a cluster.
        """
        clusters = self._world.clusters
        hub = clusters["hub"].bootstrap_servers
        loads = [
            Load(
                alias,
                clusters[alias].bootstrap_servers,
                EventMaker(REGIONS[alias], self.options.seed),
                self.options.rate / len(SOURCE_PARTITIONS),
            )
            for alias in SOURCE_PARTITIONS
        ]
        tail = Tail(hub, TOPICS)
        with self._world.aggregator() as child, _following(tail), loading(loads, Load.stop):
            first = self._watch(child, loads, tail)
        # Only now, so that nothing that the aggregator still does can change the count.
        self._print("counting")
        reader = DemoReader(hub, TOPICS)
        sent = {tp: offsets for load in loads for tp, offsets in load.acknowledged().items()}
        flows = tally(sent, reader.read())
        latencies = tail.latencies()
        return DemoOutcome(
            flows=dict(sorted(flows.items())),
            latency_ms={
                name: percentile(latencies, share)
                for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
            },
            measured=len(latencies),
            example=reader.example,
            first_record_seconds=first,
        )

    def _watch(self, child: GuardedProcess, loads: list[Load], tail: Tail) -> float:
        """Report progress until it is over and caught up; the seconds until the first arrival."""
        began = time.monotonic()
        first: float | None = None
        ends = began + START_SECONDS
        while not self._stop.wait(TICK_SECONDS) and time.monotonic() < ends:
            check_alive(child)
            sent, arrived = _sent(loads), tail.counts()
            if first is None and arrived:
                first = time.monotonic() - began
                ends = time.monotonic() + self.options.seconds
                warm_up = min(WARM_UP_SECONDS, self.options.seconds / 2)
                tail.measure_from((time.time() + warm_up) * 1000)
            self._print("streaming" if arrived else "starting the aggregator", sent, arrived)
        if first is None:
            if self._stop.is_set():
                raise AggregatorError("stopped before the first record was in the hub")
            raise AggregatorError(
                f"no record has arrived within {START_SECONDS:g} s:\n{child.log_tail()}"
            )
        for load in loads:
            load.stop()
        sent = _sent(loads)
        ends = time.monotonic() + CATCH_UP_SECONDS
        while time.monotonic() < ends:
            check_alive(child)
            arrived = tail.counts()
            self._print("catching up", sent, arrived)
            if all(arrived.get(flow, 0) >= count for flow, count in sent.items()):
                break
            time.sleep(TICK_SECONDS)
        return first

    def _print(
        self,
        step: str,
        sent: dict[Flow, int] | None = None,
        arrived: dict[Flow, int] | None = None,
    ) -> None:
        phase = str(self._world.status().get("phase", "")) if sent is not None else ""
        self._report(
            Progress(
                step,
                time.monotonic() - self._began,
                phase=phase,
                sent=sent,
                arrived=arrived,
                dashboard=f"{self._world.url}/ui/" if phase else "",
            )
        )


@contextmanager
def _following(tail: Tail) -> Iterator[None]:
    tail.start()
    try:
        yield
    finally:
        tail.stop()


def _sent(loads: list[Load]) -> dict[Flow, int]:
    return {
        Flow(load.alias, topic): count for load in loads for topic, count in load.counts().items()
    }
