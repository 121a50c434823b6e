"""A step of a scenario: what is done to a source, and how long the others are silent then."""

from __future__ import annotations

import time
from collections.abc import Callable

from faults.judge import longest_silence
from faults.world import Step, World


def step(world: World, what: str, alias: str, act: Callable[[], None]) -> None:
    """Do something to a source, all of it in `act`, and note from when to when that was."""
    world.progress(what)
    begin = _now_ms()
    act()
    world.steps.append(Step(what, alias, begin, _now_ms()))


def report_silence(limit_seconds: float) -> Callable[[World], None]:
    """Say how long the sources were silent at each step, by the hub's own arrival times.

    More than the limit is a failure, except of the source that the step was about, and except of
    a step that was about none: so the machine itself is shown.
    """

    def evaluate(world: World) -> None:
        for done in world.steps:
            shown = []
            for alias, arrivals in world.hub_arrivals.items():
                found = longest_silence(arrivals, done.begin_ms, done.end_ms)
                silence, since = (it / 1000 for it in found)
                since_ms = done.begin_ms + found[1]
                made = world.source_arrivals[alias]
                # What no one wrote cannot arrive: the load itself may have stood still.
                without_load = longest_silence(made, since_ms, since_ms + found[0])[0] / 1000
                own = alias == done.alias
                judged = bool(done.alias) and not own
                shown.append(
                    f"{alias} {silence:.2f} s, {since:.1f} s after it began"
                    + (" (the source itself)" if own else f", {without_load:.2f} s without load")
                )
                if judged and silence - without_load > limit_seconds:
                    world.note(
                        f"{alias} was silent for {silence:.2f} s, more than {limit_seconds:g} s, "
                        f"when {done.what}"
                    )
            world.notes.append(f"longest silence when {done.what}: {'; '.join(shown)}")

    return evaluate


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
