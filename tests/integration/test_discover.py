"""Discovery, actions and checks against real brokers: good, dead, hung, refusing ones."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic

from aggregator.config.schema import Config
from aggregator.extras.embedded import topics
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.features.groups.group_admin import committed_by_all, group_states
from aggregator.kafka.admin import (
    HUB,
    ClusterAdmin,
    ClusterCallError,
    PartitionOffsets,
    apply,
    check_cluster,
    discover,
    hub_facts,
    open_admin,
)
from aggregator.kafka.admin.client_errors import code_of
from aggregator.model.values import (
    FailureKind,
    OffsetRange,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan import make_plan
from aggregator.plan.actions import Action, AlterConfigs, CreateTopic, GrowTopic
from support.clusters import ClusterFactory
from support.groups import commit_at
from support.reading import wait_for

HUNG_SECONDS = 6
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def config(hub: str, include: str, timeout: float = 10.0, **sources: dict[str, Any]) -> Config:
    return Config.model_validate(
        {
            "hub": {"bootstrap_servers": hub},
            "supervision": {"connect_timeout": timeout},
            "sources": {
                alias: {"topics": {"include": include}, **source}
                for alias, source in sources.items()
            },
        }
    )


def at(cluster: EmbeddedCluster) -> dict[str, Any]:
    return {"bootstrap_servers": cluster.bootstrap_servers}


def login(cluster: EmbeddedCluster, user: str, password: str) -> dict[str, Any]:
    return {
        **at(cluster),
        "kafka": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{LOGIN} username="{user}" password="{password}";',
        },
    }


@pytest.fixture(scope="module")
def guarded(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    """A cluster with logins and ACLs: `root` may all, `reader` what a test allows."""
    return lasting_clusters(
        "guarded", sasl_users={"root": "r", "reader": "s"}, super_users=["root"], acls=True
    )


@pytest.fixture
def hub_admin(hub: EmbeddedCluster) -> Iterator[ClusterAdmin]:
    cfg = config(hub.bootstrap_servers, "x", x={"bootstrap_servers": "127.0.0.1:1"})
    with open_admin(cfg, HUB) as admin:
        yield admin


def test_facts_of_a_cluster(source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str) -> None:
    topics.create_topic(
        source_a.bootstrap_servers, unique, partitions=3, config={"retention.ms": "-1"}
    )
    topics.create_topic(source_a.bootstrap_servers, f"other-{unique}", partitions=2)
    topics.create_topic(hub.bootstrap_servers, unique, partitions=5)
    found = discover(config(hub.bootstrap_servers, unique, eu=at(source_a)))
    assert not found.failed
    eu = found.ok["eu"]
    assert (eu.cluster_id, eu.brokers, eu.notes) == (source_a.cluster_id, 1, ())
    topic = eu.topics[unique]
    assert topic.topic_id and topic.partitions == 3 and topic.replication_factor == 1
    assert topic.configs == {"retention.ms": "-1"} and topic.retention_ms == -1
    assert (topic.max_message_bytes, topic.cleanup_policy) == (1_048_588, "delete")
    other = eu.topics[f"other-{unique}"]
    assert (other.partitions, other.topic_id) == (2, "")
    assert hub_facts(found).cluster_id == hub.cluster_id
    assert hub_facts(found).topics[unique].topic_id
    cfg = config(hub.bootstrap_servers, unique, eu=at(source_a))
    (again,) = discover(cfg, aliases=["eu"]).ok.values()
    # Other tests create topics there meanwhile.
    ours = {name: eu.topics[name] for name in (unique, f"other-{unique}")}
    assert ours.items() <= again.topics.items()
    assert replace(again, topics=ours) == replace(eu, topics=ours)


@pytest.fixture(scope="module")
def frail(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    """One that tests freeze for a while, or kill and start again."""
    return lasting_clusters("frail")


def test_dead_and_hung_clusters_do_not_hold_up_the_good_one(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, frail: EmbeddedCluster, unique: str
) -> None:
    topics.create_topic(source_a.bootstrap_servers, unique)
    dead = {"bootstrap_servers": "127.0.0.1:1"}
    nowhere = {"bootstrap_servers": "no.such.host.invalid:9092"}
    cfg = config(
        hub.bootstrap_servers,
        unique,
        timeout=HUNG_SECONDS,
        good=at(source_a),
        dead=dead,
        hung=at(frail),
        nowhere=nowhere,
    )
    frail.brokers[0].pause()
    try:
        start = time.monotonic()
        found = discover(cfg)
        seconds = time.monotonic() - start
    finally:
        frail.brokers[0].resume()
    # Side by side: one after another, the three would take as long each.
    assert seconds < 2 * HUNG_SECONDS
    assert set(found.ok) == {HUB, "good"}
    kinds = {alias: failure.kind for alias, failure in found.failed.items()}
    assert kinds == {
        "dead": FailureKind.UNREACHABLE,
        "nowhere": FailureKind.UNREACHABLE,
        "hung": FailureKind.TIMEOUT,
    }
    assert "connection refused 127.0.0.1:1" in found.failed["dead"].reason
    assert "no.such.host.invalid" in found.failed["nowhere"].reason
    assert found.failed["hung"].reason == "no answer within 6 s"
    assert "sources.dead.bootstrap_servers" in found.failed["dead"].hint
    plan = make_plan(cfg, found, hub_facts(found))
    assert [route.cluster for route in plan.routes] == ["good"]
    assert sum("left out until it can be reached" in it for it in plan.warnings) == 3


def test_an_open_client_survives_a_pause_of_its_broker(frail: EmbeddedCluster) -> None:
    topics.create_topic(frail.bootstrap_servers, "t")
    with open_admin(config("127.0.0.1:1", "t", eu=at(frail)), "eu") as admin:
        assert admin.offsets([TopicPartition("t", 0)], 10).ranges
        frail.brokers[0].pause()
        try:
            start = time.monotonic()
            with pytest.raises(ClusterCallError, match="eu: timeout"):
                admin.offsets([TopicPartition("t", 0)], 1)
            assert time.monotonic() - start < 10
        finally:
            frail.brokers[0].resume()
        assert admin.offsets([TopicPartition("t", 0)], 10).ranges


def test_wrong_logins_are_refused_and_say_so(
    guarded: EmbeddedCluster, hub: EmbeddedCluster
) -> None:
    cfg = config(
        hub.bootstrap_servers,
        "t",
        wrong=login(guarded, "root", "no"),
        none=at(guarded),
        right=login(guarded, "root", "r"),
    )
    found = discover(cfg)
    assert set(found.ok) == {HUB, "right"}
    wrong = found.failed["wrong"]
    assert wrong.kind is FailureKind.REFUSED
    assert "Invalid username or password" in wrong.reason
    assert "sources.wrong.kafka" in wrong.hint
    assert found.failed["none"].kind is FailureKind.UNREACHABLE
    assert "security.protocol" in found.failed["none"].hint
    first, second = check_cluster(cfg, "wrong", 10)
    assert (first.name, first.ok) == ("reachable", True)
    assert (second.name, second.ok) == ("authenticated", False)


def test_describe_without_read_is_distinguished(
    guarded: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> None:
    topics.create_topic(guarded.admin_servers, unique)
    topics.create_topic(guarded.admin_servers, f"{unique}-hidden")
    _allow(guarded, "reader", unique, "DESCRIBE")
    cfg = config(hub.bootstrap_servers, f"{unique}.*", eu=login(guarded, "reader", "s"))
    rights = [it for it in check_cluster(cfg, "eu", 10) if it.name.startswith("rights")]
    assert [(it.name, it.ok) for it in rights] == [(f"rights on {unique}", False)]
    assert rights[0].detail == "without READ, DESCRIBE_CONFIGS"
    assert rights[0].hint == f"allow READ, DESCRIBE_CONFIGS on topic {unique} to User:reader"
    found = discover(cfg, aliases=["eu"])
    assert "DescribeConfigs" in found.ok["eu"].notes[0]
    _allow(guarded, "reader", unique, "READ")
    _allow(guarded, "reader", unique, "DESCRIBE_CONFIGS")
    assert all(it.ok for it in check_cluster(cfg, "eu", 10))


def test_a_group_without_a_right_is_in_the_way_of_no_other(
    guarded: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> None:
    """A user who may describe the cluster sees all groups, and is refused the offsets of some."""
    topics.create_topic(guarded.admin_servers, unique)
    mine, theirs = f"mine-{unique}", f"theirs-{unique}"
    _allow(guarded, "reader", unique, "READ")
    _allow(guarded, "reader", "kafka-cluster", "DESCRIBE", ResourceType.BROKER)
    _allow(guarded, "reader", mine, "DESCRIBE", ResourceType.GROUP)
    for group in (mine, theirs):
        commit_at(guarded.admin_servers, group, unique, {0: 0})
    cfg = config(hub.bootstrap_servers, unique, eu=login(guarded, "reader", "s"))
    with open_admin(cfg, "eu") as admin:
        wait_for(lambda: {mine, theirs} <= group_states(admin, 10).keys(), "both are listed")
    place = TopicPartition(unique, 0)

    def ask(*groups: str) -> tuple[dict[str, dict[TopicPartition, int]], list[str]]:
        offsets, failed = committed_by_all("eu", cfg.sources["eu"], groups, [place], 10)
        assert all("allow READ on the group" in str(it) for it in failed.values())
        return offsets, sorted(failed)

    wait_for(lambda: ask(theirs, mine) == ({mine: {place: 0}}, [theirs]), "one is answered")
    # Nor is it silence when all are refused.
    assert ask(theirs) == ({}, [theirs])


def test_check_of_the_hub(hub: EmbeddedCluster, source_a: EmbeddedCluster, unique: str) -> None:
    topics.create_topic(
        hub.bootstrap_servers,
        unique,
        config={"min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime"},
    )
    results = {
        it.name: it
        for it in check_cluster(config(hub.bootstrap_servers, unique, eu=at(source_a)), HUB, 10)
    }
    assert {name for name, it in results.items() if not it.ok} == {
        f"replicas of {unique}",
        f"limits of {unique}",
    }
    assert "min.insync.replicas 2" in results[f"replicas of {unique}"].detail
    assert results[f"rights on {unique}"].ok and results["create topics"].ok


def test_actions_twice(hub_admin: ClusterAdmin, hub: EmbeddedCluster, unique: str) -> None:
    topics.create_topic(hub.bootstrap_servers, f"old-{unique}", partitions=2)
    actions: list[Action] = [
        CreateTopic(unique, 3, None, {"max.message.bytes": "2000000"}),
        GrowTopic(f"old-{unique}", 2, 4),
        AlterConfigs(f"old-{unique}", {"retention.ms": (None, "-1")}),
    ]
    first = apply(actions, hub_admin, 10)
    assert [(it.ok, it.changed) for it in first] == [(True, True)] * 3

    def altered() -> Mapping[str, TopicFacts] | None:
        """A broker reports an altered config a moment after the controller has taken it."""
        seen = hub_admin.describe(lambda name: unique in name, 10).topics
        return seen if seen[f"old-{unique}"].retention_ms == -1 else None

    found = wait_for(altered, "the new retention is reported")
    assert found
    assert found[unique].partitions == 3 and found[unique].max_message_bytes == 2_000_000
    assert found[f"old-{unique}"].partitions == 4
    second = apply(actions, hub_admin, 10)
    assert [(it.ok, it.changed) for it in second] == [(True, False)] * 3
    assert hub_admin.describe(lambda name: unique in name, 10).topics == found


def test_actions_that_fail_say_why_and_stop_no_other(
    hub_admin: ClusterAdmin, hub: EmbeddedCluster, unique: str
) -> None:
    topics.create_topic(hub.bootstrap_servers, f"{unique}.x", partitions=2)
    results = apply(
        [
            CreateTopic(f"{unique}.x", 9, None),
            CreateTopic(f"{unique}_x", 1, None),
            CreateTopic(f"rf-{unique}", 1, 3),
            AlterConfigs(f"{unique}.x", {"no.such.config": (None, "1")}),
            CreateTopic(f"good-{unique}", 1, 1),
        ],
        hub_admin,
        10,
    )
    assert [it.ok for it in results] == [False, False, False, False, True]
    assert "with 2 partitions" in results[0].reason
    assert "collides" in results[1].reason
    assert "replication factor" in results[2].reason
    assert "no.such.config" in results[3].reason


def test_a_plan_applied_needs_nothing_more(
    source_a: EmbeddedCluster, source_b: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> None:
    topics.create_topic(
        source_a.bootstrap_servers, unique, partitions=6, config={"segment.bytes": "1048576"}
    )
    topics.create_topic(source_b.bootstrap_servers, unique, partitions=3)
    cfg = config(hub.bootstrap_servers, unique, eu=at(source_a), us=at(source_b))
    found = discover(cfg)
    plan = make_plan(cfg, found, hub_facts(found))
    assert not plan.refusals
    # The quarantine topic is there when another test was before.
    assert unique in {it.name for it in plan.actions if isinstance(it, CreateTopic)}
    with open_admin(cfg, HUB) as admin:
        assert all(it.ok for it in apply(plan.actions, admin, 10))
    found = discover(cfg)
    again = make_plan(cfg, found, hub_facts(found))
    assert (again.actions, again.warnings, again.refusals) == ((), (), ())
    created = hub_facts(found).topics[unique]
    assert created.partitions == 6
    assert created.configs["segment.bytes"] == "1048576"
    assert created.max_message_bytes == 1_048_588 + 2048
    assert created.timestamp_after_max_ms == 9_223_372_036_854_775_807


def test_offsets_per_partition(hub_admin: ClusterAdmin, hub: EmbeddedCluster, unique: str) -> None:
    # Records of 1970 would be deleted at once by the default retention.
    topics.create_topic(hub.bootstrap_servers, unique, partitions=2, config={"retention.ms": "-1"})
    records = [topics.NewRecord(b"v", partition=0, timestamp=ms) for ms in (1000, 2000, 3000)]
    topics.produce(hub.bootstrap_servers, unique, records)
    first, second = TopicPartition(unique, 0), TopicPartition(unique, 1)
    missing, beyond = TopicPartition(f"no-{unique}", 0), TopicPartition(unique, 9)
    everything = [first, second, missing, beyond]
    found = hub_admin.offsets(everything, 10)
    assert found.ranges == {first: OffsetRange(0, 3), second: OffsetRange(0, 0)}
    assert set(found.failed) == {missing, beyond}
    assert hub_admin.offsets_at(2000, everything, 10) == {first: 1, second: 0}
    assert hub_admin.offsets_at(4000, everything, 10) == {first: 3, second: 0}
    assert hub_admin.oldest_record_ms(everything, 10) == {unique: 1000}
    assert hub_admin.offsets([], 10).ranges == {}


def test_offsets_are_asked_only_of_a_client_that_knows_the_leaders(
    hub_admin: ClusterAdmin,
    hub: EmbeddedCluster,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Otherwise librdkafka looks for them itself, which has ended the process now and then."""

    def looked() -> int:
        hub_admin.client.poll(0.2)
        return sum("query partition leaders" in line for line in caplog.messages)

    caplog.set_level("DEBUG", "aggregator.kafka")
    monkeypatch.setitem(hub_admin._settings, "debug", "metadata")
    topics.create_topic(hub.bootstrap_servers, unique, partitions=2)
    new = TopicPartition(f"new-{unique}", 0)
    wanted = [TopicPartition(unique, 0), TopicPartition(unique, 1), new]
    hub_admin.client.renew()
    for _ in range(2):
        assert hub_admin.offsets(wanted, 10).failed.keys() == {new}
    with pytest.raises(ClusterCallError, match="no partition has a leader"):
        hub_admin.offsets([new], 10)
    # One that has come since is found; so are all by a client that has just been made.
    topics.create_topic(hub.bootstrap_servers, new.topic)
    assert hub_admin.offsets(wanted, 10).failed == {}
    hub_admin.client.renew()
    assert hub_admin.offsets(wanted, 10).failed == {}
    assert looked() == 0
    # The line is the one that librdkafka writes when it looks for them.
    hub_admin.client.renew()
    asked = {ClientPartition(new.topic, 0): OffsetSpec.latest()}  # type: ignore[no-untyped-call]
    hub_admin.wait(hub_admin.client.list_offsets(asked), 10)
    assert looked() > 0


