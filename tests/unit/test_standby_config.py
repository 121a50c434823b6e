"""One that stood by runs by the config as it is when its turn comes, and says where it cannot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from aggregator.config.load import Added
from aggregator.config.schema import Config
from aggregator.engine.application import RunResult, run
from aggregator.engine.control.commands import Control
from aggregator.features.connectors.connector_table import ConnectorTable, load_effective
from aggregator.model.errors import AggregatorError, ClusterError
from aggregator.model.events import Event
from aggregator.status.assemble import status
from aggregator.status.schema import Phase
from aggregator.status.view import View
from aggregator.store.lease import standby
from aggregator.store.lease.lock import WriterLock
from aggregator.store.lease.owner import Owner
from aggregator.store.state_store import StateStore
from support.reading import wait_for

# Spark is imported, and clusters that are not there are asked.
pytestmark = pytest.mark.slow

YAML = """
name: test
hub:
  bootstrap_servers: 127.0.0.1:9
sources:
  eu:
    bootstrap_servers: 127.0.0.1:10
    topics: {include: orders}
    kafka:
      security.protocol: SASL_PLAINTEXT
      sasl.mechanism: PLAIN
      sasl.jaas.config: >-
        org.apache.kafka.common.security.plain.PlainLoginModule required
        username="u" password="${file:secret}";
checkpoint:
  path: PATH
supervision: {connect_timeout: 1s}
# Java is not waited for where there is no plan; so it is not to be had either.
spark: {master: "local[2]", jars: /nowhere}
api: {listen: "off"}
"""
US = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "us",
    "source.cluster.bootstrap.servers": "127.0.0.1:11",
    "topics": "orders",
}


class Waiting:
    """An instance on standby while the test holds the lock. Its hub does not answer."""

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.file = folder / "aggregator.yaml"
        self.secret = folder / "secret"
        self.path = str(folder / "state")
        self.write("old secret", "orders")
        self.lock = WriterLock.acquire(self.path, Owner(lease=60))
        self.control = Control(self._read({}), self._read)
        self.stop = threading.Event()
        self.views: list[View] = []
        self.events: list[Event] = []
        self.result: Future[RunResult] = pool.submit(self._run)
        wait_for(lambda: [it for it in self.views if it.phase is Phase.STANDBY], "it is on standby")

    def write(self, secret: str, topics: str, *, path: str = "") -> None:
        self.secret.write_text(secret)
        text = YAML.replace("PATH", path or self.path)
        self.file.write_text(text.replace("include: orders", f"include: {topics}"))

    def turn(self) -> BaseException | None:
        """Its turn comes; returns what its run ends with."""
        self.lock.release()
        return self.result.exception(60)

    def _run(self) -> RunResult:
        return run(
            self.control.config,
            standby=True,
            control=self.control,
            stop=self.stop,
            on_view=self.views.append,
            on_event=self.events.append,
        )

    def _read(self, added: Added) -> Config:
        return load_effective(self.file, added=added)


@contextmanager
def one_that_waits(folder: Path) -> Iterator[Waiting]:
    with ThreadPoolExecutor(1) as pool:
        waiting = Waiting(folder, pool)
        try:
            yield waiting
        finally:
            waiting.stop.set()
            waiting.lock.release()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    with one_that_waits(tmp_path) as found:
        yield found


def test_it_runs_by_what_was_changed_while_it_waited(waiting: Waiting) -> None:
    waiting.write("new secret", "payments")
    table = ConnectorTable(StateStore(waiting.path))
    table.put("us", US, "a person")
    assert isinstance(waiting.turn(), ClusterError)
    sources = waiting.control.config.sources
    assert sources.keys() == {"eu", "us"}
    assert "new secret" in sources["eu"].kafka["sasl.jaas.config"]
    assert sources["eu"].topics.include == "payments"
    table.put("eu", None, "a person")
    assert waiting.control.read_again(waiting.events.append)
    assert waiting.control.config.sources.keys() == {"us"}
    assert not waiting.control.read_again(waiting.events.append)


def test_a_config_that_cannot_be_used_leaves_the_last_one_in_force_and_is_logged(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "FOLLOW_SECONDS", 0.0)
    waiting.write("new secret", "payments")
    wait_for(lambda: waiting.control.config.sources["eu"].topics.include == "payments", "it reads")
    waiting.secret.unlink()
    wait_for(lambda: waiting.views[-1].config_error, "it says so before its turn")
    assert status(waiting.views[-1]).phase is Phase.STANDBY
    assert isinstance(waiting.turn(), ClusterError)
    assert "new secret" in waiting.control.config.sources["eu"].kafka["sasl.jaas.config"]
    (note,) = status(waiting.views[-1]).warnings
    assert note.startswith("the config cannot be used, and the last one stays in force: ")
    assert "secret" in note and waiting.views[-1].phase is Phase.STARTING
    (failed,) = [it for it in waiting.events if it.kind == "config_failed"]
    assert failed.message == note


def test_what_a_process_keeps_is_shown_and_the_rest_is_taken(waiting: Waiting) -> None:
    waiting.write("new secret", "payments")
    with waiting.file.open("a") as file:
        file.write("metrics: {partitions: true}\n")
    text = waiting.file.read_text().replace('listen: "off"', "listen: 127.0.0.1:9999")
    waiting.file.write_text(text)
    assert isinstance(waiting.turn(), ClusterError)
    config = waiting.control.config
    assert (config.api.listen, config.metrics.partitions) == ("off", True)
    assert waiting.control.waiting == ("api.listen",)


def test_one_that_waits_at_another_checkpoint_ends(waiting: Waiting, tmp_path: Path) -> None:
    waiting.write("new secret", "orders", path=str(tmp_path / "elsewhere"))
    error = waiting.turn()
    assert type(error) is AggregatorError and error.exit_code == 1
    assert str(error) == "checkpoint.path: changed since this start; start it again"
    # As it was found: the next one has nothing to wait for.
    with WriterLock.acquire(waiting.path) as lock:
        assert lock.earlier is None
