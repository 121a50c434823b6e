"""Gaps on real clusters: found, named with their exact range, recorded once, decided by policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from confluent_kafka.cimpl import NewTopic

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import (
    SECONDS,
    NewRecord,
    admin,
    create_topic,
    delete_topic,
    produce,
)
from aggregator.model.errors import EXIT_DATA
from aggregator.model.values import Positions, SourcePartition
from aggregator.plan.lanes.murmur2 import partition_for_key
from aggregator.status.schema import PartitionState
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.rows import Checkpoint
from support.application import KILLED, application
from support.changing import delete_records
from support.clusters import ClusterFactory
from support.crashed import crash_at_zero, with_origin, write_again
from support.gaps import GapRow, cli, gap_events, rows, states
from support.reading import Record, read_topic, wait_for, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import judge

OLD, NEW = b"old-", b"new-"


def numbers(
    start: int, end: int, tag: bytes = OLD, partition: int = 0, size: int = 0
) -> list[NewRecord]:
    return [
        NewRecord(tag + b"%d" % number + b"." * size, b"k%d" % number, partition)
        for number in range(start, end)
    ]


def recreate(servers: str, topic: str, records: Sequence[NewRecord]) -> None:
    """Delete a topic and create it again with other records."""
    delete_topic(servers, topic)
    create_topic(servers, topic)
    produce(servers, topic, records)


def assert_once(alias: str, source_records: Iterable[Record], hub: Iterable[Record]) -> None:
    """The hub holds each of these records of a source once, in order, and no other."""
    verdict = judge({alias: list(source_records)}, list(hub))
    assert not verdict.problems, verdict.problems


def tagged(records: Iterable[Record], tag: bytes) -> list[Record]:
    return [record for record in records if (record.value or b"").startswith(tag)]


def move_beyond_the_end(config: Config, sp: SourcePartition, position: int) -> None:
    """What an unclean election leaves behind: a position that the log does not reach any more."""
    table = CheckpointTable.create(config.checkpoint.path)
    table.claim_epoch("the source's log was longer then")
    state = table.load()
    entry = state.entries[sp]
    table.append(
        Checkpoint(
            "cut",
            1,
            -1,
            Positions({sp: position}),
            entry.snapshot.hub_ends,
            entry.snapshot.snapshot_at_ms,
            {sp.cluster: entry.cluster_id},
            {(sp.cluster, sp.topic): entry.topic_id},
            clean=True,
        )
    )


@pytest.mark.timeout(900)
def test_gaps_that_are_found_at_a_start_are_decided_by_each_sources_policy(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    """Three sources with a policy each, and all kinds of gaps; a fourth is well."""
    servers, to = source_a.bootstrap_servers, hub.bootstrap_servers
    policies = {"halt": "stop", "pass": "skip", "again": "restart"}
    kinds = ("trimmed", "smaller", "larger", "gone", "cut")
    topic: Callable[[str, str], str] = lambda alias, kind: f"{kind}.{alias}.{unique}"  # noqa: E731
    for alias in policies:
        for kind in kinds:
            create_topic(servers, topic(alias, kind), partitions=2 if kind == "trimmed" else 1)
            produce(servers, topic(alias, kind), numbers(0, 20))
        produce(servers, topic(alias, "trimmed"), numbers(0, 20, partition=1))
    create_topic(source_b.bootstrap_servers, unique)
    produce(source_b.bootstrap_servers, unique, numbers(0, 20))
    config = make_config(
        hub,
        tmp_path / "state",
        {
            **{
                alias: source(source_a, f".*[.]{alias}[.]{unique}", on_gap=policy)
                for alias, policy in policies.items()
            },
            "us": source(source_b, unique),
        },
        api={"listen": "off"},
    )
    assert catch_up(config).exit_code == 0
    assert not (tmp_path / "state" / "gaps").exists()
    old = {(a, k): read_topic(servers, topic(a, k)) for a in policies for k in kinds}

    for alias in policies:
        for partition in (0, 1):
            produce(servers, topic(alias, "trimmed"), numbers(20, 40, partition=partition))
        old[alias, "trimmed"] = read_topic(servers, topic(alias, "trimmed"))
        delete_records(servers, topic(alias, "trimmed"), {0: 30})
        recreate(servers, topic(alias, "smaller"), numbers(0, 10, NEW))
        recreate(servers, topic(alias, "larger"), numbers(0, 50, NEW))
        delete_topic(servers, topic(alias, "gone"))
        move_beyond_the_end(config, SourcePartition(alias, topic(alias, "cut"), 0), 25)
    produce(source_b.bootstrap_servers, unique, numbers(20, 40))

    def expected(alias: str, kind: str, decision: str, at: int | None = None) -> GapRow:
        cause, start, end, lost = {
            "trimmed": ("BELOW_EARLIEST", 20, 30, 10),
            "smaller": ("TOPIC_RECREATED", 20, 20, 0),
            "larger": ("TOPIC_RECREATED", 20, 20, 0),
            "gone": ("TOPIC_GONE", 20, 20, 0),
            "cut": ("BEYOND_END", 20, 25, None),
        }[kind]
        settled = decision in ("skip", "restart", "accept")
        name = topic(alias, kind)
        return GapRow(name, 0, cause, start, end, lost, decision, settled, at)

    ats = {"trimmed": 30, "smaller": 0, "larger": 0, "gone": None, "cut": 20}
    first = [
        *(expected("halt", kind, "stop") for kind in kinds),
        *(expected("pass", kind, "skip", ats[kind]) for kind in kinds),
        *(expected("again", kind, "restart", ats[kind]) for kind in ("smaller", "larger", "gone")),
        *(expected("again", kind, "stop") for kind in ("trimmed", "cut")),
    ]
    # Killed when the gaps are recorded and no position is committed yet.
    with application(
        config, tmp_path, failpoint="after-gap", arguments=["--until-caught-up"]
    ) as crashed:
        crashed.until(lambda: not crashed.alive, "it dies")
        assert crashed.exit_code == KILLED, crashed.text
    assert rows(config) == sorted(first, key=str)
    result = catch_up(config)
    assert result.exit_code == EXIT_DATA
    assert rows(config) == sorted(first, key=str)
    halted = {("halt", topic("halt", kind), 0) for kind in kinds}
    halted |= {("again", topic("again", kind), 0) for kind in ("trimmed", "cut")}
    assert states(result.status) == dict.fromkeys(halted, PartitionState.QUARANTINED)
    assert len(result.problems) == len(halted)
    gaps = {it.alias: (it.gaps, it.lost) for it in result.status.sources}
    assert gaps == {"halt": (5, 10), "pass": (5, 10), "again": (5, 10), "us": (0, 0)}
    assert (result.status.gaps.total, result.status.gaps.open) == (15, 7)

    # The cut logs grow over the old position; a person lets all but one continue.
    for alias in policies:
        produce(servers, topic(alias, "cut"), numbers(20, 30, NEW))
    listed = cli(config, tmp_path, "--open", "--source", "halt")
    assert (listed["total"], listed["open"]) == (5, 5)
    ids = {gap["topic"]: gap["id"] for gap in listed["gaps"]}
    left = ids.pop(topic("halt", "larger"))
    assert len(cli(config, tmp_path, "accept", *ids.values())["accepted"]) == 4
    assert len(cli(config, tmp_path, "accept", "--source", "again")["accepted"]) == 2
    result = catch_up(config)
    assert result.exit_code == EXIT_DATA
    assert states(result.status) == {
        ("halt", topic("halt", "larger"), 0): PartitionState.QUARANTINED
    }
    accepted = [("halt", kind) for kind in kinds if kind != "larger"]
    accepted += [("again", "trimmed"), ("again", "cut")]
    second = [expected(alias, kind, "accept", ats[kind]) for alias, kind in accepted]
    asked = [it._replace(resolved=False, resumes_at=None) for it in second]
    assert rows(config) == sorted([*first, *asked, *second], key=str)
    assert [gap["id"] for gap in cli(config, tmp_path, "--open")["gaps"]] == [left]

    for alias in policies:
        for kind in kinds:
            found = read_topic(to, topic(alias, kind))
            kept = [
                record
                for record in old[alias, kind]
                if kind != "trimmed" or record.partition == 1 or not 20 <= record.offset < 30
            ]
            assert_once(alias, kept, tagged(found, OLD))
            if kind == "gone" or (alias, kind) == ("halt", "larger"):
                assert tagged(found, NEW) == []
            elif kind != "trimmed":
                fresh = tagged(read_topic(servers, topic(alias, kind)), NEW)
                assert len(fresh) >= 10
                assert_once(alias, fresh, tagged(found, NEW))
    assert_once("us", read_topic(source_b.bootstrap_servers, unique), read_topic(to, unique))


NOTICED_SECONDS = 1.0
"""How much longer a hub is frozen: by then readers know what they have to do when it is back."""
SMALL = {"max.partition.fetch.bytes": "16384", "fetch.max.bytes": "65536"}
"""Fetches of a reader: what it has at hand it copies, whatever becomes of its log."""


@pytest.mark.timeout(900)
def test_gaps_that_appear_under_running_readers_are_named_exactly_and_hurt_no_other_source(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
) -> None:
    """The hub is frozen, so that readers are behind when their logs are changed under them."""
    servers, hub = source_a.bootstrap_servers, cluster_factory("slow-hub")
    to = hub.bootstrap_servers
    topics = {alias: f"{alias}.{unique}" for alias in ("trim", "again", "halt")}
    for topic in topics.values():
        create_topic(servers, topic)
        produce(servers, topic, numbers(0, 100))
    create_topic(source_b.bootstrap_servers, unique)
    config = make_config(
        hub,
        tmp_path / "state",
        {
            "trim": source(source_a, topics["trim"], on_gap="skip", consumer=SMALL),
            "again": source(source_a, topics["again"], on_gap="restart", consumer=SMALL),
            "halt": source(source_a, topics["halt"]),
            "us": source(source_b, unique),
        },
        # Small buffers: a reader soon stops when nothing can be written.
        hub={
            "producer": {
                "buffer.memory": "262144",
                "batch.size": "16384",
                # Compressed, all of it would fit.
                "compression.type": "none",
                "max.request.size": "131072",
            }
        },
        api={"listen": "off"},
    )
    old: dict[str, list[Record]] = {}
    with run_in_background(config) as running:
        for topic in topics.values():
            wait_until_topic_has(to, topic, 100)
        running.wait_for(
            lambda: all(lane.records for lane in running.status.lanes), "records are reported"
        )
        hub.brokers[0].pause()
        try:
            for alias in ("trim", "again"):
                produce(servers, topics[alias], numbers(100, 6_000, size=500))
            running.wait_for(
                lambda: [part.log_end for part in running.status.partitions].count(6_000) == 2,
                "the new ends are reported",
            )
            old = {alias: read_topic(servers, topic) for alias, topic in topics.items()}
            delete_records(servers, topics["trim"], {0: 5_000})
            # Grown beyond the old position before the reader looks again: it would read on.
            recreate(servers, topics["again"], numbers(0, 7_000, NEW))
            running.wait_for(
                lambda: any(
                    event.kind == "partition_suspect" and "created again" in event.message
                    for event in running.events
                ),
                "the new topic is noticed",
            )
            # The reader, which is blocked in a write, gets this message five times a second.
            time.sleep(NOTICED_SECONDS)
        finally:
            hub.brokers[0].resume()
        produce(source_b.bootstrap_servers, unique, numbers(0, 500))
        wait_until_topic_has(to, unique, 500)
        running.wait_for(lambda: len(gap_events(running)) >= 2, "both gaps are reported")
        wait_until_topic_has(to, topics["again"], 7_100)

        # A topic is deleted, comes back as another one, and a person lets it continue.
        delete_topic(servers, topics["halt"])
        running.wait_for(lambda: gap_events(running, "TOPIC_GONE"), "that the topic is gone")
        quarantined = {("halt", topics["halt"], 0): PartitionState.QUARANTINED}
        running.wait_for(lambda: states(running.status) == quarantined, "it is shown")
        create_topic(servers, topics["halt"])
        produce(servers, topics["halt"], numbers(0, 30, NEW))
        running.wait_for(
            lambda: gap_events(running, "TOPIC_RECREATED", topics["halt"]), "it is another one"
        )
        wait_until_topic_has(to, topics["trim"], 1_100)
        assert len(read_topic(to, topics["halt"])) == 100
        cli(config, tmp_path, "accept", "--source", "halt")
        wait_until_topic_has(to, topics["halt"], 130)
        running.wait_for(lambda: states(running.status) == {}, "all run again")
        for alias in ("halt", "trim", "again"):
            produce(servers, topics[alias], numbers(9_000, 9_010, NEW))
        for alias, count in (("halt", 140), ("again", 7_110)):
            wait_until_topic_has(to, topics[alias], count)
    assert "us" not in str([e.message for e in running.events if e.kind == "lane_failed"])
    assert catch_up(config).exit_code == 0

    found = {alias: read_topic(to, topic) for alias, topic in topics.items()}
    reached = {}
    for alias in ("trim", "again"):
        arrived = tagged(found[alias], OLD)
        # How far its reader got while the hub stood still; no further than before, if the
        # hub was frozen at the moment in which a batch ended.
        reached[alias] = max(r.origin.offset for r in arrived if r.origin.offset < 5_000) + 1
        assert 100 <= reached[alias] < 5_000
        ends = (reached[alias], 5_000 if alias == "trim" else 6_000)
        assert_once(alias, [r for r in old[alias] if not ends[0] <= r.offset < ends[1]], arrived)
    assert_once("halt", old["halt"], tagged(found["halt"], OLD))
    for alias, topic in topics.items():
        assert_once(alias, tagged(read_topic(servers, topic), NEW), tagged(found[alias], NEW))
    assert_once("us", read_topic(source_b.bootstrap_servers, unique), read_topic(to, unique))
    recreated = GapRow(topics["halt"], 0, "TOPIC_RECREATED", 100, 100, 0, "stop", False, None)
    assert rows(config) == sorted(
        [
            GapRow(
                topics["trim"],
                0,
                "BELOW_EARLIEST",
                reached["trim"],
                5_000,
                5_000 - reached["trim"],
                "skip",
                True,
                5_000,
            ),
            GapRow(
                topics["again"],
                0,
                "TOPIC_RECREATED",
                reached["again"],
                6_000,
                6_000 - reached["again"],
                "restart",
                True,
                0,
            ),
            GapRow(topics["halt"], 0, "TOPIC_GONE", 100, 100, 0, "stop", False, None),
            GapRow(topics["halt"], 0, "TOPIC_GONE", 100, 100, 0, "stop", True, None),
            recreated,
            recreated._replace(decision="accept"),
            recreated._replace(decision="accept", resolved=True, resumes_at=0),
        ],
        key=str,
    )


@pytest.mark.timeout(900)
def test_a_reader_that_waits_at_offset_0_of_a_log_that_begins_later_is_found(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its records went before its first fetch."""
    servers = source_a.bootstrap_servers
    create_topic(servers, unique)
    produce(servers, unique, numbers(0, 50))
    config = make_config(
        hub, tmp_path, {"eu": source(source_a, unique, on_gap="skip")}, api={"listen": "off"}
    )
    deleted: list[str] = []

    def delete(name: str) -> None:
        if name == "after-begin" and not deleted:
            delete_records(servers, unique, {0: 30})
            deleted.append(name)

    monkeypatch.setattr("aggregator.engine.running_lanes.failpoint", delete)
    with run_in_background(config) as running:
        running.wait_for(lambda: gap_events(running, "BELOW_EARLIEST"), "the gap is found")
        wait_until_topic_has(hub.bootstrap_servers, unique, 20)
    assert "lane_failed" not in running.kinds()
    assert rows(config) == [
        GapRow(unique, 0, "BELOW_EARLIEST", 0, 30, 30, "skip", True, 30),
    ]
    assert_once("eu", read_topic(servers, unique), read_topic(hub.bootstrap_servers, unique))


