"""Queries clusters for ids, topics, partitions, offsets and rights, and applies changes."""

from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.all_clusters import by_partition, discover, each_cluster, hub_facts
from aggregator.kafka.admin.apply import apply
from aggregator.kafka.admin.client_errors import ClusterCallError
from aggregator.kafka.admin.offsets import PartitionOffsets
from aggregator.kafka.admin.pool import HUB, AdminPool, client_of, open_admin
from aggregator.kafka.admin.preflight import check_cluster
from aggregator.kafka.admin.rights import CheckResult

__all__ = [
    "HUB",
    "AdminPool",
    "CheckResult",
    "ClusterAdmin",
    "ClusterCallError",
    "PartitionOffsets",
    "apply",
    "by_partition",
    "check_cluster",
    "client_of",
    "discover",
    "each_cluster",
    "hub_facts",
    "open_admin",
]