def test_the_client_writes_nothing_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    found = discover(config("127.0.0.1:1", "x", timeout=1, eu={"bootstrap_servers": "127.0.0.1:1"}))
    assert set(found.failed) == {HUB, "eu"}
    assert capfd.readouterr().err == ""


def _allow(
    cluster: EmbeddedCluster,
    user: str,
    name: str,
    operation: str,
    kind: ResourceType = ResourceType.TOPIC,
) -> None:
    binding = AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation[operation],
        AclPermissionType.ALLOW,
    )
    admin = topics.admin(cluster.admin_servers)  # its futures end with it
    for future in admin.create_acls([binding]).values():
        future.result(topics.SECONDS)


def test_a_dead_leader_that_is_still_named_is_not_asked_again_and_again(
    cluster_factory: ClusterFactory,
) -> None:
    """Without a quorum no leader is elected; librdkafka would connect to it as fast as it can."""
    cluster = cluster_factory("halved", 2)
    dies, lives = led = [TopicPartition("led", each) for each in range(2)]
    topic = NewTopic("led", 2, replica_assignment=[[2], [1]])
    kafka = topics.admin(cluster.bootstrap_servers)
    kafka.create_topics([topic])["led"].result(30)
    with open_admin(config("127.0.0.1:1", "led", eu=at(cluster)), "eu") as admin:

        def answered() -> bool:
            with suppress(ClusterCallError):
                return admin.log_ends(led, 5) == {dies: 0, lives: 0}
            return False

        def found_in_a_second(*numbers: int) -> dict[int, Any]:
            """What librdkafka has found when its own time was up before ours."""
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            asked = {ClientPartition("led", each): latest for each in numbers}
            futures = admin.client.list_offsets(asked, request_timeout=1)
            return {tp.partition: it for tp, it in admin.wait(futures, 30).items()}

        wait_for(answered, "its leaders answer", 60)
        cluster.brokers[1].kill()
        # For a leader that is silent it reports -1001 as the offset, and no error.
        found = found_in_a_second(0, 1)
        assert (code_of(found[0]), found[1].offset) == (KafkaError._TIMED_OUT, 0)
        with pytest.raises(ClusterCallError):
            found_in_a_second(0)
        with pytest.raises(ClusterCallError):
            admin.log_ends([dies], 1)
        with pytest.raises(ClusterCallError, match="no leader of a partition answers"):
            admin.log_ends([dies], 30)
        assert admin.log_ends(led, 30) == {lives: 0}
        cluster.brokers[1].start()
        wait_for(answered, "it answers again", 60)


