"""Consumer groups go over to the hub: nothing is missed, and the report says what is read again."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import (
    NewRecord,
    create_topic,
    end_offsets,
    grow_topic,
    produce,
)
from aggregator.features.groups.cutover import CutoverError, Moving, Outcome, translate_groups
from aggregator.features.groups.group_admin import commit, committed
from aggregator.features.groups.group_report import GroupReport
from aggregator.features.groups.hub_offsets import ApplyRules, PlaceVerdict
from aggregator.kafka.admin import HUB, open_admin
from aggregator.model.errors import EXIT_CONFIG, EXIT_DATA, EXIT_DONE, RefusedError
from aggregator.model.values import SourcePartition
from aggregator.model.values import TopicPartition as OurPartition
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from support.application import application
from support.groups import (
    commit_at,
    committed_at,
    consumer,
    of_the_only,
    write_transactions,
)
from support.java_options import QUICK_START
from support.load import load, records
from support.reading import SECONDS, Record, read_topic, wait_for, wait_until_topic_has
from support.running import make_config, source

WRITE = ApplyRules(dry_run=False)
SEED = 20
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
}
MANY = 100
STILL_SECONDS = 3.0
"""The cleaner of our brokers looks every second."""
Commits = Mapping[SourcePartition, int]


@dataclass(frozen=True)
class Moved:
    """Two sources and a hub, with groups that have read some of the sources."""

    config: Config
    clusters: Mapping[str, EmbeddedCluster]
    hub: EmbeddedCluster
    orders: str
    single: str
    kept: str
    folder: Path

    def hub_topic(self, topic: str) -> str:
        return f"all.{topic}"

    def is_copied(self) -> bool:
        """Whether the checkpoint has the ends of all logs."""
        table = CheckpointTable.open(self.config.checkpoint.path)
        assert table is not None
        positions = table.load().positions
        logs = [("us", self.orders)]
        logs += [("eu", topic) for topic in (self.orders, self.single, self.kept)]
        return all(
            positions.get(SourcePartition(alias, topic, number), -1) >= end
            for alias, topic in logs
            for number, end in end_offsets(self.clusters[alias].bootstrap_servers, topic).items()
        )

    def commits(self, group: str, topic: str, *aliases: str) -> Commits:
        """What the group has committed, as consumers see it; 0 where it has not."""
        found: dict[SourcePartition, int] = {}
        for alias in aliases:
            servers = self.clusters[alias].bootstrap_servers
            for partition, at in committed_at(servers, group, topic).items():
                found[SourcePartition(alias, topic, partition)] = max(0, at)
        return found

    def apply(self, group: str, **rules: Any) -> GroupReport:
        lines: list[str] = []
        wanted = ApplyRules(dry_run=False, **rules)
        return of_the_only(
            translate_groups(self.config, [group], None, wanted, SECONDS, lines.append)
        )


def read_some(servers: str, group: str, topic: str, least: int) -> None:
    """Read at least `least` records as a member of the group, commit, and leave it."""
    client = consumer(servers, group)
    try:
        client.subscribe([topic])
        read, deadline = 0, time.monotonic() + SECONDS
        while read < least:
            assert time.monotonic() < deadline
            read += len([it for it in client.consume(50, timeout=0.2) if it.error() is None])
        client.commit(asynchronous=False)
    finally:
        client.close()


def read_unevenly(servers: str, group: str, topic: str, least: int) -> None:
    """Read some, then be at the end of one partition and at the beginning of another.

    What the first has of late follows the second's first records in the hub's partitions, in
    whichever order the sources' logs were read: some is read again for certain.
    """
    read_some(servers, group, topic, least)
    commit_at(servers, group, topic, {0: 0, 1: end_offsets(servers, topic)[1]})


def commit_anywhere(servers: str, group: str, topic: str, dice: random.Random) -> None:
    """Commit at random places, of some partitions only."""
    ends = end_offsets(servers, topic)
    some = {it: dice.randint(0, end) for it, end in ends.items() if it % 3}
    commit_at(servers, group, topic, some)


@contextmanager
def member(servers: str, group: str, topic: str, protocol: str = "classic") -> Iterator[Consumer]:
    """An active member of a group, for as long as the block."""
    client = consumer(servers, group, protocol)
    try:
        client.subscribe([topic])
        deadline = time.monotonic() + SECONDS
        while not client.assignment():
            assert time.monotonic() < deadline
            client.consume(1, timeout=0.2)
        yield client
    finally:
        client.close()


def write_aborted(servers: str, topic: str, partitions: int) -> None:
    """What never came to be, of somebody else: its markers are the last in the hub's logs."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    for partition in range(partitions):
        producer.produce(topic, b"never", b"key", partition)
    producer.flush(30)
    producer.abort_transaction(30)


