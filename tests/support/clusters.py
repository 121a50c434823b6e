"""What a test that starts clusters of its own gets from the fixture `cluster_factory`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aggregator.extras.embedded.cluster import EmbeddedCluster
from support.broker_classes import broker_options

ClusterFactory = Callable[..., EmbeddedCluster]


@contextmanager
def factory() -> Iterator[ClusterFactory]:
    """Starts clusters that are stopped at the end of the block."""
    started: list[EmbeddedCluster] = []

    def make(name: str, brokers: int = 1, **options: object) -> EmbeddedCluster:
        own = {"java_options": broker_options(), **options}
        cluster = EmbeddedCluster(name, brokers, **own)  # type: ignore[arg-type]
        started.append(cluster)
        return cluster.start()

    try:
        yield make
    finally:
        for cluster in started:
            cluster.stop()
