"""A task's report as JSON: all of it, or what has changed since the last (`TaskReport.java`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from aggregator.datapath.connector.reports import TaskReport

PARTS, PLACES = 6, 4


def task_report(**changed: Any) -> dict[str, Any]:
    """The whole report of one task, as `TaskReport.whole` renders it."""
    return {
        "lane": "orders",
        "generation": 3,
        "reading": 0,
        "task": 0,
        "cluster": "eu",
        "number": 1_000,
        "point": 7,
        "at": 1_700_000_000_123,
        "snapshot": 5,
        "positions": {"orders/0": 10, "orders/1": 20},
        "states": {},
        "reasons": {},
        "cuts": {},
        "topics": {"orders": [4, 400]},
        "ends": [["hub.orders", 0, 31], ["hub.orders", 2, 33]],
        "error": "",
        "ended": False,
        "skipping": False,
        "skipped": 0,
        "replayed": 0,
        "looped": 0,
        "retried": 0,
        "read_bytes": 0,
        "objects": "",
        "age": [0, 1, 2],
        "flight": [3, 0, 0],
        "unknown": [["orders", "value", "17"]],
    } | changed


def message(*tasks: Mapping[str, Any], **changed: Any) -> str:
    """What `Lanes.reports` renders, with these tasks."""
    plain = {"seq": 1, "moves": 0, "over": [], "unheard": {}, "ends": [], "cuts": []}
    return json.dumps({**plain, "tasks": list(tasks), **changed})


def since(base: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What has changed since a task's report, as `TaskReport.since` renders it."""
    changed = {name: it for name, it in now.items() if it != base[name] and name != "number"}
    for name in changed.keys() & {"positions", "topics"}:
        changed[name] = {key: at for key, at in now[name].items() if at != base[name].get(key)}
    if "ends" in changed:
        changed["ends"] = [end for end in now["ends"] if end not in base["ends"]]
    named = {name: now[name] for name in ("lane", "generation", "reading", "task")}
    return {**named, "base": base["number"], **changed}


class Reporter:
    """A task that has some partitions; it reports no more than it has to."""

    def __init__(self, number: int) -> None:
        self.ends = [0] * PLACES
        self.records = [0] * PARTS
        names = [f"orders{part}/{number}" for part in range(PARTS)]
        positions = dict.fromkeys(names, 0)
        self.now = task_report(task=number, positions=positions, topics={}, ends=[], point=0)
        self._base: dict[str, Any] | None = None

    def advance(self, parts: Sequence[int], places: Sequence[int], state: str) -> None:
        """A record of each of these parts has arrived at these places; one has this state."""
        positions = dict(self.now["positions"])
        for part in parts:
            self.records[part] += 1
            positions[list(positions)[part]] += 1
        for place in places:
            self.ends[place] += 1
        states = {list(positions)[len(parts) % PARTS]: state} if state else {}
        ends = [["hub.orders", place, end] for place, end in enumerate(self.ends) if end]
        topics = {f"orders{part}": [count, 10 * count] for part, count in enumerate(self.records)}
        self.now = self.now | {
            "point": self.now["point"] + 1,
            "snapshot": self.now["snapshot"] + len(places),
            "positions": positions,
            "states": states,
            "topics": topics,
            "ends": ends,
            "flight": [sum(self.records), 0, 0],
        }

    def reports(self, known: TaskReport | None, *, whole: bool) -> list[dict[str, Any]]:
        """What it reports now to a reader who knows this report of it, or none."""
        if whole or self._base is None:
            number = 1 if self._base is None else self._base["number"] + 1
            self._base = self.now | {"number": number}
            return [self._base]
        has_base = known and known.base and known.base.number == self._base["number"]
        return [*([] if has_base else [self._base]), since(self._base, self.now)]


Step = tuple[int, list[int], list[int], str, bool, bool]
"""A task advances: its number, parts, places, a state, whether it reports all, and whether that is
read.
"""


def steps() -> st.SearchStrategy[list[Step]]:
    """What two tasks do."""
    step = st.tuples(
        st.integers(0, 1),
        st.lists(st.integers(0, PARTS - 1), max_size=3),
        st.lists(st.integers(0, PLACES - 1), max_size=2),
        st.sampled_from(["", "", "", "held", "stuck"]),
        st.booleans(),
        st.booleans(),
    )
    return st.lists(step, max_size=30)
