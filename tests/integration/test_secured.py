"""Secured clusters, each way to log in, by real brokers: right, wrong, expired, rotated."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from typer.testing import CliRunner

from aggregator.cli.check import check_all
from aggregator.cli.main import app
from aggregator.config.load import load
from aggregator.config.render import to_yaml
from aggregator.config.schema import ClusterConfig, Config
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, produce
from aggregator.features.acls.acl_admin import add_acls, look_at_acls, principal_of
from aggregator.features.acls.required_acls import Acl
from aggregator.kafka.admin import HUB, CheckResult, check_cluster, discover, open_admin
from aggregator.kafka.credentials import client_settings
from aggregator.kafka.discovery.prepare import prepare
from aggregator.model.errors import ClusterError
from aggregator.model.values import SourceState
from aggregator.plan.plan import Plan
from aggregator.status.schema import AclSyncStatus
from support.certificates import STORE_PASSWORD, Authority
from support.clusters import ClusterFactory
from support.load import load as under_load
from support.load import records
from support.reading import read_topic, wait_for, wait_until_topic_has
from support.running import Run, catch_up, make_config, run_in_background, source
from support.secured import (
    PLAIN,
    SECRET,
    Right,
    Secured,
    allow,
    forbid,
    hub_rights,
    sasl,
    secured,
    source_rights,
)
from support.silence import listening
from support.verdict import assert_copied

COUNT = 50
SILENT_SECONDS = 8.0
"""A source that is not touched must never be silent for this long, not even on a busy machine."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured")) as found:
        yield found


def at(world: Secured, listener: str, topic: str, kafka: dict[str, str]) -> dict[str, Any]:
    return source(world.cluster.address_of(listener), topic, kafka=kafka)


