"""What a hub's leader holds above its high watermark when its writer is gone: it comes once."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from faults.clusters import ProxiedHub
from support.application import application
from support.changing import create_at
from support.load import load, records
from support.reading import SECONDS, read_topic, wait_for, wait_until_topic_has
from support.running import Run, catch_up, make_config, run_in_background, source
from support.silence import Arrivals, listening
from support.verdict import assert_copied

LOG = logging.getLogger(__name__)
UNSEEN = 1_000
"""How many records come after replication has ended: those that are sent are not acknowledged."""
LAG_MS = "120000"
"""Longer than all of it takes: no replica is given up by itself."""


@pytest.fixture(scope="module")
def hub2() -> Iterator[ProxiedHub]:
    """A hub of two brokers between which replication can be cut; tests heal it."""
    with ProxiedHub(2, config={"replica.lag.time.max.ms": LAG_MS}) as cluster:
        assert isinstance(cluster, ProxiedHub)
        yield cluster


@pytest.mark.timeout(600)
def test_what_a_leader_holds_that_no_replica_has_is_waited_for_and_not_written_again(
    source_a: EmbeddedCluster, hub2: ProxiedHub, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    create_topic(hub2.admin_servers, unique, partitions=2, config={"min.insync.replicas": "1"})
    config = make_config(
        hub2, tmp_path / "state", {"eu": source(source_a, unique)}, api={"listen": "off"}
    )
    with load([source_a], unique), application(config, tmp_path) as first:
        wait_until_topic_has(hub2.admin_servers, unique, 2_000)
        cut(hub2)
        seen = wait_until_topic_has(source_a.bootstrap_servers, unique, 1)
        wait_until_topic_has(source_a.bootstrap_servers, unique, seen + UNSEEN)
        first.kill()
        first.wait_gone()
    with application(config, tmp_path, arguments=["--until-caught-up"]) as second:
        second.until(
            lambda: second.has_logged("recovery_waits") or second.has_logged("lane_started"),
            "it waits for the hub, or has begun without",
        )
        heal(hub2)
        assert second.wait(SECONDS), second.text
        assert second.exit_code == 0, second.text
        logged = [event["event"] for event in second.events()]
    assert_copied({"eu": (source_a.bootstrap_servers, unique)}, (hub2.admin_servers, unique), 2_000)
    assert "recovery_waits" in logged


@pytest.mark.timeout(600)
def test_an_event_that_only_a_leader_has_is_not_taken_from_another_source_as_well(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub2: ProxiedHub,
    tmp_path: Path,
    unique: str,
) -> None:
    for cluster in (source_a, source_b):
        create_topic(cluster.bootstrap_servers, unique, partitions=1)
    create_topic(hub2.admin_servers, unique, partitions=1, config={"min.insync.replicas": "1"})
    config = make_config(
        hub2,
        tmp_path / "state",
        {"eu": source(source_a, unique), "us": source(source_b, unique)},
        topics={
            "overrides": {unique: {"dedup": {"by": "key", "window": "1h"}}},
            "duplicates": f"{unique}.duplicates",
        },
        supervision={"stop_timeout": "4s"},
        api={"listen": "off"},
    )
    send(source_a, unique, "before of eu")
    send(source_b, unique, "before of us")
    control = Control(config)
    with run_in_background(config, control) as first:
        wait_until_topic_has(hub2.admin_servers, unique, 2)
        control.pause("us")
        first.wait_for(lambda: sources_of(first) == {"eu"}, "us is given up")
        cut(hub2)
        send(source_a, unique, "both")
        first.wait_for(lambda: records_of(first, "eu") == 2, "it is on its way")
        control.pause("eu")
        first.wait_for(lambda: "lane_failed" in first.kinds(), "its task is ended")
        control.resume("us")
        send(source_b, unique, "both", "after")
        first.wait_for(lambda: decides(first, "dedup_settled"), "claims of before are judged")
    # Its recovery may wait for the hub, and then it does not run before that is healed.
    with run_in_background(config, Control(config), waits=False) as second:
        second.wait_for(lambda: decides(second, "dedup_ready"), "the hub's events are known or not")
        heal(hub2)
        second.wait_for(lambda: "running" in second.kinds(), "it runs")
        wait_until_topic_has(hub2.admin_servers, f"{unique}.duplicates", 1)
        wait_until_topic_has(hub2.admin_servers, unique, 4)
    events = Counter(it.key for it in read_topic(hub2.admin_servers, unique))
    assert events == {b"before of eu": 1, b"before of us": 1, b"both": 1, b"after": 1}
    assert [NOT_SHOWN in words(run) for run in (first, second)] == [True, True]


@pytest.mark.timeout(600)
def test_a_hub_topic_that_is_not_replicated_holds_up_no_other(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub2: ProxiedHub,
    tmp_path: Path,
    unique: str,
) -> None:
    """When its lane gives it up, and at a start when nothing has ended cleanly."""
    well, ill, other, later = names = [f"{unique}.{it}" for it in ("well", "ill", "other", "later")]
    for topic in (well, other, later):
        create_at(hub2, topic, [1])
    create_at(hub2, ill, [1, 2], min_insync_replicas="1")
    origins = {well: source_a, ill: source_a, other: source_b, later: source_a}
    for topic in names[:3]:
        create_topic(origins[topic].bootstrap_servers, topic)
    config = make_config(
        hub2,
        tmp_path / "state",
        {"eu": source(source_a, f"{unique}[.].*"), "us": source(source_b, other)},
        # Four times as long the hub may take nothing of a partition.
        hub={"producer": {"request.timeout.ms": "1000"}},
        topics={"sync_configs": False},
        supervision={"stop_timeout": "4s"},
        api={"listen": "off"},
    )

    def write(topic: str, count: int = 100) -> None:
        produce(origins[topic].bootstrap_servers, topic, records(count))

    with ExitStack() as stack:
        for topic in (well, other):
            stack.enter_context(load([origins[topic]], topic))
        heard = [stack.enter_context(listening(hub2.admin_servers, it, 1)) for it in (well, other)]
        begins = time.monotonic()
        first = Run(config).begin()
        stack.callback(first.stop)
        usual = flows(heard, begins)
        write(ill)
        wait_until_topic_has(hub2.admin_servers, ill, 100)
        first.wait_for(lambda: ill in read_by(first), "it is read")
        cut(hub2)
        for each in heard:
            each.longest.clear()
        arrived = [it.records for it in heard]
        write(ill)
        first.wait_for(lambda: "partitions_stuck" in first.kinds(), "it is given up")
        assert all(it.records > before for it, before in zip(heard, arrived, strict=True))
        flows(heard, time.monotonic())
        silence = max(max(it.longest.values()) for it in heard)
        # Its status comes once a second: the last one may be of before.
        first.wait_for(lambda: read_by(first) == {well, other}, "only the others are read")
        assert "lane_failed" not in first.kinds()
        assert words(first).count("lane union reads") == 1
        heal(hub2)
        first.wait_for(lambda: ill in read_by(first), "it is read again")
        cut(hub2)
        before = held_by_leader(hub2, ill)
        write(ill)
        first.wait_for(lambda: held_by_leader(hub2, ill) > before, "it is on its way")
        assert first.stop().exit_code != 0
        begins = time.monotonic()
        with run_in_background(config, waits=False) as second:
            start = flows(heard, begins)
            create_topic(source_a.bootstrap_servers, later)
            write(later)
            wait_until_topic_has(hub2.admin_servers, later, 100, FLOWS_SECONDS)
            assert ill not in read_by(second)
            heal(hub2)
            wait_until_topic_has(hub2.admin_servers, ill, 300)
            second.wait_for(lambda: ill in read_by(second), "it is read again")
            write(ill)
            wait_until_topic_has(hub2.admin_servers, ill, 400)
    LOG.warning("start %.2f s, silence %.2f s, start beside: %.2f s", usual, silence, start)
    assert catch_up(config).exit_code == 0
    for topic in names:
        cluster = origins[topic]
        alias = "us" if topic == other else "eu"
        assert_copied({alias: (cluster.bootstrap_servers, topic)}, (hub2.admin_servers, topic), 100)


FLOWS_SECONDS = 30.0
"""A new topic is found every two seconds."""
NOT_SHOWN = "not all replicas have"


def flows(heard: Sequence[Arrivals], begins: float) -> float:
    """How long it takes until records of each arrive that came later than that."""
    wait_for(lambda: all(max(it.last.values(), default=0.0) > begins for it in heard), "they flow")
    return time.monotonic() - begins


def read_by(run: Run) -> set[str]:
    """The topics of which its lanes have partitions."""
    return {it.topic for it in run.status.partitions if it.lane} if run.statuses else set()


def held_by_leader(hub: ProxiedHub, topic: str) -> int:
    """How many bytes the first broker has of a topic of one partition, replicated or not."""
    folder = hub.brokers[0].home / "data" / f"{topic}-0"
    return sum(it.stat().st_size for it in folder.glob("*.log"))


def words(run: Run) -> str:
    """All that a run has said."""
    return "\n".join(it.message for it in run.events)


def decides(run: Run, kind: str) -> bool:
    """Whether it goes by what the hub shows, or has said that it waits for more."""
    return NOT_SHOWN in words(run) or kind in run.kinds()


def send(cluster: EmbeddedCluster, topic: str, *keys: str) -> None:
    """Write a record of each key."""
    records = [NewRecord(f"{key} at {cluster.name}".encode(), key.encode()) for key in keys]
    produce(cluster.bootstrap_servers, topic, records)


def sources_of(run: Run) -> set[str]:
    """The sources of which its lanes have partitions."""
    return {it.cluster for it in run.status.partitions if it.lane}


def records_of(run: Run, alias: str) -> int:
    """How many records of a source it has sent, be they acknowledged or not."""
    return sum(it.records for it in run.status.sources if it.alias == alias)


def cut(hub: ProxiedHub) -> None:
    """No broker gets from another what it is to have as well."""
    for proxy in hub.inner:
        proxy.cut()


def heal(hub: ProxiedHub) -> None:
    """All is as before."""
    for proxy in hub.inner:
        proxy.heal()
