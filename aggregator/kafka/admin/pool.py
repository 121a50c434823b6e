"""Keeps a client of each cluster from one call to the next, for callers that make several.

A new client costs a cluster two connections, each with its login, and us a few threads.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from aggregator.config.schema import ClusterConfig, Config
from aggregator.kafka.admin.admin import ClusterAdmin

HUB = "(hub)"
"""The hub's key in a Discovery; no source can have it as its alias."""


class AdminPool:
    """The clients of the clusters of one config that have answered, for any number of threads.

    Each is used by one thread at a time. A client that has failed is dropped: the next call opens
    its own connections and reports why it fails.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._kept: dict[str, ClusterAdmin] = {}
        self._closed = False

    def __enter__(self) -> AdminPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def use(self, alias: str) -> Iterator[ClusterAdmin]:
        """A client of a source, or of the hub (`HUB`). ClusterCallError when none can be made."""
        with self._lock:
            kept = self._kept.pop(alias, None)
        admin = kept or open_admin(self.config, alias)
        try:
            yield admin
        except BaseException:
            admin.close()
            raise
        with self._lock:
            keep = not self._closed and self._kept.setdefault(alias, admin) is admin
        if not keep:
            admin.close()

    def close(self) -> None:
        """Let all go. One that is in use goes when it has been used."""
        with self._lock:
            kept, self._kept, self._closed = self._kept, {}, True
        for admin in kept.values():
            admin.close()


def open_admin(config: Config, alias: str) -> ClusterAdmin:
    """A client for one source, or for the hub (`HUB`)."""
    cluster: ClusterConfig = config.hub if alias == HUB else config.sources[alias]
    return ClusterAdmin(alias, cluster, "hub" if alias == HUB else f"sources.{alias}")


def client_of(
    config: Config, alias: str, clients: AdminPool | None
) -> AbstractContextManager[ClusterAdmin]:
    """One of `clients` where there are some, else one that is closed with the block."""
    return open_admin(config, alias) if clients is None else clients.use(alias)