def test_a_dead_controller_that_is_still_named_is_not_waited_for_again_and_again(
    cluster_factory: ClusterFactory,
) -> None:
    """Without a quorum brokers name one at random; librdkafka would connect as fast as it can."""
    cluster = cluster_factory("quartered", 3)
    topics.create_topic(cluster.bootstrap_servers, "known")
    with open_admin(config("127.0.0.1:1", "known", eu=at(cluster)), "eu") as admin:
        assert admin.describe_topics(["known"], 30).topics["known"].partitions == 1
        for broker in cluster.brokers[1:]:
            broker.kill()
        reasons: list[str] = []

        def failed() -> bool:
            try:
                admin.describe_topics(["known"], 1)
            except ClusterCallError as error:
                reasons.append(str(error))
            return any("the controller does not answer" in it for it in reasons)

        wait_for(failed, "the controller is seen to be away", 60)
        for broker in cluster.brokers[1:]:
            broker.start()

        def described() -> bool:
            with suppress(ClusterCallError):
                return admin.describe_topics(["known"], 5).topics["known"].partitions == 1
            return False

        wait_for(described, "it answers again", 60)


def test_offsets_are_answered_after_a_leader_was_elected_again(frail: EmbeddedCluster) -> None:
    """A client that only lists offsets keeps the leader epoch of before, and is refused for it."""
    topics.create_topic(frail.bootstrap_servers, "orders", partitions=2)
    topics.produce(frail.bootstrap_servers, "orders", [topics.NewRecord(b"1", b"1", 0)])
    wanted = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    with open_admin(config("127.0.0.1:1", "orders", eu=at(frail)), "eu") as admin:
        assert admin.offsets(wanted, 10).ranges[wanted[0]].latest == 1
        frail.brokers[0].kill()
        frail.brokers[0].start()
        found: list[PartitionOffsets] = []

        def answered() -> bool:
            with suppress(ClusterCallError):
                found.append(admin.offsets(wanted, 10))
            return bool(found)

        wait_for(answered, "it answers", 60)
        assert (found[-1].failed, found[-1].ranges[wanted[0]].latest) == ({}, 1)