def read_up_to(
    servers: str, group: str, topic: str, ends: Mapping[int, int]
) -> list[tuple[int, int]]:
    """Consume as a new member of the group up to these ends, and commit; hub places in order."""
    client = consumer(servers, group)
    found: list[tuple[int, int]] = []
    try:
        client.subscribe([topic])
        starts = committed_at(servers, group, topic)
        deadline = time.monotonic() + SECONDS

        def behind() -> bool:
            places = client.position([TopicPartition(topic, it) for it in ends])
            return any(
                (it.offset if it.offset >= 0 else starts[it.partition]) < ends[it.partition]
                for it in places
            )

        while len(client.assignment()) < len(ends) or behind():
            assert time.monotonic() < deadline
            for message in client.consume(2_000, timeout=0.5):
                assert message.error() is None
                found.append((int(message.partition() or 0), int(message.offset() or 0)))
        client.commit(asynchronous=False)
    finally:
        client.close()
    return found


def check(
    report: GroupReport, commits: Commits, read: list[tuple[int, int]], hub: list[Record]
) -> int:
    """Nothing is missed, and the report says what is read again; returns how many that was."""
    seen = Counter(read)
    assert set(seen.values()) <= {1}
    again: Counter[int] = Counter()
    for record in hub:
        origin = record.origin
        at = commits.get(SourcePartition(*origin[:3]))
        if at is None:
            continue
        place = (record.partition, record.offset)
        if origin.offset >= at:
            assert place in seen, f"missed: {record}"
        else:
            again[record.partition] += place in seen
    reported = {it.partition: it.again for it in report.partitions}
    assert reported == {number: again[number] for number in reported}
    return again.total()


