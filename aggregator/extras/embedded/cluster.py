"""Real Kafka clusters (KRaft) as child processes, to be killed, paused and restarted at will."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

from aggregator.datapath.jars import jars, java_command
from aggregator.extras.embedded.broker import Broker, PortTakenError
from aggregator.extras.embedded.broker_settings import (
    HERE,
    LOG4J,
    LOOPBACK,
    Hosts,
    NodePorts,
    Security,
    new_kafka_id,
    render_properties,
    server_settings,
)
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.storage import EmptyNodeFolder, format_homes, stored_cluster_id

ATTEMPTS = 3
NO_LISTENERS: Mapping[str, Mapping[str, str]] = MappingProxyType({})

JAVA_OPTIONS = (
    "-Xmx256m",
    "-Xshare:auto",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Djava.awt.headless=true",
)
"""Small and fast to start; a benchmark passes its own."""


class EmbeddedCluster:
    """A cluster of one or more brokers on loopback ports, gone when we are gone.

    A context manager: `with EmbeddedCluster("eu") as eu: ... eu.bootstrap_servers`. `config` holds
    broker settings that win over ours. `folder` keeps the data for a next start; without one a
    temporary folder is used and removed. `sasl_users` (name -> password) makes clients log in by
    SASL/PLAIN; `acls` then lets everyone but `super_users` do only what an ACL allows. `listeners`
    are more of them (see `Security`), at `address_of(name)`. `hosts` are other addresses than
    loopback for its clients. `version` is an older one of those in `aggregator.datapath.jars`, such
    as 3.9: formatted and run by its own jars. `cluster_id` is one that is given, as images have it.
    """

    def __init__(
        self,
        name: str,
        brokers: int = 1,
        *,
        config: Mapping[str, str] | None = None,
        folder: Path | None = None,
        sasl_users: Mapping[str, str] | None = None,
        super_users: Sequence[str] = (),
        acls: bool = False,
        listeners: Mapping[str, Mapping[str, str]] = NO_LISTENERS,
        java_options: Sequence[str] = JAVA_OPTIONS,
        hosts: Hosts = HERE,
        version: str = "",
        cluster_id: str = "",
    ) -> None:
        self.name = name
        self.size = brokers
        self.brokers: tuple[Broker, ...] = ()
        self.cluster_id = cluster_id
        self._config = dict(config or {})
        self._security = Security(dict(sasl_users or {}), tuple(super_users), acls, listeners)
        self._java_options = tuple(java_options)
        self._hosts = hosts
        self._jars = f"broker-{version}" if version else "broker"
        self._keep = folder
        self._folder: Path | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: host:port, comma-separated."""
        return ",".join(broker.address for broker in self.brokers)

    @property
    def admin_servers(self) -> str:
        """The brokers' own listener: no login, and all rights. For setting up, not for the test."""
        return ",".join(f"{LOOPBACK}:{broker.ports.internal}" for broker in self.brokers)

    def address_of(self, listener: str) -> str:
        """Where clients connect to one of `listeners`: host:port, comma-separated."""
        return ",".join(f"{LOOPBACK}:{it.ports.more[listener]}" for it in self.brokers)

    def client_config(self, user: str | None = None) -> dict[str, str]:
        """Settings for a librdkafka client; with `user`, those that log it in by SASL/PLAIN."""
        config = {"bootstrap.servers": self.bootstrap_servers}
        if user is not None:
            config |= {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": user,
                "sasl.password": self._security.users[user],
            }
        return config

    def start(self) -> EmbeddedCluster:
        """Start every broker and wait until all answer; `ClusterError` with the log when not.

        `JarsError` when the brokers' jars or a Java cannot be had. Does nothing when it runs.
        """
        if self.brokers:
            return self
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._start()
                return self
            except PortTakenError:
                self.stop()
                if attempt == ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
        raise AssertionError("unreachable")

    def stop(self) -> None:
        """End every broker and remove the temporary folder. Safe to call at any time, twice too.

        With a kept `folder` the brokers are stopped cleanly, otherwise at once.
        """
        started = [broker for broker in self.brokers if broker.alive]
        if self._keep is not None and started:
            # All at once: a quorum that shrinks one by one would make the last ones wait for it.
            with ThreadPoolExecutor(len(started)) as pool:
                list(pool.map(Broker.stop, started))
        else:
            for broker in started:
                broker.kill()
        self.brokers = ()
        if self._folder is not None and self._keep is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def replace(self) -> None:
        """Become another cluster at the same addresses: with another id, and without any data."""
        for broker in self.brokers:
            broker.kill()
        self.cluster_id = new_kafka_id()
        for broker in self.brokers:
            shutil.rmtree(broker.home / "data")
        self._format(self.brokers)
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait_ready(self.size)

    def __enter__(self) -> EmbeddedCluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        folder = self._keep or Path(tempfile.mkdtemp(prefix=f"kafka-{self.name}-"))
        self._folder = folder
        ports = [self._ports() for _ in range(self.size)]
        homes = [folder.absolute() / f"broker-{node}" for node in range(1, self.size + 1)]
        self.cluster_id = stored_cluster_id(homes[0]) or self.cluster_id or new_kafka_id()
        java = self._java()
        brokers = []
        for node, home in enumerate(homes, 1):
            home.mkdir(parents=True, exist_ok=True)
            settings = server_settings(
                node,
                ports,
                str(home / "data"),
                security=self._security,
                overrides=self._config,
                hosts=self._hosts,
            )
            properties = home / "server.properties"
            properties.write_text(render_properties(settings), "utf-8")
            (home / "log4j2.properties").write_text(LOG4J, "utf-8")
            log4j = f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}"
            # What it unpacks would stay where all temporary files are when it is killed.
            unpacked = f"-Djava.io.tmpdir={home}"
            command = [*java, log4j, unpacked, "kafka.Kafka", str(properties)]
            brokers.append(Broker(node, home, ports[node - 1], command, self._hosts.advertised))
        self._format([broker for broker in brokers if not stored_cluster_id(broker.home)])
        self.brokers = tuple(brokers)
        remove = folder if self._keep is None else None
        for broker in brokers:
            broker.launch(remove)
        for broker in brokers:
            broker.wait_ready(self.size)

    def _ports(self) -> NodePorts:
        client, internal, controller, *more = free_ports(3 + len(self._security.listeners))
        names = zip(self._security.listeners, more, strict=True)
        return NodePorts(client, internal, controller, dict(names))

    def _java(self) -> list[str]:
        class_path = os.pathsep.join(str(path) for path in jars(self._jars))
        return [java_command(), *self._java_options, "-cp", class_path]

    def _format(self, brokers: Sequence[Broker]) -> None:
        """Write the id of the cluster and of each node into empty data folders."""
        new = [EmptyNodeFolder(broker.node, broker.home) for broker in brokers]
        format_homes(self._java(), self.cluster_id, new)


def start_clusters(clusters: Sequence[EmbeddedCluster]) -> None:
    """Start several clusters at once; when one does not start, all are stopped and it is raised."""
    with ThreadPoolExecutor(max(1, len(clusters))) as pool:
        started = [pool.submit(cluster.start) for cluster in clusters]
    try:
        for future in started:
            future.result()
    except BaseException:
        for cluster in clusters:
            cluster.stop()
        raise
