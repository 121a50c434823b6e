"""The ids of a cluster and of topics: they distinguish a topic from another of the same name."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.client_errors import MISSING, code_of
from aggregator.kafka.admin.parallel import MOST_TOPICS, in_parts
from aggregator.plan.identities import NO_IDS


@dataclass(frozen=True, slots=True)
class ClusterIds:
    """A cluster's id, and the ids of the topics that exist; "" is an id that is not reported.

    `partitions` is how many each topic has.
    """

    cluster_id: str
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)


def read_ids(
    admin: ClusterAdmin, topics: Collection[str], timeout: float, known: ClusterIds | None = None
) -> ClusterIds:
    """Ask for the ids. Raises ClusterCallError when the cluster does not answer.

    The cluster's own is asked for only where the topics' ids are not those that were `known`: ids
    of topics are unique, so the same ones are in the same cluster.
    """
    described: dict[str, Any] = {}
    for part in in_parts(sorted(topics), MOST_TOPICS):
        described |= admin.descriptions(part, timeout)
    ids, counts = {}, {}
    for name, found in described.items():
        if not isinstance(found, Exception):
            ids[name] = str(found.topic_id)
            counts[name] = len(found.partitions)
        elif code_of(found) not in MISSING:
            ids[name] = ""
    are_told = bool(ids) and not {*NO_IDS} & set(ids.values())
    if are_told and known is not None and ids == known.topic_ids:
        return ClusterIds(known.cluster_id, known.topic_ids, counts)
    return ClusterIds(str(admin.metadata(timeout).cluster_id), ids, counts)