@pytest.mark.timeout(300)
def test_records_flow_by_every_way_to_log_in(
    world: Secured, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """Also with no more rights than the least that a source needs."""
    modes = {**world.modes(), "least": ("SCRAM", world.scram("least", SECRET))}
    world.allow("least", *source_rights(f"{unique}.least"))
    sources = {}
    for alias, (listener, kafka) in modes.items():
        create_topic(world.cluster.admin_servers, f"{unique}.{alias}")
        produce(world.cluster.admin_servers, f"{unique}.{alias}", records(COUNT))
        sources[alias] = at(world, listener, f"{unique}.{alias}", kafka)
    config = make_config(hub, tmp_path / "state", sources, api={"listen": "off"})
    assert [it for it in check_all(config) if not it.ok] == []
    assert catch_up(config).exit_code == 0
    for alias in modes:
        assert len(read_topic(hub.bootstrap_servers, f"{unique}.{alias}")) == COUNT, alias


def test_a_login_that_is_wrong_is_refused_with_the_setting_and_the_reason(
    world: Secured, hub: EmbeddedCluster, tmp_path: Path
) -> None:
    other = Authority(tmp_path / "other")
    expired = world.ca.issue("expired", expired=True)
    jks, trust = world.with_stores("jks"), world.trust
    tls = {"security.protocol": "SSL", **trust}
    gone = {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:9/token"}
    wrong: dict[str, tuple[str, dict[str, str], tuple[str, ...]]] = {
        "plain": ("PLAIN", world.plain("copier", "n0t-it"), ("sasl.jaas.config", "username or")),
        "scram": ("SCRAM", world.scram("copier", "n0t-it"), ("sasl.jaas.config", "uthentication")),
        "mechanism": ("SCRAM", world.plain("copier", SECRET), ("sasl.mechanism", "SCRAM-SHA-512")),
        "secret": ("TOKENS", world.oauth("tokens", "n0t-it"), ("clientSecret", "token")),
        "endpoint": ("TOKENS", {**world.oauth("tokens", SECRET), **gone}, ("token.endpoint.url",)),
        "none": ("MUTUAL", tls, ("ssl.keystore.location", "certificate")),
        "expired": ("MUTUAL", {**trust, **world.pem(expired)}, ("ssl.keystore", "expired")),
        "stranger": (
            "MUTUAL",
            {**trust, **world.pem(other.issue("stranger"))},
            ("ssl.keystore.location", "certificate"),
        ),
        "untrusted": (
            "MUTUAL",
            {**world.pem(world.copier), **trust, "ssl.truststore.location": str(other.root)},
            ("ssl.truststore.location", "verify failed"),
        ),
        "old": ("OLD", tls, ("broker's own certificate", "expired")),
        "nameless": ("NAMELESS", tls, ("ssl.endpoint.identification.algorithm", "mismatch")),
        "store": (
            "MUTUAL",
            {**jks, "ssl.keystore.password": "n0t-it"},
            ("sources.store.kafka.ssl.keystore.password", "is wrong"),
        ),
        "key": (
            "MUTUAL",
            {**jks, "ssl.key.password": "n0t-it"},
            ("sources.key.kafka.ssl.key.password", "is wrong"),
        ),
        "trust": (
            "MUTUAL",
            {**jks, "ssl.truststore.password": "n0t-it"},
            ("sources.trust.kafka.ssl.truststore.password", "is wrong"),
        ),
        "absent": (
            "MUTUAL",
            {**jks, "ssl.keystore.location": "/nowhere.jks"},
            ("sources.absent.kafka.ssl.keystore.location", "No such file"),
        ),
    }
    sources = {alias: at(world, it[0], "t", it[1]) for alias, it in wrong.items()}
    unchecked = {**tls, "ssl.endpoint.identification.algorithm": ""}
    sources["unchecked"] = at(world, "NAMELESS", "t", unchecked)
    config = make_config(hub, tmp_path / "state", sources)
    found = discover(config)
    assert set(found.ok) == {HUB, "unchecked"}, found.failed
    shown = {alias: str(failure) for alias, failure in found.failed.items()}
    missing = [
        (alias, word, shown[alias])
        for alias, (_, _, words) in wrong.items()
        for word in words
        if word not in shown[alias]
    ]
    assert not missing, "\n".join(map(str, missing))
    (ours,) = [it for it in check_cluster(config, "expired", 10) if "(ours)" in it.name]
    assert (ours.ok, "CN=expired: expired on 2020-02-01" in ours.detail) == (False, True)
    assert "sources.expired.kafka.ssl.keystore.location" in ours.hint
    for secret in (SECRET, STORE_PASSWORD, "n0t-it"):
        assert secret not in str(shown)


@pytest.mark.timeout(300)
def test_a_secret_that_was_changed_is_taken_over_by_a_reload_and_the_others_flow(
    world: Secured, source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """A password in a file, and a certificate that is renewed where it lies."""
    world.set_password("rotated", "f1rst-of-two")
    world.allow("rotated", *source_rights(unique))
    renewed_topic = f"{unique}.renewed"
    world.allow("CN=renewed", *source_rights(renewed_topic))
    (tmp_path / "password").write_text("f1rst-of-two\n")
    store = world.ca.issue("before", expired=True).pkcs12()
    for cluster in (world.cluster.admin_servers, source_a.bootstrap_servers, hub.bootstrap_servers):
        create_topic(cluster, unique, partitions=2)
    create_topic(world.cluster.admin_servers, renewed_topic)
    tls = {**world.with_stores("pkcs12"), "ssl.keystore.location": str(store)}
    written = make_config(
        hub,
        tmp_path / "state",
        {
            "eu": source(source_a, unique),
            "us": at(world, "SCRAM", unique, world.scram("rotated", "@")),
            "cert": {**at(world, "MUTUAL", renewed_topic, tls), "rename": unique},
        },
        api={"listen": "off"},
    )
    file = tmp_path / "aggregator.yaml"
    file.write_text(to_yaml(written).replace("@", "${file:password}"))
    config = load(file)
    control = Control(config, lambda added: load(file, added=added))
    run = Run(config, control)

    def state_of(alias: str) -> tuple[SourceState, str]:
        (found,) = [it for it in run.status.sources if it.alias == alias]
        return found.state, found.reason

    def refused(alias: str, word: str) -> bool:
        state, reason = state_of(alias)
        return state is SourceState.UNREACHABLE and word in reason

    def copied() -> dict[str, int]:
        found = Counter(it.origin.cluster for it in read_topic(hub.bootstrap_servers, unique))
        return {alias: found[alias] for alias in ("us", "cert")}

    def write() -> None:
        for topic in (unique, renewed_topic):
            produce(world.cluster.admin_servers, topic, records(COUNT))

    write()
    with under_load([source_a], unique, 200):
        run.start()
        try:
            with listening(hub.bootstrap_servers, unique, 2) as arrivals:
                run.wait_for(lambda: arrivals.counts["eu"] > COUNT, "the untouched one flows")
                run.wait_for(lambda: refused("cert", "certificate"), "the expired one is named")
                world.set_password("rotated", "s3cond-of-two")
                run.wait_for(lambda: refused("us", "sasl.jaas.config"), "the refusal is named")
                (tmp_path / "password").write_text("s3cond-of-two\n")
                renewed = world.ca.issue("renewed").pkcs12()
                renewed.replace(store)
                report = control.reload()
                write()
                run.wait_for(lambda: copied() == {"us": 2 * COUNT, "cert": 2 * COUNT}, "both flow")
                silence = arrivals.silence("eu")
        finally:
            result = run.stop()
    assert (result.exit_code, result.problems) == (0, ())
    assert set(report.reconnected) == {"us", "cert"}
    assert set(report.keys) == {
        "sources.us.kafka.sasl.jaas.config",
        "sources.cert.kafka.ssl.keystore.location",
    }
    assert silence < SILENT_SECONDS
    assert copied() == {"us": 2 * COUNT, "cert": 2 * COUNT}
    for secret in ("f1rst-of-two", "s3cond-of-two", STORE_PASSWORD):
        assert secret not in str((run.events, [it.model_dump() for it in run.statuses], report))


@pytest.mark.timeout(300)
def test_the_least_rights_are_enough_and_each_that_is_missing_is_named(
    world: Secured, source_a: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    login = world.scram("least", SECRET)
    group = "aggregator-central"
    hub_topic = f"{unique}.eu"
    address = world.cluster.address_of("SCRAM")
    other_login = world.plain("least", SECRET)
    rights = {HUB: hub_rights(hub_topic), "us": source_rights(unique, group)}
    create_topic(world.cluster.admin_servers, unique)
    create_topic(source_a.bootstrap_servers, unique)
    produce(source_a.bootstrap_servers, unique, records(COUNT))
    config = make_config(
        world.cluster,
        tmp_path / "state",
        {
            "eu": source(source_a, unique),
            "us": {**at(world, "PLAIN", unique, other_login), "publish_group": True},
        },
        hub={"bootstrap_servers": address, "kafka": login},
        topics={
            "rename": "${topic}.${cluster}",
            "sync_configs": True,
            "grow": True,
            "on_poison": "stop",
        },
        api={"listen": "off"},
    )
    world.allow("least", *rights[HUB], *rights["us"])
    only_eu = config.model_copy(update={"sources": {"eu": config.sources["eu"]}})
    assert catch_up(only_eu).exit_code == 0
    assert len(read_topic(world.cluster.admin_servers, hub_topic)) == COUNT
    for alias, needed in rights.items():
        assert [it for it in check_cluster(config, alias, 10) if not it.ok] == []
        for right in needed:
            world.forbid("least", right)
            failures = wait_for(partial(failing, config, alias), f"without {right}")
            world.allow("least", right)
            assert names(failures, right), (right, failures)


@pytest.mark.timeout(300)
def test_a_hub_topic_that_may_not_be_read_costs_a_start_only_what_is_written_there(
    world: Secured, source_a: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    well, ill = topics = [f"{unique}.{it}" for it in ("well", "ill")]
    hub = world.cluster.admin_servers
    aside = f"{unique}.aside"
    config = make_config(
        world.cluster,
        tmp_path / "state",
        {"eu": source(source_a, f"{unique}[.].*")},
        hub={
            "bootstrap_servers": world.cluster.address_of("SCRAM"),
            "kafka": world.scram("least", SECRET),
        },
        topics={"quarantine": aside},
        api={"listen": "off"},
    )

    def write() -> None:
        for topic in topics:
            produce(source_a.bootstrap_servers, topic, records(COUNT))

    for topic in topics:
        create_topic(source_a.bootstrap_servers, topic, partitions=1)
    # Each once: a right that is allowed twice cannot be taken back.
    world.allow("least", *dict.fromkeys(it for name in (*topics, aside) for it in hub_rights(name)))
    write()
    assert catch_up(config).exit_code == 0
    # What the hub holds is looked for when nothing is known of it.
    shutil.rmtree(tmp_path / "state")
    world.forbid("least", Right("TOPIC", ill, "READ"))
    write()
    with run_in_background(config) as running:
        wait_until_topic_has(hub, well, 2 * COUNT)
        running.wait_for(
            lambda: any("grant READ" in it.reason for it in running.status.partitions),
            "the reason is shown",
        )
        waiting = {it.topic: it.reason for it in running.status.partitions if it.reason}
        assert waiting.keys() == {ill}, waiting
        assert waiting[ill] == (
            f"it waits for hub topic {ill}: it may not be read: grant READ on hub topic {ill}"
        )
        write()
        wait_until_topic_has(hub, well, 3 * COUNT)
        assert len(read_topic(hub, ill)) == COUNT
        world.allow("least", Right("TOPIC", ill, "READ"))
        wait_until_topic_has(hub, ill, 3 * COUNT)
        assert running.kinds().count("recovery_waits") == 1
    for topic in topics:
        assert_copied({"eu": (source_a.bootstrap_servers, topic)}, (hub, topic), 3 * COUNT)


@pytest.mark.timeout(300)
def test_those_who_read_at_a_source_read_at_the_hub_and_no_one_else_does(
    world: Secured, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    site = cluster_factory(
        "site", sasl_users={"copier": SECRET}, super_users=("copier",), acls=True
    )
    first, second = f"{unique}.a", f"{unique}.b"
    for topic in (first, second):
        create_topic(site.admin_servers, topic)
        produce(site.admin_servers, topic, records(COUNT))
    for user in ("reader", "writer", "later"):
        world.set_password(user, SECRET)
        world.allow(user, Right("GROUP", unique, "READ"))
    allow(site, "reader", *(Right("TOPIC", it, "READ") for it in (first, second)))
    allow(site, "writer", *(Right("TOPIC", it, "WRITE") for it in (first, second)))
    allow(site, "later", Right("TOPIC", first, "READ"))
    super_login = world.scram("copier", SECRET)
    own = {
        "kafka": sasl("SASL_PLAINTEXT", "PLAIN", f'{PLAIN} username="copier" password="{SECRET}";'),
        "acls": {"sync": True},
    }
    sources = {"eu": source(site, first, **own), "us": source(site, second, **own)}
    config = make_config(
        world.cluster,
        tmp_path / "state",
        sources,
        hub={"bootstrap_servers": world.cluster.address_of("SCRAM"), "kafka": super_login},
        topics={"rename": f"{unique}.hub"},
        api={"listen": "off"},
    )
    file = tmp_path / "aggregator.yaml"
    file.write_text(to_yaml(config))
    planned = CliRunner().invoke(app, ["plan", "-c", str(file), "-o", "json"])
    assert planned.exit_code == 0, planned.output
    hub_topic = f"{unique}.hub"
    assert json.loads(planned.stdout)["acls"]["add"] == [
        f"ALLOW READ on {hub_topic} to User:reader",
        f"ALLOW DESCRIBE on {hub_topic} to User:writer",
    ]
    run = Run(config)
    with run_of(run):
        run.wait_for(lambda: acls(run).added == 2, "the reader may read")
        assert read_as(world, "reader", hub_topic, unique) > 0
        for user in ("writer", "later"):
            assert read_as(world, user, hub_topic, unique) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        # One more, who may then read at both.
        allow(site, "later", Right("TOPIC", second, "READ"))
        run.wait_for(lambda: acls(run).added == 3, "who came later may read as well")
        assert read_as(world, "later", hub_topic, unique) > 0
        # What a source takes back stays here, and is named.
        forbid(site, "later", Right("TOPIC", second, "READ"))
        run.wait_for(lambda: "User:later" in "".join(acls(run).superfluous), "it is named")
        assert acls(run).error == ""
    # The rights that it needs are named, one after the other.
    login = world.scram("least", SECRET)
    least = config.model_copy(update={"hub": config.hub.model_copy(update={"kafka": login})})
    plan = prepare(config).plan
    with pytest.raises(ClusterError, match="allow DESCRIBE on the cluster to User:least"):
        look_at_acls(least, plan)
    right = Right("BROKER", "kafka-cluster", "DESCRIBE")
    world.allow("least", right)
    wait_for(lambda: looked_at(least, plan), "the right is there")
    more = Acl("LITERAL", hub_topic, "User:more", "*", "READ", "ALLOW")
    with (
        open_admin(least, HUB) as admin,
        pytest.raises(ClusterError, match="allow ALTER on the cluster to User:least"),
    ):
        add_acls(admin, [more], 10, principal_of(least, HUB))
    world.forbid("least", right)


@contextmanager
def run_of(run: Run) -> Iterator[None]:
    run.start()
    try:
        yield
    finally:
        result = run.stop()
    assert (result.exit_code, result.problems) == (0, ())


def acls(run: Run) -> AclSyncStatus:
    found = run.status.acl_sync
    return found if found is not None else AclSyncStatus()


def looked_at(config: Config, plan: Plan) -> bool:
    try:
        look_at_acls(config, plan)
    except ClusterError:
        return False
    return True


def read_as(world: Secured, user: str, topic: str, group: str) -> int:
    """How many records a user reads of a topic, at least; or the code of the error."""
    cluster = ClusterConfig(
        bootstrap_servers=world.cluster.address_of("SCRAM"), kafka=world.scram(user, SECRET)
    )
    settings = {**client_settings(cluster), "group.id": group, "auto.offset.reset": "earliest"}
    reader = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    try:
        # A user who may not even describe a topic learns so here; a fetch says nothing.
        if (refused := reader.list_topics(topic, timeout=30).topics[topic].error) is not None:
            return int(refused.code())
        reader.assign([TopicPartition(topic, 0, 0)])
        (message, *_) = wait_for(lambda: reader.consume(1, timeout=1.0), f"{user} is answered")
        error = message.error()
        return 1 if error is None else int(error.code())
    finally:
        reader.close()


def failing(config: Config, alias: str) -> list[CheckResult]:
    return [it for it in check_cluster(config, alias, 10) if not it.ok]


def names(failures: list[CheckResult], right: Right) -> bool:
    """Whether what to do names the right, what it is on, and for whom."""
    what = "on the cluster" if right.kind == "BROKER" else right.name
    return any(
        right.operation in it.hint and what in it.hint and "User:least" in it.hint
        for it in failures
    )
