"""A checkpoint that is gone, old or damaged: an error, or the hub is looked into; never twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aggregator.config.schema import Config
from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, produce
from aggregator.engine.run import run
from aggregator.errors import CheckpointError
from aggregator.events import Event
from support.running import catch_up, make_config, source
from support.verdict import assert_copied


def events_of(config: Config, *, fresh: bool = False) -> list[Event]:
    """Catch up; returns what was told."""
    events: list[Event] = []
    result = run(config, until_caught_up=True, fresh=fresh, on_event=events.append)
    assert (result.exit_code, result.problems) == (0, ())
    return events


def kinds(events: list[Event]) -> list[str]:
    return [event.kind for event in events]


@pytest.fixture
def copied(source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str) -> Config:
    """A config whose one topic of 3,000 records has been copied, and 500 more have come since."""
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    config = make_config(
        hub, tmp_path / "state", {"eu": source(source_a, unique)}, topics={"partitions": 4}
    )
    write(source_a, unique, 3_000)
    assert "doubt" not in kinds(events_of(config))
    shutil.copytree(tmp_path / "state", tmp_path / "backup")
    write(source_a, unique, 500)
    return config


def write(cluster: EmbeddedCluster, topic: str, count: int) -> None:
    records = [NewRecord(b"%d" % at, b"key-%d" % (at % 97)) for at in range(count)]
    produce(cluster.bootstrap_servers, topic, records)


def assert_complete(cluster: EmbeddedCluster, hub: EmbeddedCluster, topic: str) -> None:
    assert_copied(
        {"eu": (cluster.bootstrap_servers, topic)}, (hub.bootstrap_servers, topic), at_least=3_500
    )


def test_a_checkpoint_that_is_gone_is_found_again_in_the_hub(
    copied: Config, source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    shutil.rmtree(tmp_path / "state")
    events = events_of(copied)
    assert "doubt" in kinds(events)
    (recovered,) = [event for event in events if event.kind == "recovered"]
    assert (recovered.fields["found"], recovered.fields["holed"]) == (3_000, 0)
    assert_complete(source_a, hub, unique)


def test_a_checkpoint_restored_from_a_backup_costs_nothing_twice(
    copied: Config, source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    assert "doubt" not in kinds(events_of(copied))
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "backup", tmp_path / "state")
    events = events_of(copied)
    assert "doubt" in kinds(events)
    (recovered,) = [event for event in events if event.kind == "recovered"]
    assert (recovered.fields["found"], recovered.fields["holed"]) == (500, 0)
    assert "doubt" not in kinds(events_of(copied))
    assert_complete(source_a, hub, unique)


def test_fresh_trusts_the_checkpoint(
    copied: Config, source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "state")
    assert "doubt" not in kinds(events_of(copied, fresh=True))


@pytest.mark.parametrize("damage", ["cut off", "missing"])
def test_a_damaged_checkpoint_is_an_error_and_nothing_is_written(
    copied: Config,
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    damage: str,
) -> None:
    topic = unique
    log = tmp_path / "state" / "checkpoints" / "_delta_log"
    commits = sorted(log.glob("*.json"))
    if damage == "missing":
        commits[-2].unlink()
    else:
        commits[-1].write_bytes(commits[-1].read_bytes()[:100])
    with pytest.raises(CheckpointError, match="damaged"):
        catch_up(copied)
    if damage == "cut off":
        # As the error says.
        commits[-1].unlink()
        events_of(copied)
        assert_complete(source_a, hub, topic)
