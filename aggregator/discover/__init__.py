"""A config goes in; its clusters as they are come out: ids, topics, partitions, offsets, rights."""

from aggregator.discover.admin import ClusterAdmin
from aggregator.discover.apply import apply
from aggregator.discover.check import check_cluster
from aggregator.discover.clients import HUB, AdminPool, client_of, open_admin
from aggregator.discover.discover import discover, hub_facts, selector
from aggregator.discover.errors import ClusterCallError
from aggregator.discover.offsets import PartitionOffsets
from aggregator.discover.rights import CheckResult

__all__ = [
    "HUB",
    "AdminPool",
    "CheckResult",
    "ClusterAdmin",
    "ClusterCallError",
    "PartitionOffsets",
    "apply",
    "check_cluster",
    "client_of",
    "discover",
    "hub_facts",
    "open_admin",
    "selector",
]
