"""Which backfill an instance begins, which wait, and which can never run; none is read here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aggregator.config.load import load_text
from aggregator.features.backfill import runner as backfills_run
from aggregator.features.backfill.backfill_table import BackfillTable
from aggregator.features.backfill.lane import BackfillSight, BackfillTry, Tools, limit_of
from aggregator.features.backfill.ranges import Backfill, BackfillPart, BackfillState
from aggregator.features.backfill.runner import Backfills
from aggregator.model.errors import ClusterError, RefusedError
from aggregator.model.events import Event
from aggregator.model.values import OffsetRange, Positions, Route
from aggregator.plan.lanes.rate_limits import Limit
from aggregator.plan.plan import Plan
from aggregator.plan.positions.start import Observed
from aggregator.plan.snapshot import ClusterSnapshot
from aggregator.store.state_store import StateStore
from support.backfills import LOG, SP, backfill
from support.reading import wait_for

SETS = (
    "hub.bootstrap_servers=127.0.0.1:1",
    "sources.eu.bootstrap_servers=127.0.0.1:2",
    "sources.eu.topics.include=orders",
)
ROUTE = Route("eu", "orders", "orders", partitions=1, hub_partitions=4)


class World:
    """Backfills whose tries are noted, and never make progress."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = BackfillTable(StateStore(str(folder)))
        self.events: list[Event] = []
        self.begun: list[str] = []
        self.backfills = self.restarted()
        monkeypatch.setattr(backfills_run, "SETTLE_SECONDS", 0.0)
        monkeypatch.setattr(backfills_run, "BackfillTry", self._begin)

    def restarted(self) -> Backfills:
        """As the next start finds them."""
        tools = cast("Tools", SimpleNamespace(emit=self.events.append))
        found = Backfills(tools, self.table, lambda: None)
        found._not_before = 0.0
        found.load()
        self.backfills = found
        return found

    def sight(self, **parts: Any) -> BackfillSight:
        """A live flow at 100, and the log that the backfills were ordered of."""
        plan = cast("Plan", SimpleNamespace(routes=(ROUTE,)))
        ids = {("eu", "orders"): parts.pop("topic_id", LOG.topic)}
        observed = Observed({"eu": LOG.cluster}, ids, {SP: OffsetRange(0, 500)})
        plain = BackfillSight(
            load_text("", SETS),
            ClusterSnapshot(plan, observed, {}, 1e12),
            Positions({SP: 100}),
            {},
            frozenset(),
            lambda _: "",
        )
        return replace(plain, **parts)

    def doing(self) -> list[tuple[str, str]]:
        return [(it.state, it.doing) for it in self.backfills.statuses()]

    def _begin(self, _: Tools, it: Backfill, *__: object) -> BackfillTry:
        self.begun.append(it.id)
        return cast("BackfillTry", SimpleNamespace(backfill=it, query=None, after=None, key="open"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_one_runs_at_a_time_in_the_order_in_which_they_were_ordered(world: World) -> None:
    world.backfills.order(backfill())
    other = backfill(parts=(BackfillPart(SP._replace(partition=1), 0, 9, 0),))
    world.backfills.order(other)
    assert world.backfills.is_busy
    world.backfills.turn(world.sight(live=Positions({SP: 100, SP._replace(partition=1): 9})))
    assert world.begun == ["b1"]
    assert [doing for _, doing in world.doing()] == [
        "asks the hub what it holds",
        "waits for its turn",
    ]
    assert [it.kind for it in world.events] == ["backfill_ordered"] * 2


def test_what_was_ordered_is_there_after_a_restart_and_no_range_is_ordered_twice(
    world: World,
) -> None:
    world.backfills.order(backfill())
    with pytest.raises(RefusedError, match="another backfill reads eu/orders-0"):
        world.restarted().order(backfill())
    world.backfills.turn(world.sight())
    assert world.begun == ["b1"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda it: replace(it, rests=lambda _: "paused since noon"), "waits: paused since noon"),
        (lambda it: replace(it, live=Positions()), "waits: eu/orders-0 has no position"),
        (
            lambda it: replace(
                it, snapshot=replace(it.snapshot, plan=cast("Plan", SimpleNamespace(routes=())))
            ),
            "waits: its topic is not selected",
        ),
    ],
)
def test_what_is_to_rest_waits_and_holds_no_other_one_up(
    change: Callable[[BackfillSight], BackfillSight], words: str, world: World
) -> None:
    world.backfills.order(backfill())
    world.backfills.turn(change(world.sight()))
    ((state, doing),) = world.doing()
    assert (state, doing.startswith(words)) == ("ACTIVE", True), doing
    assert world.begun == []
    # A run that is to end does not wait for it.
    assert not world.backfills.is_busy
    world.backfills.turn(world.sight())
    assert world.begun == ["b1"]


