"""Clusters of Kafka 2.8, 3.9, 4.0, 4.3 and 4.4 as sources, and those of 3.9 and 4.4 as the hub.

None of them has a ZooKeeper. Each is formatted and run by its own jars. A hub of 4.3 is what all
other tests have.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import JAVA_OPTIONS, EmbeddedCluster, start_clusters
from aggregator.extras.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.kafka.admin import HUB
from aggregator.model.errors import EXIT_CLUSTER, EXIT_DONE
from support.application import application
from support.broker_classes import broker_options
from support.groups import commit_at, committed_at, write_transactions
from support.java_options import QUICK_START, TRUSTING
from support.load import load
from support.reading import Record, read_topic, wait_for, wait_until_topic_has
from support.running import make_config, source
from support.turns import turns
from support.verdict import assert_copied
from support.whole_batches import CODECS, config_of, seen, whole_part, written

EARLY = "2.8"
"""Without ZooKeeper it was early access: it gives no producer an id, and so has no transactions."""
OWN = "4.3"
"""What all other tests have."""
HUBS = ("3.9", "4.4")
OTHERS = (EARLY, "4.0", *HUBS)

COPIED = ("3.9", EARLY, "4.0")[: turns(1, 3)]
"""Whose batches are copied as they are: each takes as much time as the one before."""

PARTITIONS = 3
HISTORY = 600
GROUP = "billing"
PLAIN = {"enable.idempotence": "false", "max.in.flight": "1"}
"""How a client writes in order without an id."""
EAGER = {"log.cleaner.backoff.ms": "500"}
"""A topic is compacted soon."""
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "200000",
    "min.cleanable.dirty.ratio": "0.01",
}
BATCHES = {"linger.ms": "200", "batch.size": "50000"}
KEYED = 4_000
SETTLED_SECONDS = 2.0


@pytest.fixture(scope="module")
def versions() -> Iterator[dict[str, EmbeddedCluster]]:
    """A cluster of each version."""
    options = (*JAVA_OPTIONS, *TRUSTING.split())
    made = {
        version: EmbeddedCluster(
            alias_of(version), java_options=options, version=version, config=EAGER
        )
        for version in OTHERS
    }
    made[OWN] = EmbeddedCluster(alias_of(OWN), java_options=broker_options())
    start_clusters(list(made.values()))
    yield made
    for cluster in made.values():
        cluster.stop()


def alias_of(version: str) -> str:
    return f"kafka-{version.replace('.', '-')}"


def write_history(cluster: EmbeddedCluster, topic: str, client: Mapping[str, str]) -> None:
    """Numbered records with keys, headers and timestamps of their own."""
    began = round(time.time() * 1000) - HISTORY
    create_topic(cluster.bootstrap_servers, topic, partitions=PARTITIONS)
    history = [
        NewRecord(
            b"%d" % at if at % 50 else None,
            b"key-%d" % (at % 20) if at % 7 else None,
            at % PARTITIONS,
            [("number", b"%d" % at), ("number", None)] if at % 3 else (),
            began + at,
        )
        for at in range(HISTORY)
    ]
    produce(cluster.bootstrap_servers, topic, history, client=client)


def kill_and_start(clusters: Sequence[EmbeddedCluster]) -> None:
    """kill -9 of each broker, and start all of them again."""
    brokers = [broker for cluster in clusters for broker in cluster.brokers]
    for broker in brokers:
        broker.kill()
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        broker.wait_ready()


def ask(folder: Path, config: Config, *words: str, exit_code: int = EXIT_DONE) -> dict[str, Any]:
    """What a command says, as JSON."""
    file = folder / "asked.yaml"
    file.write_text(to_yaml(config), "utf-8")
    result = CliRunner().invoke(app, [*words, "-c", str(file), "-o", "json"])
    assert result.exit_code == exit_code, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", HUBS)
def test_a_hub_takes_all_from_clusters_of_the_other_versions_across_kill_9(
    version: str, versions: dict[str, EmbeddedCluster], unique: str, tmp_path: Path
) -> None:
    hub = versions[version]
    sources = {alias_of(it): cluster for it, cluster in versions.items() if it != version}
    early = versions[EARLY]
    able = [it for it in sources.values() if it is not early]
    config = make_config(
        hub,
        tmp_path / "state",
        {alias: source(it, unique, publish_group=True) for alias, it in sources.items()},
        topics={"partitions": 2},
        spark={"conf": {"spark.driver.extraJavaOptions": QUICK_START}},
        api={"listen": "off"},
    )
    for cluster in sources.values():
        write_history(cluster, unique, PLAIN if cluster is early else {})
    for cluster in able:
        write_transactions(cluster.bootstrap_servers, unique)

    checked = ask(tmp_path, config, "check")
    assert checked["ok"], checked

    history = HISTORY * len(sources)
    with application(config, tmp_path) as first, ExitStack() as loads:
        first.until_logged("running")
        loads.enter_context(load(able, unique))
        loads.enter_context(load([early], unique, client=PLAIN))
        first.until(
            lambda: wait_until_topic_has(hub.bootstrap_servers, unique, 3 * history),
            "records arrive",
        )
        first.kill()
        assert first.wait_gone()
    # Not that of 2.8: when it starts again, 2.8.2 cannot read its own metadata log.
    kill_and_start([hub, able[0]])
    with application(config, tmp_path, arguments=("--until-caught-up",), again=True) as second:
        second.until(lambda: not second.alive, "it has caught up")
        assert second.exit_code == EXIT_DONE, second.text
        assert second.has_logged("recovered")
    found = assert_copied(
        {alias: (it.bootstrap_servers, unique) for alias, it in sources.items()},
        (hub.bootstrap_servers, unique),
        3 * history,
    )
    groups_go_over(config, tmp_path, sources, hub, found)


def groups_go_over(
    config: Config,
    folder: Path,
    sources: Mapping[str, EmbeddedCluster],
    hub: EmbeddedCluster,
    records: Sequence[Record],
) -> None:
    """A group that has read half of each source continues at the hub and misses nothing."""
    topic = records[0].topic
    commits: dict[tuple[str, int], int] = {}
    for alias, cluster in sources.items():
        servers = cluster.bootstrap_servers
        halves = {number: end // 2 for number, end in end_offsets(servers, topic).items()}
        commit_at(servers, GROUP, topic, halves)
        commits |= {(alias, number): at for number, at in halves.items()}

    listed = {(it["source"], it["group"]) for it in ask(folder, config, "groups", "list")["groups"]}
    ours = f"aggregator-{config.name}"
    assert {(alias, group) for alias in sources for group in (GROUP, ours)} <= listed

    moved = ask(folder, config, "groups", "translate", GROUP)["partitions"]
    places = {it["partition"]: it["offset"] for it in moved}
    again: Counter[int] = Counter()
    for record in records:
        read = record.origin.offset < commits[record.origin.cluster, record.origin.partition]
        follows = record.offset >= places[record.partition]
        assert read or follows, f"missed: {record}"
        again[record.partition] += read and follows
    assert {it["partition"]: it["again"] for it in moved} == dict(again)

    ask(folder, config, "groups", "apply", GROUP)
    assert committed_at(hub.bootstrap_servers, GROUP, topic) == places


def write_batches(cluster: EmbeddedCluster, prefix: str, *, early: bool) -> list[str]:
    """Topics of each codec, of transactions where there are any, and a compacted one."""
    servers, alias = cluster.bootstrap_servers, cluster.name
    client = {**BATCHES, **(PLAIN if early else {})}
    topics = [f"{prefix}.{codec}" for codec in CODECS]
    for topic, codec in zip(topics, CODECS, strict=True):
        create_topic(servers, topic, partitions=PARTITIONS)
        own = {**client, "compression.type": codec}
        produce(servers, topic, written(alias, 4_000), client=own)
    compacted = create_topic(servers, f"{prefix}.compacted", config=COMPACTED)
    keyed = [NewRecord(b"%d" % at * 50, b"key-%d" % (at % 300)) for at in range(KEYED)]
    produce(servers, compacted, keyed, client=client)
    if not early:
        moved = create_topic(servers, f"{prefix}.transactions", partitions=PARTITIONS)
        write_transactions(servers, moved, records=600, client=BATCHES)
        topics.append(moved)
    wait_until_compacted(servers, compacted)
    return [*topics, compacted]


def wait_until_compacted(servers: str, topic: str) -> None:
    """Until most of it is gone, and no more goes for some turns of the cleaner."""
    seen_at = {KEYED: time.monotonic()}

    def settled() -> bool:
        left = len(read_topic(servers, topic))
        since = seen_at.setdefault(left, time.monotonic())
        return left < KEYED // 2 and time.monotonic() - since > SETTLED_SECONDS

    wait_for(settled, f"{topic} is compacted")


@pytest.mark.again
@pytest.mark.timeout(600)
def test_whole_batches_of_older_brokers_are_at_the_hub_as_they_were(
    versions: dict[str, EmbeddedCluster], unique: str, tmp_path: Path
) -> None:
    hub = versions[OWN]
    sources = {alias_of(it): versions[it] for it in COPIED}
    topics = {
        alias: write_batches(it, f"{unique}.{alias}", early=it is versions[EARLY])
        for alias, it in sources.items()
    }
    for alias in sources:
        # A compacted hub topic would take none of them.
        create_topic(hub.bootstrap_servers, f"{unique}.{alias}.compacted")
    config = config_of(
        hub, tmp_path / "state", {alias: (it, f"{unique}.*") for alias, it in sources.items()}
    )
    with application(config, tmp_path, arguments=("--until-caught-up",), again=True) as run:
        run.until(lambda: not run.alive, "it has caught up")
        assert run.exit_code == EXIT_DONE, run.text
    for alias, cluster in sources.items():
        for topic in topics[alias]:
            found = read_topic(hub.bootstrap_servers, topic)
            assert seen(found) == seen(read_topic(cluster.bootstrap_servers, topic)), topic
            if topic.endswith(CODECS):
                assert whole_part(found) > 0.3, topic


@pytest.mark.timeout(600)
def test_check_says_that_a_cluster_of_2_8_without_zookeeper_cannot_be_the_hub(
    versions: dict[str, EmbeddedCluster], unique: str, tmp_path: Path
) -> None:
    own = versions[OWN]
    create_topic(own.bootstrap_servers, unique)
    config = make_config(versions[EARLY], tmp_path / "state", {"eu": source(own, unique)})
    checked = ask(tmp_path, config, "check", exit_code=EXIT_CLUSTER)
    (failed,) = [it for it in checked["checks"] if not it["ok"]]
    assert (failed["cluster"], failed["name"]) == (HUB, "idempotent producers")
    assert "idempotent" in failed["detail"].lower()
    assert "Kafka 3.0 or newer" in failed["hint"]
