"""Positions set by hand, against real clusters: what the hub then holds, record by record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, delete_topic, produce
from aggregator.model.errors import EXIT_DATA
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore
from support.changing import delete_records
from support.reading import read_topic
from support.running import catch_up, make_config, source
from support.verdict import assert_copied

RECORDS = 600
BEGAN_MS = 1_767_225_600_000
"""Record N of a partition was written N seconds after this (2026-01-01T00:00:00Z)."""


class World:
    """A source topic of two partitions, and what an aggregation made of it."""

    def __init__(
        self, source_a: EmbeddedCluster, hub: EmbeddedCluster, folder: Path, topic: str
    ) -> None:
        self.source, self.hub, self.topic = source_a, hub, topic
        self.create()
        self.write(0, RECORDS)
        self.config = make_config(
            hub,
            folder / "state",
            {"eu": source(source_a, topic)},
            topics={"partitions": 3},
            api={"listen": "off"},
        )
        self.file = folder / "aggregator.yaml"
        self.file.write_text(to_yaml(self.config))

    def create(self) -> None:
        # The records are from the past, and are to stay.
        config = {"retention.ms": "-1"}
        create_topic(self.source.bootstrap_servers, self.topic, partitions=2, config=config)

    def write(self, start: int, end: int) -> None:
        produce(
            self.source.bootstrap_servers,
            self.topic,
            [
                NewRecord(b"%d" % at, b"k%d" % at, partition, timestamp=BEGAN_MS + 1_000 * at)
                for partition in (0, 1)
                for at in range(start, end)
            ],
        )

    def copy(self) -> tuple[int, int]:
        """Copy what is there; returns (found, replayed) of the recovery, 0 when there was none."""
        result = catch_up(self.config)
        assert (result.exit_code, result.problems) == (0, ())
        done = result.status.recovery
        return (done.found, done.replayed) if done is not None else (0, 0)

    def count(self) -> int:
        return len(read_topic(self.hub.bootstrap_servers, self.topic))

    def origins(self) -> list[tuple[int, int]]:
        found = [each.origin for each in read_topic(self.hub.bootstrap_servers, self.topic)]
        return sorted((origin.partition, origin.offset) for origin in found)

    def assert_copied(self) -> None:
        assert_copied(
            {"eu": (self.source.bootstrap_servers, self.topic)},
            (self.hub.bootstrap_servers, self.topic),
        )

    def cli(self, *args: str, exit_code: int = 0) -> Any:
        """The JSON that a command prints; its stderr when it is to end with another code."""
        result = CliRunner().invoke(app, [*args, "-c", str(self.file), "-o", "json"])
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout) if exit_code == 0 else result.stderr

    def positions(self) -> list[int]:
        return [it["position"] for it in self.cli("positions", "show")["positions"]]


@pytest.fixture
def world(source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str) -> World:
    return World(source_a, hub, tmp_path, unique)


def test_going_back_writes_only_what_the_hub_lacks(world: World) -> None:
    world.copy()
    first = world.cli("positions", "show")["seq"]
    world.write(RECORDS, RECORDS + 100)
    world.copy()
    assert world.positions() == [RECORDS + 100] * 2
    # Shown only: nothing is changed.
    shown = world.cli("positions", "rewind", "--to-offset", "10")
    assert [(it["position"], it["new"], it["kind"]) for it in shown["moves"]] == [
        (RECORDS + 100, 10, "REPLAY")
    ] * 2
    assert (shown["dry_run"], shown["commit"]) == (True, None)
    assert world.positions() == [RECORDS + 100] * 2
    # Nothing is missing: however far back, nothing is written.
    for target, at in (
        (("--to-offset", "10"), 10),
        (("--to-time", "2026-01-01T00:05:00Z"), 300),
        (("--to-version", str(first)), RECORDS),
    ):
        done = world.cli("positions", "rewind", *target, "--yes")
        assert [it["new"] for it in done["moves"]] == [at] * 2, target
        assert world.positions() == [at] * 2
        assert world.copy() == (2 * (RECORDS + 100 - at), 0), target
        assert world.positions() == [RECORDS + 100] * 2
        assert world.count() == 2 * (RECORDS + 100), target
    assert world.cli("positions", "rewind", "--to", "earliest")["moves"][0]["new"] == 0
    assert world.cli("positions", "rewind", "--by-offsets", "5")["moves"][0]["difference"] == -5
    # From the last commit that is low enough on, not from the beginning of the hub.
    near = world.cli("positions", "rewind", "--to-offset", str(RECORDS + 10))
    far = world.cli("positions", "rewind", "--to-offset", str(RECORDS - 10))
    assert near["tail"] == 200
    assert far["tail"] == 2 * (RECORDS + 100)
    world.assert_copied()


def test_going_back_fills_the_holes_of_the_hub(world: World) -> None:
    world.copy()
    ends = {0: 150, 2: 40}
    delete_records(world.hub.bootstrap_servers, world.topic, ends)
    before = world.count()
    assert before == 2 * RECORDS - sum(ends.values())
    notes = world.cli("positions", "rewind", "--partition", "0", "--to", "earliest", "--yes")[
        "notes"
    ]
    assert any("old records come after newer ones" in note for note in notes)
    found, replayed = world.copy()
    assert (found + replayed, world.count()) == (RECORDS, before + replayed)
    world.cli("positions", "rewind", "--partition", "1", "--to", "earliest", "--yes")
    assert world.copy()[1] == sum(ends.values()) - replayed
    everything = [(partition, at) for partition in (0, 1) for at in range(RECORDS)]
    assert world.origins() == everything


def test_again_doubles_exactly_and_forward_skips(world: World) -> None:
    world.copy()
    done = world.cli("positions", "rewind", "--to-offset", "500", "--again", "--yes")
    assert {it["kind"] for it in done["moves"]} == {"AGAIN"}
    assert any("a second time" in note for note in done["notes"])
    world.copy()
    doubled = [(partition, at) for partition in (0, 1) for at in range(500, RECORDS)]
    everything = [(partition, at) for partition in (0, 1) for at in range(RECORDS)]
    assert world.origins() == sorted(everything + doubled)
    # Behind an --again going back still finds all.
    world.cli("positions", "rewind", "--to-offset", "450", "--yes")
    assert world.copy()[1] == 0
    assert world.count() == 2 * RECORDS + 200
    world.write(RECORDS, RECORDS + 100)
    skipped = str(RECORDS + 70)
    done = world.cli("positions", "set", "--partition", "1", "--to-offset", skipped, "--yes")
    assert done["moves"][0]["what"] == f"{RECORDS} to {RECORDS + 69} are SKIPPED, never copied"
    world.copy()
    expected = [(0, at) for at in range(RECORDS, RECORDS + 100)]
    expected += [(1, at) for at in range(RECORDS + 70, RECORDS + 100)]
    assert world.origins() == sorted(everything + doubled + expected)
    (record,) = GapTable(StateStore(world.config.checkpoint.path)).load().values()
    assert (record.gap.kind, record.gap.start, record.gap.end, record.resolved) == (
        "SKIPPED_BY_OPERATOR",
        RECORDS,
        RECORDS + 70,
        True,
    )


def test_what_does_not_fit_is_refused_with_all_problems(world: World) -> None:
    world.copy()
    refused = world.cli("positions", "set", "--to-offset", str(RECORDS + 1), exit_code=2)
    assert refused.count(f"is outside its log, which goes from 0 to {RECORDS}") == 2
    refused = world.cli("positions", "set", "--topic", "nix", "--to", "earliest", exit_code=2)
    assert "names no partition" in refused
    refused = world.cli("positions", "set", "--to-version", "999", exit_code=2)
    assert "there is no commit 999" in refused
    assert world.positions() == [RECORDS] * 2


def test_a_quarantined_partition_is_released_and_old_and_new_topic_are_never_mixed(
    world: World,
) -> None:
    world.copy()
    delete_topic(world.source.bootstrap_servers, world.topic)
    world.create()
    world.write(0, 50)
    assert catch_up(world.config).exit_code == EXIT_DATA
    # Only `set` says where to start.
    assert world.cli("positions", "rewind", "--to", "earliest")["moves"] == []
    done = world.cli("positions", "set", "--to-offset", "20", "--yes")
    assert {(it["kind"], it["skipped_from"], it["skipped_to"]) for it in done["moves"]} == {
        ("ANEW", 0, 20)
    }
    assert world.copy() == (0, 0)
    assert world.count() == 2 * RECORDS + 2 * 30
    # The old topic's records by these offsets are not taken for the new one's.
    world.cli("positions", "rewind", "--to", "earliest", "--yes")
    assert world.copy() == (60, 40)
    assert world.count() == 2 * RECORDS + 2 * 50
