"""One login, partition or log in trouble: named, decided about, and no other waits for it."""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.features.verify.audit import VerifyRequest, verify
from aggregator.features.verify.audit_scope import Scope
from aggregator.model.errors import EXIT_CLUSTER
from aggregator.model.values import SourceState
from aggregator.status.schema import PartitionState
from support.changing import create_at
from support.clusters import ClusterFactory
from support.gaps import GapRow, cli, rows, states
from support.load import load
from support.reading import read_topic, wait_for, wait_until_topic_has
from support.running import Run, catch_up, make_config, run_in_background, source
from support.secured import OAUTH
from support.silence import listening
from support.verdict import judge

WATCHED_SECONDS = 6.0
PACKED = {"compression.type": "lz4", "linger.ms": "200"}
LOG = logging.getLogger(__name__)


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(100)
        yield f"http://127.0.0.1:{server.getsockname()[1]}/token"


def logs_in_at(url: str) -> dict[str, str]:
    """Settings of a Java client that asks this server for a token."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{OAUTH} clientId="c" clientSecret="s";',
        "sasl.oauthbearer.token.endpoint.url": url,
    }


@pytest.mark.timeout(300)
def test_a_login_that_hangs_holds_up_no_other_source_also_where_a_batch_ends(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aggregator.datapath.spark.lane.BATCH_SECONDS", 1)
    for cluster in (source_a, source_b):
        create_topic(cluster.bootstrap_servers, unique)
    produce(source_a.bootstrap_servers, unique, [NewRecord(b"waits", b"k")])
    with silent_server() as url:
        config = make_config(
            hub,
            tmp_path,
            {
                # Only the readers: those who look at a source log in in another way.
                "eu": source(source_a, unique, consumer=logs_in_at(url)),
                "us": source(source_b, unique),
            },
            topics={"partitions": 1},
            api={"listen": "off"},
        )
        with load([source_b], unique, 200), run_in_background(config) as running:
            wait_until_topic_has(hub.bootstrap_servers, unique, 200)
            with listening(hub.bootstrap_servers, unique, 1) as arrivals:
                began = time.monotonic()
                wait_for(lambda: time.monotonic() > began + WATCHED_SECONDS, "some batches")
                silence = arrivals.silence("us")
            LOG.warning("longest silence of the other source: %.2f s", silence)
            assert silence < WATCHED_SECONDS / 2, silence

            def eu() -> tuple[SourceState, str]:
                return next((it.state, it.reason) for it in running.status.sources)

            running.wait_for(lambda: "log in" in eu()[1], "the login is named")
            assert eu()[0] is SourceState.FAILED


def damage(log: Path, number: int) -> tuple[int, int]:
    """Change the last byte of a batch, the first being 0; returns its offsets, first and next."""
    content, at = bytearray(log.read_bytes()), 0
    for _ in range(number):
        at += 12 + struct.unpack_from(">i", content, at + 8)[0]
    base, length = struct.unpack_from(">qi", content, at)
    (delta,) = struct.unpack_from(">i", content, at + 23)
    content[at + 12 + length - 1] ^= 1
    log.write_bytes(content)
    return base, base + delta + 1


@pytest.mark.timeout(300)
def test_a_damaged_batch_stops_its_partition_alone_and_accepting_it_continues_behind_it(
    hub: EmbeddedCluster, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    worn = cluster_factory("worn")
    servers, to = worn.bootstrap_servers, hub.bootstrap_servers
    packed = f"packed-{unique}"
    for topic in (unique, packed):
        create_topic(servers, topic, partitions=3)
    for count in (10, 900, 10):
        for partition in range(3):
            numbers = [NewRecord(b"%d-%d" % (count, at), b"k", partition) for at in range(count)]
            produce(servers, unique, numbers[:10])
            produce(servers, packed, numbers, client=PACKED)
    (broker,) = worn.brokers
    broker.stop()
    data, log = broker.home / "data", f"{0:020}.log"
    start, end = damage(data / f"{unique}-0" / log, 1)
    _, first = damage(data / f"{packed}-0" / log, 0)
    second, _ = damage(data / f"{packed}-1" / log, 1)
    _, last = damage(data / f"{packed}-1" / log, 2)
    broker.start()
    config = make_config(
        hub, tmp_path, {"eu": source(worn, f"(packed-)?{unique}")}, api={"listen": "off"}
    )
    found = [(packed, 0, 0, first), (packed, 1, second, last), (unique, 0, start, end)]
    assert 0 < first <= second < last == 920
    with load([worn], unique, 200), run_in_background(config) as running:
        wait_until_topic_has(to, unique, 60 + start)
        with listening(to, unique, 3) as arrivals:
            out = {("eu", *it[:2]): PartitionState.QUARANTINED for it in found}
            running.wait_for(lambda: states(running.status) == out, "they are found, no other")
            reasons = [it.reason for it in running.status.partitions if it.reason]
            assert any(f"offsets {start} to {end - 1} cannot be read" in it for it in reasons)
            silence = arrivals.silence("eu")
        LOG.warning("longest silence of the other partitions: %.2f s", silence)
        cli(config, tmp_path, "accept", "--source", "eu")
        running.wait_for(lambda: not states(running.status), "it continues")
        wanted = [at for at in range(end + 20) if not start <= at < end]
        wait_for(lambda: copied(to, unique, end + 20) == wanted, "what lies behind comes, once")
    report = verify(config, VerifyRequest(Scope()))
    assert report.exit_code == EXIT_CLUSTER
    assert {(it.topic, str(it.standing)) for it in report.partitions} == {
        (unique, "unreadable"),
        (packed, "unreadable"),
    }
    reasons = [it.reason for it in report.partitions]
    assert all("cannot be read: " in it for it in reasons), reasons
    gaps = [
        GapRow(topic, number, "DAMAGED", at, to_, to_ - at, "stop", False, None)
        for topic, number, at, to_ in found
    ]
    accepted = [gap._replace(decision="accept") for gap in gaps]
    done = [gap._replace(resolved=True, resumes_at=gap.end) for gap in accepted]
    assert rows(config) == sorted([*gaps, *accepted, *done], key=str)
    # They were read once in ten seconds.
    assert silence < 6.0

    skips = source(worn, f"(packed-)?{unique}", on_gap="skip", rename="skipped.${topic}")
    config = make_config(hub, tmp_path / "skips", {"eu": skips}, api={"listen": "off"})
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    assert rows(config) == sorted(
        (it._replace(decision="skip", resolved=True, resumes_at=it.end) for it in gaps), key=str
    )
    assert copied(to, f"skipped.{unique}", end + 20) == wanted
    assert len(read_topic(to, f"skipped.{packed}")) == len(read_topic(to, packed))


def copied(to: str, topic: str, end: int) -> list[int]:
    """Offsets of the first source partition below `end` that the hub holds."""
    origins = [it.origin for it in read_topic(to, topic)]
    return sorted(it.offset for it in origins if it.partition == 0 and it.offset < end)


@pytest.mark.timeout(300)
def test_what_an_open_transaction_holds_back_is_no_log_that_was_cut_off(
    source_b: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    servers, to = source_b.bootstrap_servers, hub.bootstrap_servers
    create_topic(servers, unique)
    patient = {"transaction.timeout.ms": 600_000}
    open_one = Producer({"bootstrap.servers": servers, "transactional.id": unique, **patient})
    open_one.init_transactions(60)
    open_one.begin_transaction()
    open_one.produce(unique, b"open", b"k", partition=0)
    open_one.flush(60)
    produce(servers, unique, [NewRecord(b"%d" % at, b"k", 0) for at in range(20)])
    everything = {"isolation.level": "read_uncommitted"}
    config = make_config(
        hub, tmp_path, {"eu": source(source_b, unique, consumer=everything)}, api={"listen": "off"}
    )
    assert catch_up(config).exit_code == 0
    wait_until_topic_has(to, unique, 21)
    committed = make_config(
        hub, tmp_path, {"eu": source(source_b, unique, on_gap="skip")}, api={"listen": "off"}
    )
    with run_in_background(committed) as running:
        running.wait_for(
            lambda: [it.state for it in running.status.partitions] == [PartitionState.RUNNING],
            "it reads on where it was",
        )
        open_one.commit_transaction(60)
        produce(servers, unique, [NewRecord(b"new", b"k", 0)])
        wait_until_topic_has(to, unique, 22)
    assert not (tmp_path / "gaps").exists()
    verdict = judge({"eu": read_topic(servers, unique)}, read_topic(to, unique))
    assert not verdict.problems, verdict.problems


@pytest.mark.timeout(300)
def test_a_broker_that_hangs_is_shown_while_another_one_of_its_source_answers(
    hub: EmbeddedCluster, cluster_factory: ClusterFactory, tmp_path: Path, unique: str
) -> None:
    wide = cluster_factory("wide", brokers=2)
    alive, hung = (f"{unique}-{number}" for number in (0, 1))
    for number, topic in enumerate((alive, hung)):
        create_at(wide, topic, [wide.brokers[number].node])
    servers = wide.brokers[0].address
    config = make_config(hub, tmp_path, {"eu": source(wide, f"{unique}-.")}, api={"listen": "off"})

    def why(running: Run) -> dict[str, str]:
        return {it.topic: it.reason for it in running.status.partitions}

    def state(running: Run) -> SourceState:
        return running.status.sources[0].state

    with run_in_background(config) as running:
        running.wait_for(lambda: state(running) is SourceState.RUNNING, "it runs")
        produce(servers, alive, [NewRecord(b"before", b"k")])
        wait_until_topic_has(hub.bootstrap_servers, alive, 1)
        wide.brokers[1].pause()
        try:
            since = "its broker has answered nothing since"
            running.wait_for(lambda: since in why(running)[hung], "its partition says so")
            running.wait_for(lambda: state(running) is SourceState.UNREACHABLE, "it is named")
            assert "1 of 2 partitions" in running.status.sources[0].reason
            produce(servers, alive, [NewRecord(b"meanwhile", b"k")])
            wait_until_topic_has(hub.bootstrap_servers, alive, 2)
            assert why(running)[alive] == ""
        finally:
            wide.brokers[1].resume()
        running.wait_for(lambda: state(running) is SourceState.RUNNING, "it is back")
        running.wait_for(lambda: why(running)[hung] == "", "and so is its partition")
