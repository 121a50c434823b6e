"""A cluster whose clients reach each broker through a proxy that can lose answers."""

from __future__ import annotations

from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.settings import LOOPBACK, Hosts, NodePorts
from support.broker_classes import broker_options
from support.proxy import Proxy

PROXIES = "127.0.0.2"
"""Where the proxies are: at the brokers' own ports, so that a broker can say so before it has one.
"""


class ProxiedCluster(EmbeddedCluster):
    """Its clients are told the addresses of `proxies`, one for each broker. Linux only."""

    def __init__(self, name: str, brokers: int = 1, **options: object) -> None:
        self.proxies: list[Proxy] = []
        given = {"java_options": broker_options(), "hosts": Hosts(told=PROXIES), **options}
        super().__init__(name, brokers, **given)  # type: ignore[arg-type]

    def stop(self) -> None:
        """As any other cluster, and the proxies with it."""
        super().stop()
        while self.proxies:
            self.proxies.pop().close()

    def _ports(self) -> NodePorts:
        ports = super()._ports()
        self.proxies.append(Proxy((PROXIES, ports.client), (LOOPBACK, ports.client)))
        return ports
