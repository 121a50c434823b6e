"""A cluster whose clients reach each broker through a proxy: answers can be lost, requests wait."""

from __future__ import annotations

import socket
import threading

from aggregator.extras.embedded.broker_settings import LOOPBACK, Hosts, NodePorts
from aggregator.extras.embedded.cluster import EmbeddedCluster
from support.broker_classes import broker_options
from support.proxy import Address, Proxy

PROXIES = "127.0.0.2"
"""Where the proxies are: at the brokers' own ports, so that a broker can say so before it has one.
"""


PRODUCE = 0
"""The key of the request (Kafka's protocol), in the two bytes behind the four of its size."""


class HoldingProxy(Proxy):
    """Lets some requests to write through, and then no other, until it is to `release` them.

    `produced` and `held` count those that it let through, and those that it kept.
    """

    def __init__(self, own: Address, target: Address) -> None:
        self.produced = self.held = 0
        self._allowed = -1
        self._count = threading.Lock()
        self._free = threading.Event()
        super().__init__(own, target)

    def hold_after(self, requests: int) -> None:
        """Keep each request to write that comes after the first `requests`."""
        self._allowed = requests

    def release(self) -> None:
        """Hand on what was kept, and all that follows."""
        self._free.set()

    def _hand_on(self, client: socket.socket, broker: socket.socket) -> None:
        if self._allowed < 0:
            super()._hand_on(client, broker)
            return
        stream = client.makefile("rb")
        while head := stream.read(6):
            rest = stream.read(int.from_bytes(head[:4], "big") - 2)
            if int.from_bytes(head[4:], "big") == PRODUCE:
                self._wait()
            broker.sendall(head + rest)

    def _wait(self) -> None:
        with self._count:
            passes = self._free.is_set() or self.produced < self._allowed
            self.produced += passes
            self.held += not passes
        if not passes:
            self._free.wait()


class ProxiedCluster(EmbeddedCluster):
    """Its clients get the addresses of `proxies`, one for each broker. Linux only."""

    def __init__(self, name: str, brokers: int = 1, **options: object) -> None:
        self.proxies: list[HoldingProxy] = []
        given = {"java_options": broker_options(), "hosts": Hosts(advertised=PROXIES), **options}
        super().__init__(name, brokers, **given)  # type: ignore[arg-type]

    def stop(self) -> None:
        """As any other cluster, and the proxies with it."""
        super().stop()
        while self.proxies:
            self.proxies.pop().close()

    def _ports(self) -> NodePorts:
        ports = super()._ports()
        self.proxies.append(HoldingProxy((PROXIES, ports.client), (LOOPBACK, ports.client)))
        return ports
