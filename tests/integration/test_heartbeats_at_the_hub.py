"""Heartbeats of the sources that are read, at a real hub, read by MirrorMaker 2's own class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from aggregator.config.schema import Config
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import admin, create_topic, produce
from aggregator.features.heartbeats.heartbeats import key_of, value_of
from aggregator.features.verify.audit_inputs import look
from aggregator.features.verify.audit_scope import Scope
from aggregator.kafka.admin import HUB, open_admin
from aggregator.model.values import SourceState
from aggregator.status.schema import HeartbeatsStatus
from support.clusters import ClusterFactory
from support.java_tests import read_by_mirror_maker
from support.load import records
from support.locked import CLIENT, PASSWORD, USER
from support.reading import (
    Record,
    read_topic,
    topics_of,
    wait_for,
    wait_until_topic_has,
)
from support.running import Run, make_config, run_in_background, source

SOME = 3
DENIED = f"User:{USER}"


@pytest.fixture(scope="module")
def guarded(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    """A hub in which our user may do everything that no ACL forbids."""
    return lasting_clusters(
        "guarded",
        sasl_users={USER: PASSWORD},
        acls=True,
        config={"allow.everyone.if.no.acl.found": "true"},
    )


@pytest.fixture
def denied(guarded: EmbeddedCluster) -> Iterator[AdminClient]:
    """Our user may not write heartbeats, until `allow` says otherwise."""
    kafka = admin(guarded.admin_servers)
    for kind, operation in (
        (AclPermissionType.ALLOW, AclOperation.ALL),
        (AclPermissionType.DENY, AclOperation.WRITE),
    ):
        binding = AclBinding(
            ResourceType.TOPIC,
            "heartbeats",
            ResourcePatternType.LITERAL,
            DENIED,
            "*",
            operation,
            kind,
        )
        for future in kafka.create_acls([binding]).values():
            future.result(30)
    yield kafka
    allow(kafka)


def allow(kafka: AdminClient) -> None:
    """Take back all that the ACLs say of the topic."""
    every = AclBindingFilter(
        ResourceType.TOPIC,
        "heartbeats",
        ResourcePatternType.LITERAL,
        DENIED,
        "*",
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    for future in kafka.delete_acls([every]).values():
        future.result(30)


def heartbeats(hub: EmbeddedCluster) -> list[Record]:
    if "heartbeats" not in topics_of(hub.admin_servers):
        return []
    return read_topic(hub.admin_servers, "heartbeats")


def counts(hub: EmbeddedCluster) -> Counter[bytes | None]:
    """How many heartbeats there are of each key."""
    return Counter(record.key for record in heartbeats(hub))


def config_of(guarded: EmbeddedCluster, state: Path, **sources: dict[str, object]) -> Config:
    return make_config(
        guarded, state, sources, hub={"kafka": CLIENT}, heartbeats=True, api={"listen": "off"}
    )


def test_each_source_that_is_read_has_a_heartbeat_every_second_which_mirrormaker_reads(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    guarded: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    for cluster in (source_a, source_b):
        create_topic(cluster.bootstrap_servers, unique)
        produce(cluster.bootstrap_servers, unique, records(50))
    config = config_of(
        guarded, tmp_path / "state", eu=source(source_a, unique), us=source(source_b, unique)
    )
    wanted = [config]
    control = Control(config, lambda _: wanted[0])
    run = Run(config, control).start()
    eu, us = key_of("eu"), key_of("us")

    def shown() -> HeartbeatsStatus | None:
        return run.status.heartbeats

    try:
        run.wait_for(lambda: min(counts(guarded)[it] for it in (eu, us)) >= SOME, "both have some")
        assert shown() == HeartbeatsStatus(topic="heartbeats", sources=("eu", "us"))
        control.pause("us")
        run.wait_for(
            lambda: shown() == HeartbeatsStatus(topic="heartbeats", sources=("eu",)),
            "that of the paused source stops",
        )
        before = counts(guarded)
        run.wait_for(
            lambda: counts(guarded)[eu] >= before[eu] + SOME, "those of the other one continue"
        )
        assert counts(guarded)[us] == before[us]
        control.resume("us")
        run.wait_for(lambda: counts(guarded)[us] > before[us], "it is read again")
        wanted[0] = config.model_copy(update={"heartbeats": False})
        control.reload()
        run.wait_for(lambda: shown() is None, "they are switched off")
        assert run.status.phase == "RUNNING"
    finally:
        result = run.stop()
    assert (result.exit_code, result.problems) == (0, ())

    found = heartbeats(guarded)
    # About one a second, and never two at once.
    stamps = [record.timestamp for record in found if record.key == eu]
    assert all(after - before >= 500 for before, after in pairwise(stamps))
    assert [record.value for record in found] == [value_of(it.timestamp) for it in found]
    assert {(record.partition, record.headers) for record in found} == {(0, ())}
    lines = [f"{(it.key or b'').hex()} {(it.value or b'').hex()}" for it in found]
    assert read_by_mirror_maker(tmp_path, "\n".join(lines)) == [
        f"{'eu' if it.key == eu else 'us'} hub {it.timestamp}" for it in found
    ]
    with open_admin(config, HUB) as client:
        facts = client.describe_topics(["heartbeats"], 30).topics["heartbeats"]
    assert (facts.partitions, facts.configs) == (1, {"cleanup.policy": "compact"})
    # They are no records of a source, and verify does not look at them.
    assert {place.topic for place in look(config, Scope()).hub} == {unique}


def test_a_hub_that_refuses_them_stops_nothing_and_they_begin_when_it_does_no_more(
    source_a: EmbeddedCluster,
    guarded: EmbeddedCluster,
    denied: AdminClient,
    tmp_path: Path,
    unique: str,
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    produce(source_a.bootstrap_servers, unique, records(50))
    alias = "refused"
    config = config_of(guarded, tmp_path / "state", **{alias: source(source_a, unique)})
    with run_in_background(config) as run:

        def error() -> str:
            beats = run.status.heartbeats
            return beats.error if beats is not None else ""

        run.wait_for(lambda: "allow WRITE on topic heartbeats" in error(), "it is said")
        produce(source_a.bootstrap_servers, unique, records(50))
        wait_until_topic_has(guarded.admin_servers, unique, 100)
        (life,) = run.status.sources
        assert life.state is SourceState.RUNNING
        assert run.kinds().count("heartbeats_failed") == 1
        assert counts(guarded)[key_of(alias)] == 0
        allow(denied)
        wait_for(lambda: counts(guarded)[key_of(alias)], "it is tried again")
        run.wait_for(lambda: not error(), "and said no more")
