"""A day of ticks, by clocks of the test: what lives as long as a run does not grow with time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from aggregator.events import Event
from aggregator.flow.stage import Stage
from aggregator.model import Positions, SourcePartition
from aggregator.plan.behind import Delays
from aggregator.plan.stuck import Movement, follow
from aggregator.serve.holder import StatusHolder
from aggregator.status.figures import Figures
from aggregator.timeline.feed import KEPT, UNSAVED, Feed
from support.flow_world import PARTITIONS, running
from support.statuses import status_with

DAY_SECONDS = 86_400
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
EU0 = SourcePartition("eu", "orders", 0)
LOOKS = 100


def size(value: object) -> int:
    """How many things are in it, in whatever it holds: items, and fields of ours."""
    seen, kept, left = set[int](), list[object](), [value]
    while left:
        it: Any = left.pop()
        if id(it) in seen:
            continue
        seen.add(id(it))
        # Else another thing could have its id.
        kept.append(it)
        if isinstance(it, Mapping):
            left += [*it.keys(), *it.values()]
        elif isinstance(it, (list, tuple, set, frozenset, deque)):
            left += it
        elif is_dataclass(it) and not isinstance(it, type):
            left += [getattr(it, field.name) for field in fields(it)]
        elif type(it).__module__.startswith("aggregator."):
            left += getattr(it, "__dict__", {}).values()
    return len(seen)


def largest(value: Callable[[], object], tick: Callable[[int], object], ticks: int) -> list[int]:
    """How large it was at most in the first half of its life, and in the second."""
    most = [0, 0]
    for number in range(ticks):
        tick(number)
        if number % (ticks // LOOKS) == 0:
            half = number * 2 // ticks
            most[half] = max(most[half], size(value()))
    return most


def test_what_is_kept_of_statuses_and_figures_is_of_the_last_minutes() -> None:
    holder, figures, status = StatusHolder(), Figures(), status_with()
    first, second = largest(
        lambda: holder,
        lambda at: holder.put(BEGIN + timedelta(seconds=at), status.phase, lambda: status),
        DAY_SECONDS,
    )
    assert second <= first
    first, second = largest(lambda: figures, lambda at: figures.at(float(at)), DAY_SECONDS)
    assert second <= first


def test_what_is_kept_of_a_log_that_moves_is_of_what_waits() -> None:
    delays, movements = Delays(), dict[SourcePartition, Movement]()

    def tick(at: int) -> None:
        nonlocal movements
        ends = {EU0: at + 10_000}
        movements = follow(movements, Positions({EU0: at}), ends, float(at))
        delays.follow({EU0: at}, ends, {"eu": float(at)}, (), float(at))

    first, second = largest(lambda: (delays, movements), tick, DAY_SECONDS)
    assert second <= first


def test_events_that_no_table_takes_are_bounded() -> None:
    feed = Feed(str)
    for _ in range(UNSAVED + 10):
        feed.take(Event("kind", "words", {}, BEGIN))
    assert len(feed.unsaved()) == UNSAVED
    assert len(feed.after(0)) == KEPT


def test_the_state_of_a_run_whose_sources_come_and_go_does_not_grow() -> None:
    world = running()

    def tick(at: int) -> None:
        world.errors = {"us": "it is away"} if at % 20 < 10 else {}
        world.silent = {"eu": "no answer"} if at % 30 < 10 else {}
        world.paused = {"us"} if at % 70 < 10 else set()
        world.turn()

    first, second = largest(lambda: world.state, tick, 1_000)
    assert second <= 1.1 * first
    world.errors, world.silent, world.paused = {}, {}, set()
    world.until_all(Stage.READING, *PARTITIONS)
