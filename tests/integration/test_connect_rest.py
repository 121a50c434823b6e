"""A replicator as Kafka Connect's users run it, by REST: from no source at all to a kill -9."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.features.timeline.past_queries import Of, read_events, read_history
from support.application import KILLED, application
from support.load import load
from support.reading import read_topic, wait_for
from support.rest import ask
from support.running import make_config, source
from support.silence import listening

RECORDS = 20_000
SILENCE_SECONDS = 2.0
"""A lane that is started again is silent for longer; half a second is usual."""


class Rest:
    """The API of an instance, as curl asks it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return ask(method, self.url + path, body)

    def states(self, name: str) -> list[str]:
        """The states of a connector and its tasks."""
        code, answer = self("GET", f"/connectors/{name}/status")
        assert code == 200, answer
        return [answer["connector"]["state"], *(it["state"] for it in answer["tasks"])]


@contextmanager
def hanging(port: int, count: int) -> Iterator[None]:
    """`count` callers that begin to ask the API, and do not finish before the block ends."""
    with ExitStack() as stack:
        for _ in range(count):
            caller = stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            caller.sendall(b"GET /api/status HTTP/1.1\r\nHost: ")
        yield


def emr(cluster: EmbeddedCluster, topic: str, replica: str) -> dict[str, str]:
    """The config of the walk, word for word."""
    return {
        "connector.class": "EMRReplicatorSourceConnector",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "src.kafka.bootstrap.servers": cluster.bootstrap_servers,
        "src.zookeeper.connect": "localhost:2181",
        "dest.zookeeper.connect": "localhost:2182",
        "topic.whitelist": topic,
        "topic.rename.format": replica,
        "src.kafka.max.poll.records": "300",
    }


