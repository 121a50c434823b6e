"""What a test that starts clusters of its own gets from the fixture `cluster_factory`."""

from __future__ import annotations

from collections.abc import Callable

from aggregator.embedded.cluster import EmbeddedCluster

ClusterFactory = Callable[..., EmbeddedCluster]
