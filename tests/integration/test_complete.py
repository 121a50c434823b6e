"""Complete up to: numbered records on brokers that freeze, pause, grow, with a transaction open."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, grow_topic, produce
from aggregator.features.completeness.wait import complete_up_to
from aggregator.model.errors import EXIT_DONE, EXIT_NOT_YET
from support.clusters import ClusterFactory
from support.reading import read_topic, wait_for
from support.running import Run, make_config, run_in_background, source

LONG, SHORT = "90s", "6s"


class Shell:
    """`aggregator wait` for one topic; numbers records, and knows which the hub is to hold."""

    def __init__(self, config: Config, folder: Path, hub: EmbeddedCluster, topic: str) -> None:
        self.config, self.hub, self.topic = config, hub, topic
        self.file = folder / "aggregator.yaml"
        self.file.write_text(to_yaml(config), "utf-8")
        self.sent: list[bytes] = []

    def write(self, cluster: EmbeddedCluster, count: int, partition: int = -1) -> datetime:
        """Write `count` records; returns a moment at which all of them are acknowledged."""
        values = self.numbers(count)
        records = [NewRecord(it, it, partition) for it in values]
        produce(cluster.bootstrap_servers, self.topic, records)
        self.sent += values
        return datetime.now(UTC)

    def numbers(self, count: int) -> list[bytes]:
        return [b"%06d" % (len(self.sent) + at) for at in range(count)]

    def wait(self, until: datetime, code: int, *more: str) -> str:
        """Have it wait; when it says that all is there, all of it is. Returns what it said."""
        timeout = LONG if code == EXIT_DONE else SHORT
        common = ("--topic", self.topic, "--until", until.isoformat(), "--timeout", timeout)
        done = CliRunner().invoke(app, ["wait", "-c", str(self.file), *common, *more])
        assert done.exit_code == code, done.output
        if code == EXIT_DONE and not more:
            held = {it.value for it in read_topic(self.hub.bootstrap_servers, self.topic)}
            assert set(self.sent) <= held
        return done.output


@contextmanager
def transaction(cluster: EmbeddedCluster, topic: str, values: list[bytes]) -> Iterator[None]:
    """A transaction that is open in the block, with these records acknowledged in it."""
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "transactional.id": uuid.uuid4().hex,
    }
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, value)
    assert producer.flush(60) == 0
    yield
    producer.commit_transaction(60)


def least(running: Run, topic: str) -> datetime | None:
    known = running.status.completeness
    found = (
        [it.up_to for it in known.topics if it.topic == topic and it.source is None]
        if known
        else []
    )
    return found[0] if found else None


def why(running: Run, topic: str) -> str | None:
    known = running.status.completeness
    found = [it for it in known.topics if it.topic == topic and it.source is None] if known else []
    return found[0].laggard.why if found and found[0].laggard else None


@pytest.mark.timeout(600)
def test_when_it_is_said_to_be_complete_every_record_is_there(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
) -> None:
    mute = cluster_factory("mute-complete")
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    create_topic(mute.bootstrap_servers, unique)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique), "us": source(mute, unique)},
        supervision={"connect_timeout": "3s", "deadline": "2s"},
        completeness={"allowed_lateness": "1s", "interval": "1s"},
        api={"listen": "off"},
    )
    shell = Shell(config, tmp_path, hub, unique)
    control = Control(config)
    with run_in_background(config, control) as running:
        shell.write(mute, 100)
        until = shell.write(source_a, 100)
        shell.wait(until, EXIT_DONE)
        # Nothing is written any more: idle sources are asked, and so it advances.
        shell.wait(datetime.now(UTC), EXIT_DONE)

        with transaction(source_a, unique, open_values := shell.numbers(5)):
            shell.sent += open_values
            until = shell.write(source_a, 5)
            running.wait_for(lambda: why(running, unique) == "transaction", "it is seen to be open")
            assert "eu/" in (said := shell.wait(until, EXIT_NOT_YET)), said
            assert "transaction is open" in said
            shell.wait(until, EXIT_DONE, "--source", "us")
        shell.wait(until, EXIT_DONE)

        mute.brokers[0].pause()
        try:
            until = shell.write(source_a, 5)
            running.wait_for(lambda: why(running, unique) == "away", "it is seen to be away")
            assert "us" in (said := shell.wait(until, EXIT_NOT_YET)), said
            assert "away" in said
            shell.wait(until, EXIT_DONE, "--source", "eu")
        finally:
            mute.brokers[0].resume()
        shell.wait(until, EXIT_DONE)

        # A partition that no look knows yet: its records are waited for all the same.
        grow_topic(source_a.bootstrap_servers, unique, 3)
        shell.wait(shell.write(source_a, 5, partition=2), EXIT_DONE)

        control.pause("eu")
        until = shell.write(source_a, 5)
        running.wait_for(lambda: why(running, unique) == "paused", "it is seen to be paused")
        assert "paused" in shell.wait(until, EXIT_NOT_YET)
        before = least(running, unique)
    assert before is not None
    kept = complete_up_to(config, unique)
    assert kept is not None
    assert kept >= before
    with run_in_background(config, control := Control(config)) as running:
        found = wait_for(lambda: least(running, unique), "it claims again")
        assert found is not None
        assert before <= found < until
        control.resume("eu")
        shell.wait(until, EXIT_DONE)
        known = running.status.completeness
        assert known is not None
        assert {it.source for it in known.topics if it.topic == unique} == {None, "eu", "us"}
        assert not sum(known.late.values())