@pytest.mark.timeout(900)
def test_what_was_deleted_before_a_recovery_could_replay_it_is_a_gap(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """A crash left holes in the hub, and the source has deleted some of what is missing."""
    servers, to = source_a.bootstrap_servers, hub.bootstrap_servers
    create_topic(servers, unique)
    produce(servers, unique, numbers(0, 1_000))
    records = read_topic(servers, unique)
    # Of what went to hub partition 1 less arrived.
    places = {r.offset: partition_for_key(r.key or b"", 2) for r in records}
    torn = [r for r in records if r.offset < (600, 300)[places[r.offset]]]
    # The first that is missing and can be had.
    resumes_at = min({*range(400, 1_000)} - {r.offset for r in torn})
    create_topic(to, unique, partitions=2)
    write_again(
        hub,
        unique,
        [with_origin(record, "eu")._replace(partition=places[record.offset]) for record in torn],
    )
    config = make_config(
        hub,
        tmp_path,
        {"eu": source(source_a, unique, on_gap="skip")},
        topics={"partitions": 2},
        api={"listen": "off"},
    )
    crash_at_zero(config, unique, {"eu": 1})
    delete_records(servers, unique, {0: 400})
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    kept = {r.offset for r in torn} | set(range(400, 1_000))
    missing = 1_000 - len(kept)
    lost = GapRow(unique, 0, "BELOW_EARLIEST", 0, 400, missing, "stop", False, None)
    assert rows(config) == sorted(
        [lost, lost._replace(decision="skip", resolved=True, resumes_at=resumes_at)], key=str
    )
    assert_once("eu", [r for r in records if r.offset in kept], read_topic(to, unique))


@pytest.mark.timeout(900)
def test_another_cluster_behind_the_same_address_is_not_taken_for_the_old_one(
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
) -> None:
    to = hub.bootstrap_servers
    swapped = cluster_factory("swapped")
    servers = swapped.bootstrap_servers
    topics = (f"one.{unique}", f"two.{unique}")
    for topic in topics:
        create_topic(servers, topic)
        produce(servers, topic, numbers(0, 40))
    create_topic(source_b.bootstrap_servers, unique)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(swapped, f".*[.]{unique}"), "us": source(source_b, unique)},
        api={"listen": "off"},
    )
    before = swapped.cluster_id
    with run_in_background(config) as running:
        for topic in topics:
            wait_until_topic_has(to, topic, 40)
        running.wait_for(
            lambda: all(lane.records for lane in running.status.lanes), "records are reported"
        )
        old = {topic: read_topic(servers, topic) for topic in topics}
        swapped.replace()
        # Of the two topics it has one, which is longer there.
        create_topic(servers, topics[0])
        produce(servers, topics[0], numbers(0, 300, NEW))
        produce(source_b.bootstrap_servers, unique, numbers(0, 50))
        wait_until_topic_has(to, unique, 50)
        running.wait_for(lambda: len(gap_events(running, "CLUSTER_CHANGED")) >= 2, "the gaps")
        running.wait_for(
            lambda: list(states(running.status).values()) == 2 * [PartitionState.QUARANTINED],
            "both are shown",
        )
        message = gap_events(running, topics[0])[0]
        assert before in message and swapped.cluster_id in message
    assert "us" not in str([e.message for e in running.events if e.kind == "lane_failed"])
    stopped = [
        GapRow(topic, 0, "CLUSTER_CHANGED", 40, 40, 0, "stop", False, None) for topic in topics
    ]
    assert rows(config) == stopped
    settled = [it._replace(decision="restart", resolved=True) for it in stopped]
    settled[0] = settled[0]._replace(resumes_at=0)
    again = make_config(
        hub,
        tmp_path / "state",
        {
            "eu": source(swapped, f".*[.]{unique}", on_gap="restart"),
            "us": source(source_b, unique),
        },
        api={"listen": "off"},
    )
    assert catch_up(again).exit_code == 0
    assert rows(config) == sorted([*stopped, *settled], key=str)
    for topic in topics:
        found = read_topic(to, topic)
        assert_once("eu", old[topic], tagged(found, OLD))
        fresh = read_topic(servers, topic) if topic == topics[0] else []
        assert_once("eu", fresh, tagged(found, NEW))
    assert_once("us", read_topic(source_b.bootstrap_servers, unique), read_topic(to, unique))


