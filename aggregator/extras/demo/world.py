"""The world of a demo: sources, a hub, maybe a schema registry, and an aggregator between them.

The aggregator runs as a child process, as a user would start it.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from aggregator.datapath.jars import jars
from aggregator.extras.embedded.cluster import EmbeddedCluster, start_clusters
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.registry import EmbeddedRegistry, unpack_registry
from aggregator.extras.embedded.topics import create_topic
from aggregator.model.errors import AggregatorError

HUB_PARTITIONS = 4
STOP_SECONDS = 120.0

CONFIG = """\
# Written by `aggregator demo`.
name: demo
hub:
  bootstrap_servers: {hub}
{schemas}sources:
{sources}topics:
  partitions: {partitions}
  replication_factor: 1
stream:
  checkpoint_interval: 5s
checkpoint:
  path: {state}
api:
  listen: 127.0.0.1:{port}
"""
SOURCE = """\
  {alias}:
    bootstrap_servers: {servers}
    topics: {{include: "{topics}"}}
"""
SCHEMAS = "  schemas: {{registry: {url}}}\n"


class World:
    """Clusters, config and aggregator; a context manager that leaves nothing behind.

    `sources` are the partitions of each topic by alias. With `registry`, the hub has a schema
    registry; the sources share it. `say` takes what is done, in words.
    """

    def __init__(
        self,
        sources: Mapping[str, int],
        topics: Sequence[str],
        say: Callable[[str], None],
        *,
        registry: bool = False,
    ) -> None:
        self.sources = dict(sources)
        self.topics = tuple(topics)
        self.clusters = {name: EmbeddedCluster(name) for name in (*sources, "hub")}
        self.registry: EmbeddedRegistry | None = None
        self.config_file = Path()
        self.url = ""
        self._log = Path()
        self._say = say
        self._wants_registry = registry
        self._exit = ExitStack()

    def __enter__(self) -> World:
        try:
            self._prepare()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @contextmanager
    def aggregator(self) -> Iterator[GuardedProcess]:
        """`aggregator run`, ended cleanly with the block; AggregatorError when that fails."""
        self._say("starting the aggregator")
        command = [sys.executable, "-m", "aggregator", "run", "-c", str(self.config_file)]
        child = GuardedProcess(command, self._log, remove=self._log.parent)
        try:
            yield child
            self._say("stopping the aggregator")
            if not child.terminate(STOP_SECONDS):
                raise AggregatorError(f"the aggregator did not stop:\n{child.log_tail()}")
            if child.exit_code:
                raise AggregatorError(
                    f"the aggregator ended with {child.exit_code}:\n{child.log_tail()}"
                )
        finally:
            if child.alive:
                child.kill()

    def status(self) -> dict[str, Any]:
        """What the aggregator says of itself; empty as long as it says nothing."""
        try:
            with build_opener(ProxyHandler({})).open(
                f"{self.url}/api/status", timeout=1.0
            ) as answer:
                return dict(json.load(answer))
        except (URLError, OSError, ValueError):
            return {}

    def _prepare(self) -> None:
        for name in ("broker", "spark"):
            jars(name, progress=self._say)
        folder = Path(tempfile.mkdtemp(prefix="aggregator-demo-"))
        self._exit.callback(shutil.rmtree, folder, ignore_errors=True)
        if self._wants_registry:
            self._say("starting a schema registry")
            self.registry = EmbeddedRegistry(unpack_registry(folder / "registry"), folder)
            self._exit.callback(self.registry.process.kill)
        self._say(f"starting {len(self.sources)} sources and a hub")
        for cluster in self.clusters.values():
            self._exit.callback(cluster.stop)
        start_clusters(list(self.clusters.values()))
        if self.registry is not None:
            self.registry.wait_ready()
        self._write_config(folder)
        for alias, partitions in self.sources.items():
            for topic in self.topics:
                servers = self.clusters[alias].bootstrap_servers
                create_topic(servers, topic, partitions=partitions)

    def _write_config(self, folder: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.config_file, self._log = folder / "aggregator.yaml", folder / "aggregator.log"
        servers = {name: cluster.bootstrap_servers for name, cluster in self.clusters.items()}
        topics = "|".join(self.topics)
        text = CONFIG.format(
            hub=servers["hub"],
            schemas=SCHEMAS.format(url=self.registry.url) if self.registry is not None else "",
            sources="".join(
                SOURCE.format(alias=alias, servers=servers[alias], topics=topics)
                for alias in self.sources
            ),
            partitions=HUB_PARTITIONS,
            state=folder / "state",
            port=port,
        )
        self.config_file.write_text(text, "utf-8")


def check_alive(child: GuardedProcess) -> None:
    """AggregatorError with the end of its log when the aggregator has ended."""
    if not child.alive:
        raise AggregatorError(
            f"the aggregator ended with {child.exit_code}; the end of its log:\n{child.log_tail()}"
        )
