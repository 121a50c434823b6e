"""Clients that were made for Kafka Connect drive a running aggregation, as they come."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka_connect import KafkaConnect

from aggregator import __version__
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import create_topic, produce
from aggregator.features.connectors.config_keys import CLASSES
from support.application import application
from support.connect_client import java_client
from support.load import records
from support.reading import read_topic, wait_for, wait_until_topic_has
from support.running import make_config

USER, TOKEN = "anybody", "change-me-0123456789"
RECORDS = 500
RUNNING, PAUSED = ["RUNNING", "RUNNING"], ["PAUSED", "PAUSED"]
COMMAND_SECONDS = 120


@dataclass(frozen=True)
class Instance:
    """A running aggregation, and the token that it asks for, if any."""

    url: str
    token: str

    @property
    def login(self) -> tuple[str, ...]:
        """The user and the password of a client that knows nothing of tokens."""
        return (USER, self.token) if self.token else ()


@contextmanager
def running_instance(hub: EmbeddedCluster, folder: Path, token: str) -> Iterator[Instance]:
    """An instance without a source: the clients add theirs."""
    (port,) = free_ports(1)
    api = {"listen": f"127.0.0.1:{port}"}
    if token:
        api["write_token"] = token
    config = make_config(hub, folder / "state", {}, api=api)
    with application(config, folder / "app", again=True) as app:
        app.until_logged("running")
        yield Instance(f"http://127.0.0.1:{port}", token)
        app.terminate()
        app.until(lambda: not app.alive, "it has ended")
        assert app.exit_code == 0, app.text


@pytest.fixture(scope="module")
def instance(hub: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """One that asks for a token."""
    with running_instance(hub, tmp_path_factory.mktemp("clients"), TOKEN) as found:
        yield found


@dataclass(frozen=True)
class Copy:
    """A topic of a source, what it is called at the hub, and the connector between the two."""

    topic: str
    replica: str
    config: dict[str, str]


@pytest.fixture
def copy(source_a: EmbeddedCluster, unique: str) -> Copy:
    """A topic with records of a source, and the config that copies it."""
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    produce(source_a.bootstrap_servers, unique, records(RECORDS))
    config = {
        "connector.class": "MirrorSourceConnector",
        "source.cluster.bootstrap.servers": source_a.bootstrap_servers,
        "topics": unique,
        "topic.rename.format": "${topic}.replica",
        "tasks.max": "1",
    }
    return Copy(unique, f"{unique}.replica", config)


def states(status: dict[str, Any]) -> list[str]:
    """The states of a connector and its tasks."""
    return [status["connector"]["state"], *(it["state"] for it in status["tasks"])]


@pytest.mark.timeout(600)
def test_connects_python_client_drives_it(
    instance: Instance, hub: EmbeddedCluster, copy: Copy
) -> None:
    name = "by-python"
    client = KafkaConnect(instance.url, auth=":".join(instance.login) or None)

    def states_now() -> list[str]:
        return states(client.get_connector_status(name))

    assert client.get_cluster_info()["version"] == "4.0.0"
    assert [it["class"] for it in client.list_connector_plugins()] == list(CLASSES)
    checked = client.validate_connector_config("MirrorSourceConnector", {"tasks.max": "none"})
    assert checked["error_count"] == 3
    assert client.list_connectors() == []
    made = client.create_connector({"name": name, "config": copy.config})
    assert (made["name"], made["type"]) == (name, "source")
    # What is refused is the error that its users know.
    with pytest.raises(OSError, match="409"):
        client.create_connector({"name": name, "config": copy.config})
    with pytest.raises(OSError, match="404"):
        client.get_connector("nobody")
    wait_until_topic_has(hub.bootstrap_servers, copy.replica, RECORDS)
    wait_for(lambda: states_now() == RUNNING, "it runs")
    assert client.get_connector(name)["config"] == {"name": name, **copy.config}
    assert client.get_connector_config(name) == {"name": name, **copy.config}
    assert client.list_connectors(expand="info")[name]["info"]["tasks"] == [
        {"connector": name, "task": 0}
    ]
    (task,) = client.list_connector_tasks(name)
    assert task["config"]["task.assigned.topics"] == copy.topic
    assert client.get_connector_task_status(name, 0)["state"] == "RUNNING"
    assert client.list_connector_topics(name) == {name: {"topics": [copy.replica]}}
    client.reset_connector_topics(name)
    client.pause_all_connectors(pattern="by-.*", state="running")
    wait_for(lambda: states_now() == PAUSED, "it is paused")
    assert [*client.list_connectors(expand="status", state="paused")] == [name]
    client.resume_connector(name)
    wait_for(lambda: states_now() == RUNNING, "it runs again")
    assert client.restart_connector(name) is None
    assert client.restart_connector(name, include_tasks=True)["name"] == name
    wait_for(lambda: states_now() == RUNNING, "it runs after a restart")
    client.restart_connector_task(name, 0)
    changed = client.update_connector(name, {**copy.config, "tasks.max": "2"})
    assert changed["config"]["tasks.max"] == "2"
    client.stop_connector(name)
    assert states_now() == ["STOPPED"]
    client.delete_connector(name)
    assert client.list_connectors() == []
    assert len(read_topic(hub.bootstrap_servers, copy.replica)) == RECORDS


def by_command(instance: Instance, *words: str) -> Any:
    """What `kc` prints, which is JSON or nothing; it ends with 0 whatever has happened."""
    env = {**os.environ, "KAFKA_CONNECT_URL": instance.url}
    if instance.token:
        env["KAFKA_CONNECT_BASIC_AUTH"] = ":".join(instance.login)
    command = [str(Path(sys.executable).parent / "kc"), "--log-level", "ERROR", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=COMMAND_SECONDS)
    assert done.returncode == 0, done.stderr
    text = done.stdout.strip()
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


@pytest.mark.timeout(600)
def test_connects_command_line_drives_it(
    instance: Instance, hub: EmbeddedCluster, copy: Copy
) -> None:
    name = "by-command"
    kc = partial(by_command, instance)

    assert kc("info")["commit"] == f"aggregator {__version__}"
    assert [it["class"] for it in kc("list-plugins")] == list(CLASSES)
    made = kc("create", "-d", json.dumps({"name": name, "config": copy.config}))
    assert (made["name"], made["type"]) == (name, "source")
    assert kc("list") == [name]
    wait_until_topic_has(hub.bootstrap_servers, copy.replica, RECORDS)
    wait_for(lambda: states(kc("status", name)) == RUNNING, "it runs")
    assert kc("get", name)["config"] == kc("config", name) == {"name": name, **copy.config}
    assert kc("list-topics", name) == {name: {"topics": [copy.replica]}}
    assert kc("task-status", name, "0")["state"] == "RUNNING"
    assert kc("pause", name) is None
    wait_for(lambda: [*kc("list", "-e", "status", "-s", "paused")] == [name], "it is paused")
    assert kc("resume", "--all", "--pattern", "by-.*") is None
    wait_for(lambda: states(kc("status", name)) == RUNNING, "it runs again")
    assert kc("restart", name, "--include-tasks", "--only-failed")["name"] == name
    assert kc("update", name, "-d", json.dumps(copy.config))["name"] == name
    assert kc("delete", name) is None
    assert kc("list") == []
    assert "404" in kc("status", name)


@pytest.mark.timeout(600)
def test_connects_java_client_drives_it(
    instance: Instance, hub: EmbeddedCluster, copy: Copy, tmp_path: Path
) -> None:
    name = "by-java"
    with java_client(tmp_path, instance.url, *instance.login) as client:

        def states_now() -> list[str]:
            return states(client("status", name))

        assert client("version")["version"] == "4.0.0"
        assert [it["class_name"] for it in client("plugins")] == list(CLASSES)
        checked = client("validate", "MirrorSourceConnector", config={"tasks.max": "none"})
        wrong = {it["value"]["name"] for it in checked["configs"] if it["value"]["errors"]}
        assert checked["error_count"] == len(wrong) == 3 and "tasks.max" in wrong
        assert client("connectors") == []
        made = client("add", name, config=copy.config)
        assert (made["name"], made["type"]) == (name, "source")
        assert client("add", name, config=copy.config)["refused"] == 409
        assert client("definition", "nobody") == {
            "refused": 404,
            "message": "Connector nobody not found",
        }
        wait_until_topic_has(hub.bootstrap_servers, copy.replica, RECORDS)
        wait_for(lambda: states_now() == RUNNING, "it runs")
        config = {"name": name, **copy.config}
        assert client("definition", name)["config"] == client("config", name) == config
        assert client("connectors") == [name]
        assert states(client("statuses")[name]) == RUNNING
        assert client("definitions")[name]["tasks"] == [{"connector": name, "task": 0}]
        (task,) = client("tasks", name)
        assert task["config"]["task.assigned.topics"] == copy.topic
        assert client("task", name, task=0)["state"] == "RUNNING"
        assert client("topics", name) == {"name": name, "topics": [copy.replica]}
        assert client("reset topics", name) is True
        assert client("pause", name) is True
        wait_for(lambda: states_now() == PAUSED, "it is paused")
        assert client("resume", name) is True
        wait_for(lambda: states_now() == RUNNING, "it runs again")
        assert client("restart", name) is True
        assert client("restart all", name) is True
        wait_for(lambda: states_now() == RUNNING, "it runs after a restart")
        assert client("restart task", name, task=0) is True
        changed = client("update", name, config={**copy.config, "tasks.max": "2"})
        assert changed["config"]["tasks.max"] == "2"
        assert client("delete", name) is True
        assert client("connectors") == []
    assert len(read_topic(hub.bootstrap_servers, copy.replica)) == RECORDS


@pytest.mark.timeout(600)
def test_a_client_with_another_password_gets_nothing(instance: Instance, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="401"):
        KafkaConnect(instance.url, auth="any:wrong").list_connectors()
    with java_client(tmp_path, instance.url, "any", "wrong") as client:
        assert client("connectors")["refused"] == 401


@pytest.mark.timeout(600)
def test_where_no_token_is_asked_for_each_client_is_let_in(
    hub: EmbeddedCluster, copy: Copy, tmp_path: Path
) -> None:
    with running_instance(hub, tmp_path, "") as instance:
        client = KafkaConnect(instance.url, auth=None)
        client.create_connector({"name": "open", "config": copy.config})
        wait_until_topic_has(hub.bootstrap_servers, copy.replica, RECORDS)
        # No login is required: what a client shows does not matter.
        assert KafkaConnect(instance.url, auth="any:wrong").list_connectors() == ["open"]
        assert by_command(instance, "list") == ["open"]
        with java_client(tmp_path, instance.url) as java:
            assert java("connectors") == ["open"]
        client.delete_connector("open")
        assert client.list_connectors() == []