@pytest.fixture(scope="module")
def moved(
    shared_clusters: dict[str, EmbeddedCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moved]:
    """An application that was killed once, and whose hub topic grew meanwhile; it runs."""
    suffix = uuid.uuid4().hex[:8]
    orders, single, kept = (f"{name}.{suffix}" for name in ("orders", "single", "kept"))
    clusters = {"eu": shared_clusters["source-a"], "us": shared_clusters["source-b"]}
    hub, folder = shared_clusters["hub"], tmp_path_factory.mktemp("groups")
    servers = {alias: it.bootstrap_servers for alias, it in clusters.items()}
    create_topic(servers["eu"], orders, partitions=6)
    create_topic(servers["us"], orders, partitions=3)
    create_topic(servers["eu"], single, partitions=3)
    create_topic(servers["eu"], kept, partitions=3, config=COMPACTED)
    synced = {"sync": "sync-.*|aggregator-.*", "every": "1s"}
    config = make_config(
        hub,
        folder / "state",
        {
            alias: source(it, f"(orders|single|kept)[.]{suffix}", groups=synced, publish_group=True)
            for alias, it in clusters.items()
        },
        name=f"name-{suffix}",
        topics={
            "rename": "all.${topic}",
            "partitions": 4,
            "overrides": {
                f"all.{single}": {
                    "partition_by": "source_partition",
                    "partitions": 3,
                    "origin": "header",
                },
                f"all.{kept}": {"partitions": 2},
            },
        },
        stream={"checkpoint_interval": "1s"},
        spark={"conf": {"spark.driver.extraJavaOptions": QUICK_START}},
        api={"listen": "off"},
    )
    found = Moved(config, clusters, hub, orders, single, kept, folder)
    dice = random.Random(SEED)
    with ExitStack() as running:
        running.enter_context(load(list(clusters.values()), orders, per_second=400))
        with application(config, folder) as first:
            produce(servers["eu"], single, records(600))
            for topic in (orders, single):
                write_transactions(servers["eu"], topic)
            first.until(
                lambda: wait_until_topic_has(hub.bootstrap_servers, f"all.{orders}", 3_000),
                "records arrive",
            )
            for alias in clusters:
                read_unevenly(servers[alias], "early", orders, 700)
            first.kill()
        grow_topic(hub.bootstrap_servers, f"all.{orders}", 6)
        with application(config, folder, again=True) as second:
            second.until_logged("running")
            write_transactions(servers["us"], orders)
            for turn in range(8):
                keyed = [NewRecord(b"%d" % turn, b"key-%d" % (at % 50)) for at in range(75)]
                produce(servers["eu"], kept, keyed)
                wait_until_topic_has(hub.bootstrap_servers, f"all.{kept}", 75 * turn + 1)
            commit_anywhere(servers["eu"], "kept", kept, dice)
            produce(servers["eu"], single, records(300))
            for alias in clusters:
                commit_anywhere(servers[alias], "anywhere", orders, dice)
            read_unevenly(servers["us"], "one", orders, 900)
            read_some(servers["eu"], "single", single, 350)
            for alias in clusters:
                read_unevenly(servers[alias], "late", orders, 2_000)
            running.close()
            # Markers are the last in the logs of the source.
            write_transactions(servers["us"], orders)
            second.until(found.is_copied, "all is copied")
            write_aborted(hub.bootstrap_servers, f"all.{orders}", 6)
            yield found


@pytest.mark.timeout(600)
def test_a_group_is_cut_over_when_it_is_at_rest_and_copied(moved: Moved) -> None:
    topic, servers = moved.hub_topic(moved.orders), moved.hub.bootstrap_servers
    lines: list[str] = []
    cut_over = partial(translate_groups, moved.config, ["late"], None, cut_over=True)
    with member(moved.clusters["eu"].bootstrap_servers, "late", moved.orders):
        with pytest.raises(CutoverError, match="active members: late at eu"):
            of_the_only(cut_over(WRITE, 2.0, lines.append))
        tried = of_the_only(cut_over(ApplyRules(), SECONDS, lines.append))
        assert tried.done
        assert any(
            it.startswith("would wait: these groups have active members: late at eu")
            for it in lines
        )
    assert all(it < 0 for it in committed_at(servers, "late", topic).values())
    report = of_the_only(cut_over(WRITE, SECONDS, lines.append))
    assert report.done
    assert report.topics == (topic,)
    assert {it.source: it.waiting for it in report.sources} == {"eu": 0, "us": 0}
    assert [it.verdict for it in report.partitions] == [PlaceVerdict.WRITE] * 6
    twice = of_the_only(cut_over(WRITE, SECONDS, lines.append))
    assert twice.done
    assert [it.verdict for it in twice.partitions] == [PlaceVerdict.SAME] * 6
    assert [(it.offset, it.again) for it in twice.partitions] == [
        (it.offset, it.again) for it in report.partitions
    ]
    commits = moved.commits("late", moved.orders, "eu", "us")
    read = read_up_to(servers, "late", topic, end_offsets(servers, topic))
    assert check(report, commits, read, read_topic(servers, topic)) > 0


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("group", "aliases"), [("early", "eu us"), ("anywhere", "eu us"), ("one", "us")]
)
def test_nothing_is_missed_and_the_report_says_what_is_read_again(
    moved: Moved, group: str, aliases: str
) -> None:
    topic, servers = moved.hub_topic(moved.orders), moved.hub.bootstrap_servers
    report = moved.apply(group)
    assert report.done
    commits = moved.commits(group, moved.orders, *aliases.split())
    read = read_up_to(servers, group, topic, end_offsets(servers, topic))
    assert check(report, commits, read, read_topic(servers, topic)) > 0
    assert any("the earliest of their places" in it for it in report.notes) == (" " in aliases)


@pytest.mark.timeout(600)
def test_a_group_that_has_read_all_reads_nothing_again_and_little_is_read_for_it(
    moved: Moved,
) -> None:
    topic, servers = moved.hub_topic(moved.orders), moved.hub.bootstrap_servers
    for cluster in moved.clusters.values():
        ends = end_offsets(cluster.bootstrap_servers, moved.orders)
        commit_at(cluster.bootstrap_servers, "all", moved.orders, ends)
    report = moved.apply("all")
    assert report.done
    assert [(it.again, it.at_end) for it in report.partitions] == [(0, True)] * 6
    ends = end_offsets(servers, topic)
    assert {it.partition: it.offset for it in report.partitions} == ends
    assert report.records_read < sum(ends.values()) / 2


