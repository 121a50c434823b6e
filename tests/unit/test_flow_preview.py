"""What a run would do first, shown by the very step that does it; nothing is carried out."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from aggregator.cli.plan import report_of_plan
from aggregator.cli.render import Table
from aggregator.engine.dry_run.first_step import Preview, preview
from aggregator.model.values import OffsetRange, TopicPartition
from aggregator.plan.lifecycle.commands import Command, Move, RecordGaps, Recover, Start
from aggregator.plan.lifecycle.inputs import FoundGaps, HubLogs
from aggregator.plan.lifecycle.stage import Stage
from support.flow_world import DAY, EU, EU0, EU1, OTHER, PARTITIONS, US, World, running


def first(world: World, paused: Mapping[str, str] | None = None) -> Preview:
    """What a start that came now would do."""
    asked: list[frozenset[str]] = []

    def ask_hub(topics: frozenset[str]) -> HubLogs:
        asked.append(topics)
        ends = {TopicPartition(name, 0): OffsetRange(0, len(world.hub)) for name in topics}
        return HubLogs(ends)

    gaps, known = FoundGaps(dict(world.table)), world._known()
    before = (dict(world.entries), dict(world.table), list(world.hub))
    found = preview(world.config, world._discover(), known, gaps, paused or {}, DAY, ask_hub)
    assert before == (world.entries, world.table, world.hub)
    return found


def kinds(found: Preview) -> list[type[Command]]:
    return [type(it) for it in found.commands]


def stopped() -> World:
    """All was copied, and ended cleanly."""
    world = running()
    world.paused = {"eu", "us"}
    world.until_all(Stage.OUT)
    world.paused = set()
    world.restart()
    return world


def test_a_first_start_starts_everything_from_where_its_source_says() -> None:
    found = first(World(Random(7)))
    (start,) = found.commands
    assert isinstance(start, Start)
    assert dict(start.positions) == dict.fromkeys(PARTITIONS, 0)


def test_after_a_clean_stop_it_continues_from_there() -> None:
    world = stopped()
    (start,) = first(world).commands
    assert isinstance(start, Start)
    assert dict(start.positions) == {sp: it.position for sp, it in world.entries.items()}


def test_what_is_paused_waits_and_the_others_start() -> None:
    found = first(stopped(), {"us": "paused"})
    (start,) = found.commands
    assert isinstance(start, Start)
    assert start.lane.partitions == EU
    assert found.waiting == dict.fromkeys(US, "paused")


def test_after_a_crash_the_hub_is_read_first() -> None:
    world = running()
    world.restart()
    (recover,) = first(world).commands
    assert isinstance(recover, Recover)
    assert recover.partitions == set(PARTITIONS)


def test_so_it_is_when_the_hub_is_further_than_the_checkpoint_knows() -> None:
    world = stopped()
    world.hub.append((OTHER, "", 0))
    assert kinds(first(world)) == [Recover]


def test_a_gap_is_recorded_and_what_continues_behind_it_starts_there() -> None:
    world = stopped()
    world.logs[EU0].end += 10
    world.logs[EU0].earliest = world.entries[EU0].position + 2
    world.logs[US[0]].end += 10
    world.logs[US[0]].earliest = world.entries[US[0]].position + 2
    found = first(world)
    # `skip` for eu; us is for a person to decide about.
    assert kinds(found) == [RecordGaps, Move, Start]
    start: Any = found.commands[-1]
    assert start.positions[EU0] == world.logs[EU0].earliest
    assert set(start.lane.partitions) == {EU0, EU1, US[1]}
    assert found.waiting.keys() == {US[0]}
    report = report_of_plan(world._discover().plan, found)
    assert report.data["first"]["moved"] == {str(EU0): world.logs[EU0].earliest}
    assert [it["decision"] for it in report.data["first"]["gaps"]] == ["skip", "stop"]
    (table,) = [it for it in report.parts if isinstance(it, Table) and it.title == "First"]
    assert [row[0] for row in table.rows] == [
        "record gaps",
        "continue after gaps",
        "start",
        "wait",
    ]