@pytest.mark.timeout(600)
def test_a_replicator_on_kafka_connect(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """It starts without a source, is killed with the one that was added, and has it again."""
    topic, replica = f"connect-{unique}", f"connect-{unique}.replica"
    create_topic(source_a.bootstrap_servers, topic, partitions=10)
    (port,) = free_ports(1)
    config = make_config(hub, tmp_path / "state", {}, api={"listen": f"127.0.0.1:{port}"})
    rest = Rest(f"http://127.0.0.1:{port}")
    with application(config, tmp_path / "app") as app:
        app.until_logged("running")
        assert rest("GET", "/connectors") == (200, [])
        body = {"name": "connect-test", "config": emr(source_a, topic, replica)}
        code, made = rest("POST", "/connectors", body)
        assert (code, made["name"], made["type"]) == (201, "connect-test", "source"), made
        assert rest("GET", "/connectors") == (200, ["connect-test"])
        assert rest("POST", "/connectors", body)[0] == 409
        wait_for(lambda: rest.states("connect-test") == ["RUNNING", "RUNNING"], "it runs")
        _, (task,) = rest("GET", "/connectors/connect-test/tasks")
        assert task["config"]["task.assigned.topics"] == topic
        values = [NewRecord(b"%0999d\n" % at, partition=at % 10) for at in range(RECORDS)]
        produce(source_a.bootstrap_servers, topic, values[: RECORDS // 2])
        app.kill()
        app.until(lambda: not app.alive, "it is dead")
        assert app.exit_code == KILLED
    with application(config, tmp_path / "app", again=True) as app:
        app.until_logged("running")
        assert rest("GET", "/connectors") == (200, ["connect-test"])
        # Callers that hang at the API hold up neither the records nor other callers.
        with hanging(port, 100):
            produce(source_a.bootstrap_servers, topic, values[RECORDS // 2 :])
            wait_for(lambda: copied(rest) == RECORDS, "all is copied")
        got = read_topic(hub.bootstrap_servers, replica)
        assert sorted(it.value or b"" for it in got) == sorted(it.value or b"" for it in values)
        assert rest("GET", "/connectors/connect-test/topics") == (
            200,
            {"connect-test": {"topics": [replica]}},
        )
        assert rest("PUT", "/connectors/connect-test/pause") == (202, None)
        wait_for(lambda: rest.states("connect-test") == ["PAUSED", "PAUSED"], "it is paused")
        assert rest("PUT", "/connectors/connect-test/resume") == (202, None)
        wait_for(lambda: rest.states("connect-test") == ["RUNNING", "RUNNING"], "it runs again")
        assert rest("PUT", "/connectors/connect-test/stop") == (204, None)
        assert rest.states("connect-test") == ["STOPPED"]
        _, answer = rest("GET", "/connectors/connect-test/offsets")
        back = [{**row, "offset": {"offset": 99}} for row in answer["offsets"][:4]]
        code, _ = rest("PATCH", "/connectors/connect-test/offsets", {"offsets": back})
        assert code == 200
        assert rest("PUT", "/connectors/connect-test/resume") == (202, None)
        # What the hub holds is not written a second time.
        wait_for(lambda: copied(rest) == RECORDS, "all is copied again")
        assert len(read_topic(hub.bootstrap_servers, replica)) == RECORDS
        assert rest("DELETE", "/connectors/connect-test") == (204, None)
        assert rest("GET", "/connectors") == (200, [])
        assert rest("GET", "/connectors/connect-test")[0] == 404
        # Added again it has its initial state, and continues from where it was.
        assert rest("POST", "/connectors", {**body, "initial_state": "STOPPED"})[0] == 201
        assert rest.states("connect-test") == ["STOPPED"]
        produce(source_a.bootstrap_servers, topic, values[:10])
        assert rest("PUT", "/connectors/connect-test/resume") == (202, None)
        wait_for(lambda: copied(rest) == RECORDS + 10, "what came meanwhile is copied")
        assert len(read_topic(hub.bootstrap_servers, replica)) == RECORDS + 10
        wait_for(lambda: sent(rest) >= RECORDS // 2, "the figures are shown")
        records, begin = sent(rest), datetime.fromisoformat(status_of(rest)["started_at"])
        app.terminate()
        app.until(lambda: not app.alive, "it has ended")
        assert app.exit_code == 0, app.text
    check_what_was(config, topic, begin, records)


def status_of(rest: Rest) -> dict[str, Any]:
    """The status document."""
    code, answer = rest("GET", "/api/status")
    assert code == 200, answer
    return dict(answer)


def sent(rest: Rest) -> int:
    """Records that this life of the instance has sent."""
    return sum(it["records"] for it in status_of(rest)["sources"])


def check_what_was(config: Config, topic: str, begin: datetime, records: int) -> None:
    """History since `begin` adds up to what was sent since, and the events are kept."""
    now = datetime.now(UTC)
    rows = read_history(config, begin, now, of=Of(topic=topic)).rows
    assert sum(it.records for it in rows) == records
    assert {it.source for it in rows} == {"connect-test"}
    (said,) = read_events(config, begin, now, kind="stopped").events
    assert said.message == "stopped"
    assert len(read_events(config, begin, now, kind="running").events) == 1


@pytest.mark.timeout(600)
def test_a_source_that_is_kept_when_all_ends_is_there_at_the_next_start(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    (port,) = free_ports(1)
    config = make_config(hub, tmp_path / "state", {}, api={"listen": f"127.0.0.1:{port}"})
    rest = Rest(f"http://127.0.0.1:{port}")
    with application(config, tmp_path / "app", failpoint="after-change") as app:
        app.until_logged("running")
        body = {"name": "eu", "config": emr(source_a, unique, unique), "initial_state": "STOPPED"}
        with pytest.raises(OSError):
            rest("POST", "/connectors", body)
        app.until(lambda: not app.alive, "it has died at its failpoint")
        assert app.exit_code == KILLED
    waits = "after-apply=pause:10"
    with application(config, tmp_path / "app", failpoint=waits, again=True) as app:
        app.until(lambda: "failpoint after-apply" in app.text, "it is still starting")
        assert rest("GET", "/connectors") == (200, ["eu"])
        # Answered at once: nothing is carried out while it recovers.
        code, answer = rest("PUT", "/api/sources/eu/reset")
        assert (code, "still starting" in answer["message"]) == (503, True)
        assert not app.has_logged("running")
        app.until_logged("running")
        # As it was to begin, though the instance died in the midst of that.
        assert rest.states("eu") == ["STOPPED"]
        # Taken back: the config has no such source.
        code, answer = rest("PUT", "/api/sources/eu/reset")
        assert (code, answer["removed"]) == (200, ["eu"]), answer
        assert rest("GET", "/connectors") == (200, [])
        assert rest("PUT", "/api/sources/eu/reset")[0] == 404
        app.terminate()
        app.until(lambda: not app.alive, "it has ended")
        assert app.exit_code == 0, app.text


def copied(rest: Rest) -> int:
    """How many records are copied, by the offsets that the API reports."""
    _, answer = rest("GET", "/connectors/connect-test/offsets")
    return sum(it["offset"]["offset"] + 1 for it in answer["offsets"])


@pytest.mark.timeout(600)
def test_a_source_comes_and_goes_while_the_other_flows(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    for cluster in (source_a, source_b, hub):
        create_topic(cluster.bootstrap_servers, unique, partitions=2)
    (port,) = free_ports(1)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        api={"listen": f"127.0.0.1:{port}"},
    )
    rest = Rest(f"http://127.0.0.1:{port}")
    us = {"src.kafka.bootstrap.servers": source_b.bootstrap_servers, "topics": unique}
    with (
        application(config, tmp_path / "app", again=True) as app,
        load([source_a, source_b], unique, per_second=250),
        listening(source_a.bootstrap_servers, unique, 2) as sent,
        listening(hub.bootstrap_servers, unique, 2) as arrivals,
    ):
        app.until_logged("running")
        wait_for(lambda: arrivals.counts["eu"] > 500, "eu flows")
        arrivals.longest.clear()
        sent.longest.clear()
        assert rest("PUT", "/connectors/us/config", us)[0] == 201
        wait_for(lambda: arrivals.counts["us"] > 500, "us flows")
        assert rest("PATCH", "/connectors/us/config", {"aggregator.weight": 2})[0] == 200
        assert rest("GET", "/connectors/us/config")[1]["aggregator.weight"] == "2"
        assert rest("POST", "/connectors/us/restart") == (204, None)
        before = arrivals.counts["us"]
        wait_for(lambda: arrivals.counts["us"] > before + 500, "us flows again")
        assert rest("DELETE", "/connectors/us") == (204, None)
        before = arrivals.counts["eu"]
        wait_for(lambda: arrivals.counts["eu"] > before + 500, "eu flows on")
        # When the machine hangs, so does the source.
        assert arrivals.silence("eu") < SILENCE_SECONDS + sent.silence("")
        app.terminate()
        app.until(lambda: not app.alive, "it has ended")
        assert app.exit_code == 0, app.text