@pytest.mark.timeout(900)
def test_a_log_that_an_unclean_election_cut_off_is_not_read_on_as_if_nothing_had_happened(
    hub: EmbeddedCluster, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    """What the lost leader alone had is in the hub, and its offsets are given to new records."""
    to = hub.bootstrap_servers
    cut = cluster_factory("cut", brokers=3)
    servers = cut.bootstrap_servers
    config = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    kafka = admin(servers)
    # One is filled beyond its old end before anybody can see that it was cut off.
    slow, quick = f"{unique}.slow", f"{unique}.quick"
    topics = (slow, quick)
    made = kafka.create_topics(
        [NewTopic(topic, 1, replica_assignment=[[2, 3]], config=config) for topic in topics]
    )
    for topic in topics:
        made[topic].result(SECONDS)
        produce(servers, topic, numbers(0, 100))
    settings = make_config(hub, tmp_path, {"eu": source(cut, f"{unique}.*")}, api={"listen": "off"})

    def in_sync(topic: str) -> int:
        return len(kafka.list_topics(topic, timeout=SECONDS).topics[topic].partitions[0].isrs)

    with run_in_background(settings) as running:
        for topic in topics:
            wait_until_topic_has(to, topic, 100)
        follower, leader = cut.brokers[2], cut.brokers[1]
        # On a busy machine it may be out of sync just now: then it lacks some of what came so far.
        wait_for(lambda: all(in_sync(it) == 2 for it in topics), "it has all")
        follower.kill()
        for topic in topics:
            produce(servers, topic, numbers(100, 150))
            wait_until_topic_has(to, topic, 150)
        running.wait_for(
            lambda: [part.position for part in running.status.partitions] == [150, 150],
            "a batch ends",
        )
        old = {topic: read_topic(servers, topic) for topic in topics}
        leader.kill()
        follower.start()
        produce(servers, quick, numbers(100, 300, NEW))
        running.wait_for(
            lambda: len(gap_events(running, "BEYOND_END")) == len(topics), "the gaps are found", 60
        )
        produce(servers, slow, numbers(100, 300, NEW))
        running.wait_for(
            lambda: set(states(running.status).values()) == {PartitionState.QUARANTINED},
            "they are shown",
        )
        cli(settings, tmp_path, "accept", "--source", "eu")
        for topic in topics:
            wait_until_topic_has(to, topic, 350)
    gaps = [GapRow(topic, 0, "BEYOND_END", 100, 150, None, "stop", False, None) for topic in topics]
    accepted = [gap._replace(decision="accept") for gap in gaps]
    ended = [gap._replace(resolved=True, resumes_at=100) for gap in accepted]
    assert rows(settings) == sorted([*gaps, *accepted, *ended], key=str)
    for topic in topics:
        found = read_topic(to, topic)
        assert_once("eu", old[topic], tagged(found, OLD))
        fresh = tagged(read_topic(servers, topic), NEW)
        assert len(fresh) == 200
        assert_once("eu", fresh, tagged(found, NEW))