def test_another_log_or_a_live_flow_that_was_set_back_fails_it_for_good(world: World) -> None:
    world.backfills.order(backfill())
    world.backfills.turn(world.sight(topic_id="new"))
    world.backfills.order(backfill())
    world.backfills.turn(world.sight(live=Positions({SP: 50})))
    assert world.begun == []
    assert [it.kind for it in world.events].count("backfill_failed") == 2
    found = world.table.load()
    assert [it.state for it in found.values()] == [BackfillState.FAILED] * 2
    assert "created again" in found["b1"].reason
    assert "set back to 50" in found["b2"].reason


def test_what_is_cancelled_before_its_turn_is_never_read(world: World) -> None:
    world.backfills.order(backfill())
    world.backfills.cancel("b1")
    with pytest.raises(RefusedError, match="b1 is CANCELLED already"):
        world.restarted().cancel("b1")
    world.backfills.turn(world.sight())
    assert (world.begun, world.backfills.is_busy) == ([], False)


@pytest.mark.parametrize("why", ["cancelled", "paused"])
def test_a_scan_of_what_is_cancelled_or_must_rest_holds_no_other_up(
    why: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may read a hub topic for hours."""

    def cancellation() -> SimpleNamespace:
        flag = threading.Event()
        return SimpleNamespace(cancel=flag.set, wait=flag.wait)

    def read(work: Any, _: BackfillSight) -> None:
        assert work._cancellation.wait(30)
        raise ClusterError("hub: its tail cannot be read: cancelled")

    def other_begins() -> bool:
        world.backfills.turn(rests)
        return world.doing()[1][1] == "asks the hub what it holds"

    connector = SimpleNamespace(cancellation=cancellation)
    tools = SimpleNamespace(connector=connector, emit=world.events.append)
    monkeypatch.setattr(world.backfills, "_tools", tools)
    monkeypatch.setattr(BackfillTry, "_read", read)
    monkeypatch.setattr(backfills_run, "BackfillTry", BackfillTry)
    other = SP._replace(partition=1)
    world.backfills.order(backfill())
    world.backfills.order(backfill(parts=(BackfillPart(other, 0, 9, 0),)))
    sight = world.sight(live=Positions({SP: 100, other: 9}))
    world.backfills.turn(sight)
    if why == "cancelled":
        world.backfills.cancel("b1")
    rests = replace(sight, rests=lambda sp: "paused" if sp == SP and why == "paused" else "")
    wait_for(other_begins, "the other one begins")
    assert str(world.table.load()["b1"].state) == ("CANCELLED" if why == "cancelled" else "ACTIVE")
    assert not [it for it in world.events if it.kind == "backfill_failed"]
    world.backfills.end(1.0)
    assert world.backfills._try is None


def test_a_backfill_is_never_faster_than_its_source_may_be_read() -> None:
    config = load_text("", [*SETS, "sources.eu.max_records_per_second=100"])
    assert limit_of(config, backfill(records_per_second=500.0)) == Limit(100.0, None)
    assert limit_of(config, backfill(bytes_per_second=9.0)) == Limit(100.0, 9.0)
    assert limit_of(load_text("", SETS), backfill()) == Limit()
