"""The three clusters that all processes of one test run share: started when the first one asks."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aggregator.extras.embedded.cluster import EmbeddedCluster, start_clusters
from aggregator.extras.embedded.processes import log_tail
from aggregator.extras.embedded.waiting import wait_until
from support.broker_classes import broker_options, lasting_options

NAMES = ("source-a", "source-b", "hub")
WANTED, STARTED = "wanted", "started.json"
START_SECONDS = 300.0
RARELY = {
    "broker.heartbeat.interval.ms": "2000",
    "broker.session.timeout.ms": "9000",
    "log.retention.check.interval.ms": "300000",
}
"""Kafka's own. No broker of these is ever away, and four times as many heartbeats would be a third
of what an idle one does. Nor does a test wait until retention deletes something here: each second
it would go through all logs, which become thousands.
"""


class JoinedCluster(EmbeddedCluster):
    """One that another process has started: to be used, not to be ended, killed or paused."""

    def __init__(
        self, name: str, cluster_id: str, servers: str, admin: str, logs: tuple[Path, ...]
    ) -> None:
        super().__init__(name)
        self.cluster_id = cluster_id
        self.logs = logs
        self._servers, self._admin = servers, admin

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: host:port, comma-separated."""
        return self._servers

    @property
    def admin_servers(self) -> str:
        """The brokers' own listener."""
        return self._admin


@contextmanager
def started(*, lasting: bool = False) -> Iterator[dict[str, EmbeddedCluster]]:
    """The clusters, by name; stopped with the block. `lasting` ones serve for many minutes."""
    java = lasting_options() if lasting else broker_options()
    clusters = {name: EmbeddedCluster(name, java_options=java, config=RARELY) for name in NAMES}
    try:
        start_clusters(list(clusters.values()))
        yield clusters
    finally:
        for cluster in clusters.values():
            cluster.stop()


class Owner:
    """In the process that has the others test: starts the clusters once one of those asks."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="shared-clusters-"))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shared-clusters", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop the clusters."""
        self._stop.set()
        self._thread.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self) -> None:
        while not (self.folder / WANTED).exists():
            if self._stop.wait(0.2):
                return
        try:
            with started(lasting=True) as clusters:
                self._publish({name: _description(cluster) for name, cluster in clusters.items()})
                self._stop.wait()
        except Exception as error:  # raised where somebody waits for them
            self._publish({"error": str(error)})

    def _publish(self, document: object) -> None:
        fresh = self.folder / f"{STARTED}.new"
        fresh.write_text(json.dumps(document), "utf-8")
        fresh.replace(self.folder / STARTED)


def joined(folder: Path) -> dict[str, EmbeddedCluster]:
    """In a process that tests: the clusters of the owner of this folder, by name."""
    (folder / WANTED).touch()
    file = folder / STARTED
    wait_until(file.exists, seconds=START_SECONDS, what="the shared clusters start")
    found = json.loads(file.read_text("utf-8"))
    assert "error" not in found, found["error"]
    return {
        name: JoinedCluster(
            name, it["id"], it["servers"], it["admin"], tuple(map(Path, it["logs"]))
        )
        for name, it in found.items()
    }


def _description(cluster: EmbeddedCluster) -> dict[str, Any]:
    return {
        "id": cluster.cluster_id,
        "servers": cluster.bootstrap_servers,
        "admin": cluster.admin_servers,
        "logs": [str(broker.log) for broker in cluster.brokers],
    }


def log_tails(cluster: EmbeddedCluster) -> str:
    """What its brokers said last."""
    logs = cluster.logs if isinstance(cluster, JoinedCluster) else ()
    return "\n".join([*map(log_tail, logs), *(it.log_tail() for it in cluster.brokers)])
