"""A checkpoint that is gone, old or damaged: an error, or the hub is looked into; never twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aggregator.config.schema import Config
from aggregator.engine.application import run
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import NewRecord, create_topic, delete_topic, produce
from aggregator.features.verify.audit import VerifyRequest, verify
from aggregator.model.errors import CheckpointError
from aggregator.model.events import Event
from support.changing import delete_records
from support.crashed import write_again
from support.reading import read_topic, topics_of, wait_for, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import assert_copied, judge


def events_of(config: Config, *, fresh: bool = False) -> list[Event]:
    """Catch up; return the events."""
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
    # An audit judges what was copied before as well.
    totals = verify(copied, VerifyRequest()).totals
    assert (totals.expected, totals.present, totals.not_judged) == (3_500, 3_500, 0)


def test_what_a_start_at_the_end_leaves_out_after_a_lost_checkpoint_is_reported(
    copied: Config, source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    shutil.rmtree(tmp_path / "state")
    late = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique, start="latest")},
        topics={"partitions": 4},
    )
    events_of(late)
    totals = verify(late, VerifyRequest()).totals
    assert (totals.present, totals.missing, totals.not_begun) == (3_000, 500, 0)


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


def test_what_a_hub_restored_from_a_backup_lacks_is_copied_again(
    copied: Config, source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """It is older than the checkpoint; what was copied since the backup is not in it."""
    backup = read_topic(hub.bootstrap_servers, unique)
    events_of(copied)
    renew(hub, unique)
    write_again(hub, unique, backup)
    events = events_of(copied)
    (lost,) = [event for event in events if event.kind == "hub_lost"]
    # Each topic of it is another one: what it holds of before is found by reading all of it.
    assert lost.fields == {"partitions": 3, "offsets": 3_500}
    assert_complete(source_a, hub, unique)
    assert {"doubt", "hub_lost"}.isdisjoint(kinds(events_of(copied)))


def test_a_hub_topic_that_is_created_again_gets_everything_again(
    copied: Config, source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> None:
    with run_in_background(copied) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, 3_500)
        renew(hub, unique)
        write(source_a, unique, 100)
        running.wait_for(lambda: "hub_lost" in running.kinds(), "it is noticed")
        wait_until_topic_has(hub.bootstrap_servers, unique, 3_600)
    # What came before that is in front of what is older.
    assert_ours_complete(source_a, hub, unique, but="out_of_order")
    renew(hub, unique)
    # More than it had, and none of it ours.
    write(hub, unique, 8_000)
    events = events_of(copied)
    (lost,) = [event for event in events if event.kind == "hub_lost"]
    assert lost.fields == {"partitions": 3, "offsets": 3_600}
    assert_ours_complete(source_a, hub, unique)
    assert {"doubt", "hub_lost"}.isdisjoint(kinds(events_of(copied)))


def renew(cluster: EmbeddedCluster, topic: str) -> None:
    """Delete a topic, and create another one by its name."""
    delete_topic(cluster.bootstrap_servers, topic)
    wait_for(lambda: topic not in topics_of(cluster.bootstrap_servers), "it is deleted")
    create_topic(cluster.bootstrap_servers, topic, partitions=4)


def assert_ours_complete(
    cluster: EmbeddedCluster, hub: EmbeddedCluster, topic: str, but: str = ""
) -> None:
    """Of the hub's records those with an origin are all, once and in order."""
    ours = [it for it in read_topic(hub.bootstrap_servers, topic) if it.headers]
    expected = read_topic(cluster.bootstrap_servers, topic)
    assert len(ours) == len(expected)
    verdict = judge({"eu": expected}, ours)
    assert verdict.problems.keys() <= {but}, verdict.problems


@pytest.mark.parametrize("lost", ["gone", "old"])
def test_a_source_that_is_away_then_is_looked_for_when_it_comes(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    lost: str,
) -> None:
    """Without a checkpoint its partitions are unknown; it comes two starts later."""
    state, clusters = tmp_path / "state", {"eu": source_a, "us": source_b}
    for cluster in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=2)
        write(cluster, unique, 1_000)
    sources = {alias: source(it, unique) for alias, it in clusters.items()}
    config = make_config(hub, state, sources, topics={"partitions": 4})
    events_of(config)
    shutil.copytree(state, tmp_path / "backup")
    for cluster in clusters.values():
        write(cluster, unique, 500)
    events_of(config)
    shutil.rmtree(state)
    if lost == "old":
        shutil.copytree(tmp_path / "backup", state)
    away = {**sources, "us": source(f"127.0.0.1:{free_ports(1)[0]}", unique)}
    partly = make_config(
        hub,
        state,
        away,
        topics={"partitions": 4},
        supervision={"connect_timeout": "2s"},
    )
    for expected in ("doubt", ""):
        events: list[Event] = []
        result = run(partly, until_caught_up=True, on_event=events.append)
        # It has copied the other one, and says that this one is missing.
        assert result.exit_code == 3
        assert ("doubt" in kinds(events)) == bool(expected)
        write(source_a, unique, 100)
    events = events_of(config)
    (recovered,) = [event for event in events if event.kind == "recovered"]
    assert recovered.fields["found"] == {"gone": 1_500, "old": 500}[lost]
    assert "recovered" not in kinds(events_of(config))
    assert_copied(
        {alias: (it.bootstrap_servers, unique) for alias, it in clusters.items()},
        (hub.bootstrap_servers, unique),
        at_least=3_000,
    )


def test_a_gap_that_is_decided_in_that_start_does_not_vouch_for_the_others(
    copied: Config, source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    assert "doubt" not in kinds(events_of(copied))
    write(source_a, unique, 100)
    events_of(copied)
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "backup", tmp_path / "state")
    # All that is deleted was copied, and more than the backup knows of.
    expected = read_topic(source_a.bootstrap_servers, unique)
    count = sum(record.partition == 0 for record in expected)
    delete_records(source_a.bootstrap_servers, unique, {0: count})
    sources = {"eu": source(source_a, unique, on_gap="skip")}
    config = make_config(hub, tmp_path / "state", sources, topics={"partitions": 4})
    events = events_of(config)
    assert "gap" not in kinds(events)
    (recovered,) = [event for event in events if event.kind == "recovered"]
    assert (recovered.fields["found"], recovered.fields["holed"]) == (600, 0)
    verdict = judge({"eu": expected}, read_topic(hub.bootstrap_servers, unique))
    assert not verdict.problems, verdict.problems


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
