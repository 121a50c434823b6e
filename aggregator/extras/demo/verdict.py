"""Says what of the acknowledged records is in the hub: missing, duplicated, out of order. Pure.

It knows nothing of how the records were copied: it compares what the sources acknowledged with
what an independent reader found, by the origin headers that anybody can read.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.model.values import (
    ORIGIN_CLUSTER,
    ORIGIN_HEADER,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TOPIC,
    SourcePartition,
    parse_origin_text,
)

Headers = Sequence[tuple[str, bytes | None]]


class Found(NamedTuple):
    """A hub record: where it lies, and where it came from (None when it does not say)."""

    hub_topic: str
    hub_partition: int
    origin: tuple[SourcePartition, int] | None


class Flow(NamedTuple):
    """What is counted together: one topic of one source."""

    cluster: str
    topic: str


NOWHERE = "(no origin)"
"""The source name of hub records without readable origin headers."""


@dataclass(slots=True)
class Tally:
    """Counts of one flow. `found` counts each record once; `unexpected` was never acknowledged."""

    sent: int = 0
    found: int = 0
    missing: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    unexpected: int = 0

    @property
    def perfect(self) -> bool:
        """Whether each record is there once and in order, and nothing else is."""
        return not (self.missing or self.duplicated or self.out_of_order or self.unexpected)


def origin_of(headers: Headers | None) -> tuple[SourcePartition, int] | None:
    """Source partition and offset that origin headers name, five or one; the last are ours."""
    if headers and headers[-1][0] == ORIGIN_HEADER:
        return parse_origin_text((headers[-1][1] or b"").decode(errors="replace"))
    last = dict(headers or ())
    texts = [last.get(name) for name in (ORIGIN_CLUSTER, ORIGIN_TOPIC)]
    numbers = [last.get(name) for name in (ORIGIN_PARTITION, ORIGIN_OFFSET)]
    try:
        cluster, topic = (text.decode() for text in texts if text is not None)
        partition, offset = (int(number) for number in numbers if number is not None)
    except ValueError:
        return None
    return SourcePartition(cluster, topic, partition), offset


def tally(
    acknowledged: Mapping[SourcePartition, Collection[int]], records: Iterable[Found]
) -> dict[Flow, Tally]:
    """Compare the offsets that sources acknowledged with the hub's records.

    `records` come in the order of each hub partition. Out of order is a record that follows a later
    one of the same source partition in the same hub partition; a second copy of a record is a
    duplicate and not that as well.
    """
    flows: dict[Flow, Tally] = {}
    for partition, offsets in acknowledged.items():
        flow = flows.setdefault(Flow(partition.cluster, partition.topic), Tally())
        flow.sent += len(offsets)
    seen: dict[SourcePartition, set[int]] = {}
    newest: dict[tuple[SourcePartition, str, int], int] = {}
    for record in records:
        if record.origin is None:
            flows.setdefault(Flow(NOWHERE, record.hub_topic), Tally()).unexpected += 1
            continue
        partition, offset = record.origin
        flow = flows.setdefault(Flow(partition.cluster, partition.topic), Tally())
        before = seen.setdefault(partition, set())
        if offset in before:
            flow.duplicated += 1
            continue
        before.add(offset)
        if offset not in acknowledged.get(partition, ()):
            flow.unexpected += 1
            continue
        flow.found += 1
        place = (partition, record.hub_topic, record.hub_partition)
        if offset < newest.get(place, -1):
            flow.out_of_order += 1
        newest[place] = max(offset, newest.get(place, -1))
    for flow in flows.values():
        flow.missing = flow.sent - flow.found
    return flows


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that `share` (0 to 1) of the sorted values do not exceed; None without values."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
