"""The ids of a cluster and of topics: they distinguish a topic from another of the same name."""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import TopicDescription

from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.client_errors import MISSING, code_of
from aggregator.kafka.admin.parallel import MOST_TOPICS, in_parts

NO_ID = "A" * 22
"""The id that a broker without topic ids reports: sixteen zero bytes."""


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
    end = time.monotonic() + timeout
    described: dict[str, Any] = {}
    for part in in_parts(sorted(topics), MOST_TOPICS):
        end = time.monotonic() + timeout
        (asked,) = admin.by_controller(partial(_ask, admin, part), timeout, end)
        described |= admin.wait(asked, timeout, end)
    end = time.monotonic() + timeout
    ids, counts = {}, {}
    for name, found in described.items():
        if not isinstance(found, Exception):
            ids[name] = str(found.topic_id)
            counts[name] = len(found.partitions)
        elif code_of(found) not in MISSING:
            ids[name] = ""
    are_told = bool(ids) and not {"", NO_ID} & set(ids.values())
    if are_told and known is not None and ids == known.topic_ids:
        return ClusterIds(known.cluster_id, known.topic_ids, counts)
    left = max(0.01, end - time.monotonic())
    return ClusterIds(str(admin.metadata(left).cluster_id), ids, counts)


def _ask(
    admin: ClusterAdmin, topics: list[str], seconds: float
) -> tuple[Mapping[str, Future[TopicDescription]]]:
    return (admin.client.describe_topics(TopicCollection(topics), request_timeout=seconds),)
