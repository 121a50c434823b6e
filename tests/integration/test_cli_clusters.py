"""The command line against real brokers: what is refused, what is down, and the lag."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

from aggregator.cli.main import app
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.values import Positions, SourcePartition, TopicPartition
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.rows import Checkpoint
from support.application import events_in
from support.clusters import ClusterFactory
from support.reading import SECONDS, topics_of, wait_for

NO_BROKER = "127.0.0.1:1"
SECRET = "wrong-and-secret"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AGGREGATOR_CONFIG", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def guarded(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    """A cluster that lets only `root` in."""
    return lasting_clusters(
        "guarded-cli", sasl_users={"root": "r"}, super_users=["root"], acls=True
    )


def cluster(servers: str, **more: Any) -> dict[str, Any]:
    return {"bootstrap_servers": servers, **more}


def wrong_login(servers: str) -> dict[str, Any]:
    return cluster(
        servers,
        kafka={
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{LOGIN} username="root" password="{SECRET}";',
        },
    )


def write(folder: Path, hub: dict[str, Any], topic: str, **sources: dict[str, Any]) -> None:
    """Write ./aggregator.yaml, which every command then takes."""
    tree = {
        "hub": hub,
        "sources": {alias: {**it, "topics": {"include": topic}} for alias, it in sources.items()},
        "supervision": {"connect_timeout": "8s"},
        "api": {"listen": "off"},
    }
    (folder / "aggregator.yaml").write_text(yaml.safe_dump(tree), "utf-8")


def run(*args: str) -> Result:
    return CliRunner().invoke(app, args)


def assert_nothing_written(folder: Path) -> None:
    assert [path.name for path in folder.iterdir()] == ["aggregator.yaml"]


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_dead_hub_ends_with_3(folder: Path, source_a: EmbeddedCluster, command: str) -> None:
    write(folder, cluster(NO_BROKER), "x", a=cluster(source_a.bootstrap_servers))
    result = run(command)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "(hub): unreachable" in result.stderr
    assert "check hub.bootstrap_servers" in result.stderr
    assert "Traceback" not in result.stderr
    assert_nothing_written(folder)


def test_check_names_every_cluster_that_is_down(
    folder: Path, source_a: EmbeddedCluster, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    up, down = cluster(source_a.bootstrap_servers), cluster("127.0.0.1:2")
    write(folder, cluster(NO_BROKER), unique, up=up, down=down)
    result = run("check", "-o", "json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    bad = {it["cluster"] for it in found["checks"] if not it["ok"]}
    assert (found["ok"], bad) == (False, {"(hub)", "down"})
    assert "checks failed" in run("check").stdout
    assert_nothing_written(folder)


def test_check_of_good_clusters(
    folder: Path, source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    a = cluster(source_a.bootstrap_servers)
    write(folder, cluster(hub.bootstrap_servers), unique, a=a)
    result = run("check")
    assert result.exit_code == 0, result.output
    assert "All is well." in result.stdout
    assert hub.cluster_id in result.stdout


@pytest.mark.parametrize("command", ["plan", "check", "run"])
def test_a_hub_that_refuses_us_ends_with_3_and_shows_no_password(
    folder: Path, guarded: EmbeddedCluster, source_a: EmbeddedCluster, command: str
) -> None:
    a = cluster(source_a.bootstrap_servers)
    write(folder, wrong_login(guarded.bootstrap_servers), "x", a=a)
    result = run(command)
    assert result.exit_code == 3
    assert "uthentication failed" in result.output
    assert "hub.kafka" in result.output
    assert SECRET not in result.output
    assert_nothing_written(folder)


def test_a_dead_source_is_a_warning_of_the_plan(
    folder: Path, source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    a = cluster(source_a.bootstrap_servers)
    write(folder, cluster(hub.bootstrap_servers), unique, a=a, dead=cluster(NO_BROKER))
    result = run("plan")
    assert result.exit_code == 0, result.output
    assert f"create {unique}: 3 partitions" in result.stdout
    assert "warning: source dead: unreachable" in result.stdout
    data = json.loads(run("plan", "-o", "json").stdout)
    assert [it["hub_topic"] for it in data["routes"]] == [unique]
    assert list(data["failed"]) == ["dead"]
    assert unique not in topics_of(hub.bootstrap_servers)
    assert_nothing_written(folder)


def test_a_run_without_any_source_ends_with_3(folder: Path, hub: EmbeddedCluster) -> None:
    write(folder, cluster(hub.bootstrap_servers), "x", dead=cluster(NO_BROKER))
    result = run("run")
    assert result.exit_code == 3
    assert "dead: unreachable" in result.stderr
    assert_nothing_written(folder)


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_refused_plan_ends_with_2(
    folder: Path, source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str, command: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    one, two = cluster(source_a.bootstrap_servers), cluster(source_a.bootstrap_servers)
    write(folder, cluster(hub.bootstrap_servers), unique, one=one, two=two)
    result = run(command)
    assert result.exit_code == 2
    assert "sources one and two are one cluster" in result.output
    assert "every record would arrive twice" in result.output
    assert unique not in topics_of(hub.bootstrap_servers)
    assert_nothing_written(folder)


def checkpoint(folder: Path, positions: dict[SourcePartition, int]) -> None:
    """A checkpoint as a run leaves it."""
    table = CheckpointTable.create(str(folder / "state"))
    table.claim_epoch("test")
    table.append(
        Checkpoint(
            lane="a",
            generation=1,
            batch=1,
            positions=Positions(positions),
            hub_ends={TopicPartition("x", 0): 0},
            snapshot_at_ms=time.time_ns() // 1_000_000,
            clean=True,
        )
    )


def rows_of(result: Result) -> dict[tuple[str, int], dict[str, Any]]:
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    return {(row["cluster"], row["partition"]): row for row in report["rows"]}


def test_lag_in_offsets_and_bytes(
    folder: Path, source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    record = NewRecord(b"v" * 80, b"k" * 10, 0, [("h", b"x" * 9)])
    produce(source_a.bootstrap_servers, unique, [record] * 300)
    produce(source_a.bootstrap_servers, unique, [NewRecord(b"v" * 50, partition=1)] * 10)
    a, dead = cluster(source_a.bootstrap_servers), cluster(NO_BROKER)
    write(folder, cluster(hub.bootstrap_servers), unique, a=a, dead=dead)
    partitions = [SourcePartition("a", unique, each) for each in range(3)]
    lost = SourcePartition("dead", unique, 0)
    checkpoint(folder, {partitions[0]: 100, partitions[1]: 10, partitions[2]: 0, lost: 5})
    rows = rows_of(run("lag", "-o", "json"))
    assert [(rows["a", each]["lag"], rows["a", each]["lag_bytes"]) for each in range(3)] == [
        (200, 20_000),
        (0, 0),
        (0, 0),
    ]
    assert rows["a", 0]["log_end"] == 300
    assert (rows["dead", 0]["lag"], rows["dead", 0]["position"]) == (None, 5)
    assert "unreachable" in rows["dead", 0]["reason"]
    text = run("lag").stdout
    assert "unknown" in text
    assert "20.0 kB" in text
    assert "not running" in text


def test_lag_of_transaction_markers_is_none(
    folder: Path, source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    servers = {"bootstrap.servers": source_a.bootstrap_servers, "transactional.id": unique}
    producer = Producer(servers)
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(unique, b"v" * 10)
    producer.commit_transaction(SECONDS)
    # The marker is written after the commit is answered.
    wait_for(lambda: end_offsets(source_a.bootstrap_servers, unique) == {0: 2}, "the marker")
    a = cluster(source_a.bootstrap_servers)
    write(folder, cluster(hub.bootstrap_servers), unique, a=a)
    checkpoint(folder, {SourcePartition("a", unique, 0): 1})
    row = rows_of(run("lag", "-o", "json"))["a", 0]
    assert (row["log_end"], row["lag"], row["lag_bytes"]) == (2, 0, 0)
    assert row["reason"] == "the last 1 offsets hold no records"


@pytest.fixture
def programs() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for program in started:
        program.kill()
        program.communicate()


def test_a_run_serves_its_status_and_stops_cleanly(
    folder: Path,
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    unique: str,
    programs: list[subprocess.Popen[str]],
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    produce(source_a.bootstrap_servers, unique, [NewRecord(b"v", b"%d" % n) for n in range(100)])
    a = cluster(source_a.bootstrap_servers)
    write(folder, cluster(hub.bootstrap_servers), unique, a=a)
    command = [sys.executable, "-m", "aggregator", "run", "--set", "api.listen=127.0.0.1:0"]
    log = folder / "log"
    with log.open("w") as stderr:
        program = subprocess.Popen(command, stderr=stderr, stdout=subprocess.PIPE, text=True)
    programs.append(program)

    def api() -> str | None:
        addresses = [event["message"] for event in events_in(log) if event["event"] == "api"]
        return addresses[0].split()[-1] if addresses else None

    url = wait_until(api, seconds=SECONDS, what=lambda: f"no API: {log.read_text()}")

    def healthy() -> bool:
        assert program.poll() is None, log.read_text()
        try:
            with urlopen(f"{url}/health", timeout=60) as answer:
                return bool(answer.status == 200)
        except HTTPError as error:
            with error:
                assert error.code == 503, log.read_text()
            return False

    wait_until(healthy, seconds=SECONDS, what=lambda: f"not healthy: {log.read_text()}")
    listen = f"api.listen={url.removeprefix('http://')}"
    wait_until(
        lambda: sum(end_offsets(hub.bootstrap_servers, unique).values()) == 100,
        seconds=SECONDS,
        what="the records are not in the hub",
    )
    status = json.loads(run("status", "-o", "json", "--set", listen).stdout)
    assert (status["running"], status["phase"], status["pid"]) == (True, "RUNNING", program.pid)
    lag = json.loads(run("lag", "-o", "json", "--set", listen).stdout)
    assert lag["running"] is True
    assert sum(row["log_end"] for row in lag["rows"]) == 100
    program.send_signal(signal.SIGTERM)
    out, _ = program.communicate(timeout=SECONDS)
    assert (program.returncode, out) == (0, ""), log.read_text()
    stopped = json.loads(run("status", "-o", "json").stdout)
    assert (stopped["running"], stopped["clean"]) == (False, True)
    assert sum(row["position"] for row in stopped["positions"]) == 100


def test_a_run_until_caught_up_ends_with_a_table(
    folder: Path, source_a: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    produce(source_a.bootstrap_servers, unique, [NewRecord(b"v", b"%d" % n) for n in range(100)])
    a = cluster(source_a.bootstrap_servers)
    write(folder, cluster(hub.bootstrap_servers), unique, a=a)
    command = [sys.executable, "-m", "aggregator", "run", "--until-caught-up"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env={**os.environ})
    assert done.returncode == 0, done.stderr
    assert "Sources" in done.stdout
    assert "100" in done.stdout
    assert sum(end_offsets(hub.bootstrap_servers, unique).values()) == 100
    assert "Traceback" not in done.stderr
