"""Finds the content of a quarantined record, and the partition that it goes to."""

from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.config.schema import Config
from aggregator.config.topics import PartitionBy
from aggregator.features.quarantine.reader import QuarantineReader
from aggregator.features.quarantine.records import (
    Origin,
    Quarantined,
    origin_headers,
    own_headers,
)
from aggregator.kafka.admin import HUB
from aggregator.model.errors import ClusterError
from aggregator.model.values import Header
from aggregator.plan.lanes.murmur2 import partition_for_key


@dataclass(frozen=True, slots=True)
class Content:
    """What is written to the hub topic: what the lane would have written."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    timestamp: int


def content_of(config: Config, reader: QuarantineReader, record: Quarantined) -> Content | str:
    """The record, from the quarantine topic if it is there whole, else from its source.

    Or why it is not available. Raises ClusterError when the hub does not answer.
    """
    place = reader.place
    raw = reader.read_one(HUB, place, record.at)
    if raw is None:
        return f"{place} no longer has offset {record.at}"
    if record.timestamp == 0:
        return "its timestamp is 0, which no plain client writes; set its position back instead"
    if record.whole:
        headers = [*own_headers(raw), *origin_headers(raw)]
        return Content(raw.key, raw.value, headers, record.timestamp)
    origin = record.origin
    alias = origin.partition.cluster
    if alias not in config.sources:
        return f"its content is at its source only, and the config has no source {alias}"
    if transform := config.topics.rules_for(record.hub_topic).transform:
        return f"its content is at its source only, and {transform} would have to be applied to it"
    try:
        found = reader.read_one(alias, origin.partition.topic_partition, origin.offset)
    except ClusterError as error:
        return str(error)
    if found is None:
        return "its source does not hold it any more"
    if record.timestamp >= 0 and found.at_ms != record.timestamp:
        return "its source holds another record there: the topic was created again"
    return Content(found.key, found.value, [*found.headers, *origin_headers(raw)], record.timestamp)


def has_event(by: str, content: Content) -> bool:
    """Whether dedup may find an event's id in a record, by its rule; without one it is written.

    Inside of a value nothing is looked for: only an empty one has certainly none.
    """
    kind, _, name = by.partition(":")
    if kind == "header":
        found = [value for own, value in content.headers if own == name]
        return bool(found and found[-1])
    return bool(content.key if kind == "key" else content.value)


def hub_partition(rule: PartitionBy, origin: Origin, key: bytes | None, count: int) -> int:
    """The partition of a hub topic with `count` partitions that a record goes to.

    As the lanes do it; a record without a key, which may go anywhere, always to the same.
    """
    cluster, _, partition = origin.partition
    match rule:
        case "key" if key is not None:
            return partition_for_key(key, count)
        case "round_robin":
            return (partition + origin.offset) % count
        case "cluster":
            return partition_for_key(cluster.encode(), count)
    return partition % count