@pytest.mark.timeout(600)
def test_holes_by_compaction_at_the_hub_change_nothing(moved: Moved) -> None:
    topic, servers = moved.hub_topic(moved.kept), moved.hub.bootstrap_servers
    seen = [(time.monotonic(), len(read_topic(servers, topic)))]

    def is_still() -> bool:
        now = len(read_topic(servers, topic))
        if now != seen[-1][1]:
            seen.append((time.monotonic(), now))
        holes = now < sum(end_offsets(servers, topic).values())
        return holes and time.monotonic() - seen[-1][0] > STILL_SECONDS

    wait_for(is_still, "it is compacted")
    report = moved.apply("kept")
    assert report.done
    commits = moved.commits("kept", moved.kept, "eu")
    read = read_up_to(servers, "kept", topic, end_offsets(servers, topic))
    check(report, commits, read, read_topic(servers, topic))


@pytest.mark.timeout(600)
def test_by_source_partition_of_one_source_nothing_is_read_again(moved: Moved) -> None:
    topic, servers = moved.hub_topic(moved.single), moved.hub.bootstrap_servers
    report = moved.apply("single")
    assert report.done
    commits = moved.commits("single", moved.single, "eu")
    read = read_up_to(servers, "single", topic, end_offsets(servers, topic))
    assert check(report, commits, read, read_topic(servers, topic)) == 0
    assert [it.again for it in report.partitions] == [0, 0, 0]