SESSION_SECONDS = 1.0
SHORT_SESSION = {
    "broker.session.timeout.ms": f"{SESSION_SECONDS * 1000:.0f}",
    "broker.heartbeat.interval.ms": "100",
}
"""After this long without a sign of life such a broker is out of its own cluster."""
ASKS = Path(__file__).parents[1] / "support" / "asks.py"


def until(moment: float) -> None:
    wait_for(lambda: time.monotonic() > moment, "time goes by", 60)


def test_a_client_that_gets_no_answer_for_long_is_replaced(
    hub: EmbeddedCluster, cluster_factory: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = cluster_factory("away")
    cfg = config(hub.bootstrap_servers, "orders", eu=at(away))
    with open_admin(cfg, "eu") as admin:
        assert admin.partition_counts(10) == {}
        away.brokers[0].pause()
        try:
            for allowed, replaced in ((60.0, 0), (0.0, 1)):
                monkeypatch.setattr("aggregator.kafka.admin.calls.RENEW_SECONDS", allowed)
                with pytest.raises(ClusterCallError):
                    admin.partition_counts(1)
                assert admin.client.replaced == replaced
        finally:
            away.brokers[0].resume()
        assert admin.partition_counts(30) == {}


def test_a_broker_that_wakes_up_with_our_questions_does_not_end_the_process(
    hub: EmbeddedCluster, cluster_factory: ClusterFactory, unique: str
) -> None:
    """Frozen beyond its session it knows of no broker at first, which librdkafka may not survive.

    In a process of its own, because it is the process that ended.
    """
    frozen = cluster_factory("frozen", config=SHORT_SESSION)
    topics.create_topic(frozen.bootstrap_servers, unique)
    asking = subprocess.Popen(
        [sys.executable, str(ASKS), frozen.bootstrap_servers, unique],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with asking:
        assert asking.stdout is not None
        assert asking.stdin is not None
        try:
            for _ in range(3):
                asking.stdin.write("again\n")
                asking.stdin.flush()
                assert asking.stdout.readline() == "asking\n"
                frozen.brokers[0].pause()
                until(time.monotonic() + 3 * SESSION_SECONDS)
                frozen.brokers[0].resume()
                assert asking.stdout.readline() == "answered\n"
            asking.stdin.close()
            assert asking.wait(60) == 0
        finally:
            # It asks until it has an answer, and a cluster that is frozen gives none.
            asking.kill()