@pytest.mark.timeout(600)
def test_a_group_that_is_active_or_further_at_the_hub_is_left_alone(moved: Moved) -> None:
    topic, servers = moved.hub_topic(moved.single), moved.hub.bootstrap_servers
    eu = moved.clusters["eu"].bootstrap_servers
    read_some(eu, "twin", moved.single, 100)
    for protocol in ("classic", "consumer"):
        with member(servers, "twin", topic, protocol):
            report = moved.apply("twin")
        assert [it.verdict for it in report.partitions] == [PlaceVerdict.ACTIVE] * 3
        assert not report.done
    assert all(it < 0 for it in committed_at(servers, "twin", topic).values())
    read_up_to(servers, "twin", topic, end_offsets(servers, topic))
    ends = committed_at(servers, "twin", topic)
    report = moved.apply("twin")
    assert PlaceVerdict.BACKWARDS in {it.verdict for it in report.partitions}
    assert not report.done
    assert committed_at(servers, "twin", topic) == ends
    file = moved.folder / "given.yaml"
    file.write_text(to_yaml(moved.config), "utf-8")
    shown = CliRunner().invoke(app, ["groups", "translate", "twin", "-c", str(file)])
    assert shown.exit_code == EXIT_DATA, shown.output
    assert "--allow-backwards sets it back" in shown.output
    asked = ["groups", "apply", "twin", "-c", str(file), "--allow-backwards"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == EXIT_DONE, done.output
    assert "They miss nothing." in done.output
    assert committed_at(servers, "twin", topic) == {
        it.partition: it.offset for it in report.partitions
    }
    one = [*asked, "--source", "eu", "--dry-run"]
    assert "only eu was asked" in CliRunner().invoke(app, one).output
    listed = CliRunner().invoke(app, ["groups", "list", "-c", str(file), "--source", "eu"])
    assert listed.exit_code == EXIT_DONE, listed.output
    assert "twin" in listed.output


@pytest.mark.timeout(600)
def test_groups_that_the_config_names_are_kept_up_while_it_runs(moved: Moved) -> None:
    topic = moved.hub_topic(moved.single)
    eu = moved.clusters["eu"].bootstrap_servers
    hub = [OurPartition(topic, number) for number in range(3)]

    def kept() -> dict[OurPartition, int]:
        found = committed(HUB, moved.config.hub, "sync-a", hub, 30.0)
        return {tp: it.offset for tp, it in found.items()}

    for least in (120, 100):
        read_some(eu, "sync-a", moved.single, least)
        wanted = of_the_only(
            translate_groups(moved.config, ["sync-a"], None, ApplyRules(), SECONDS, print)
        )
        places = {OurPartition(it.topic, it.partition): it.offset for it in wanted.partitions}
        wait_for(lambda: kept() == places, "the hub has it")  # noqa: B023
    # A person sets it back at the hub, to read again; and the group continues at its source.
    servers = moved.hub.bootstrap_servers
    commit_at(servers, "sync-a", topic, dict.fromkeys(range(3), 0))
    read_some(eu, "sync-a", moved.single, 50)
    read_some(eu, "sync-b", moved.single, 50)
    other = [OurPartition(topic, 0)]
    wait_for(lambda: committed(HUB, moved.config.hub, "sync-b", other, 30.0), "it was looked at")
    assert committed_at(servers, "sync-a", topic) == dict.fromkeys(range(3), 0)
    # A command moves it, and then it is kept up again.
    assert moved.apply("sync-a").done
    read_some(eu, "sync-a", moved.single, 50)
    wanted = of_the_only(
        translate_groups(moved.config, ["sync-a"], None, ApplyRules(), SECONDS, print)
    )
    places = {OurPartition(it.topic, it.partition): it.offset for it in wanted.partitions}
    wait_for(lambda: kept() == places, "the hub has it again")
    # The group that our own positions are published with reads nothing: it is not kept.
    own = f"aggregator-{moved.config.name}"
    wait_for(lambda: max(committed_at(eu, own, moved.single).values()) > 0, "it is published")
    assert committed(HUB, moved.config.hub, own, hub, 30.0) == {}


@pytest.mark.timeout(600)
def test_hundreds_of_groups_are_taken_over_by_one_look_and_only_once(moved: Moved) -> None:
    topic, servers = moved.hub_topic(moved.single), moved.hub.bootstrap_servers
    names = [f"many-{number:03}" for number in range(MANY)]
    ends = end_offsets(moved.clusters["eu"].bootstrap_servers, moved.single)
    with open_admin(moved.config, "eu") as admin:
        for at, name in enumerate(names):
            places = {OurPartition(moved.single, it): min(at, end) for it, end in ends.items()}
            assert commit(admin, name, places, SECONDS, "") == ""
    lines: list[str] = []

    def take_over(wanted: list[str]) -> dict[str, Outcome]:
        moving = Moving(
            moved.config,
            WRITE,
            time.monotonic() + SECONDS,
            lines.append,
            rest=True,
            copied=True,
            leave_moved=True,
        )
        return moving.all_of(dict.fromkeys(wanted, ("eu", "us")))

    done = take_over([*names, "nobody"])
    # No group is in the way of another.
    assert isinstance(done.pop("nobody"), RefusedError)
    for name, report in done.items():
        assert isinstance(report, GroupReport), f"{name}: {report}"
        assert report.done
    for name in (names[0], names[-1]):
        (shown,) = [it for it in (done[name],) if isinstance(it, GroupReport)]
        expected = {it.partition: it.offset for it in shown.partitions}
        assert committed_at(servers, name, topic) == expected
    # Their consumers continue at the hub; one continues at the source after all.
    commit_at(servers, names[0], topic, {0: 90})
    commit_at(moved.clusters["eu"].bootstrap_servers, names[1], moved.single, {0: 7})
    assert list(take_over(names)) == [names[1]]
    assert committed_at(servers, names[0], topic)[0] == 90


def test_a_group_that_has_read_nothing_is_refused(moved: Moved) -> None:
    with pytest.raises(RefusedError, match="group nobody has committed nothing"):
        moved.apply("nobody")


def test_several_groups_are_translated_by_one_command(moved: Moved, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(moved.config))
    words = ["groups", "translate", "early", "nobody", "single", "-c", str(file)]
    done = CliRunner().invoke(app, [*words, "-o", "json"])
    found = json.loads(done.stdout)
    assert [it["group"] for it in found["groups"]] == ["early", "nobody", "single"]
    assert "group nobody has committed nothing" in found["groups"][1]["error"]
    assert found["done"] is False
    # Where the others are at the hub by now depends on the tests before.
    dones = 0
    for group in (found["groups"][0], found["groups"][2]):
        alone = of_the_only(
            translate_groups(moved.config, [group["group"]], None, ApplyRules(), SECONDS, print)
        )
        offsets = [(it["topic"], it["partition"], it["offset"]) for it in group["partitions"]]
        assert offsets == [(it.topic, it.partition, it.offset) for it in alone.partitions]
        assert group["done"] == alone.done
        dones += alone.done
    assert done.exit_code == (EXIT_CONFIG if dones == 2 else EXIT_DATA)
    shown = CliRunner().invoke(app, words)
    assert "group nobody: " in shown.stdout
    assert f"{dones} of 3 groups are done." in shown.stdout
