"""Hub topics, and what each source contributes: the status, seen from the hub. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import Field

from aggregator.model.alike import made_of
from aggregator.status.lag import longest_behind, states_of, sum_known
from aggregator.status.schema import Document, PartitionStatus, Phase, Status
from aggregator.status.sizes import sizes_of, sum_sized


class HubTopicSide(Document):
    """What one source gives to a hub topic."""

    source: str
    title: str
    topic: str
    partitions: int
    states: dict[str, int]
    lag: int | None
    lag_bytes: int | None
    seconds_behind: float | None
    records: int
    bytes: int
    records_per_second: float | None


class HubTopicOverview(Document):
    """One hub topic, and all that goes into it; counts are since the start."""

    topic: str
    sources: tuple[HubTopicSide, ...]
    partitions: int = Field(description="source partitions")
    lag: int | None
    lag_bytes: int | None
    records: int
    bytes: int
    records_per_second: float | None
    complete_up_to: datetime | None = Field(
        default=None, description="all that its sources acknowledged up to then is there"
    )
    held_up: str = Field(default="", description="who holds that up, and why")


class HubTopics(Document):
    """All hub topics that something is copied to."""

    name: str
    phase: Phase
    at: datetime
    topics: tuple[HubTopicOverview, ...]


def hub_topics(status: Status, earlier: Status | None, titles: Mapping[str, str]) -> HubTopics:
    """All hub topics of a status by name; rates since an `earlier` one."""
    parts: dict[str, dict[tuple[str, str], list[PartitionStatus]]] = {}
    for part in status.partitions:
        of = parts.setdefault(part.hub_topic, {})
        of.setdefault((part.cluster, part.topic), []).append(part)
    size = sizes_of(status)
    now, before = _copied(status), {} if earlier is None else _copied(earlier)
    seconds = (status.at - earlier.at).total_seconds() if earlier is not None else 0.0
    found = []
    for name in sorted(parts):
        sides = []
        for (alias, topic), own in sorted(parts[name].items()):
            records, bytes_ = now.get((alias, topic), (0, 0))
            lag = sum_known(it.lag for it in own)
            old, _ = before.get((alias, topic), (0, 0))
            known = seconds > 0 and old <= records
            sides.append(
                HubTopicSide(
                    source=alias,
                    title=titles.get(alias, ""),
                    topic=topic,
                    partitions=len(own),
                    states=states_of(own),
                    lag=lag,
                    lag_bytes=size(alias, topic, lag),
                    seconds_behind=longest_behind(own),
                    records=records,
                    bytes=bytes_,
                    records_per_second=(records - old) / seconds if known else None,
                )
            )
        found.append(
            HubTopicOverview(
                topic=name,
                sources=tuple(sides),
                partitions=sum(it.partitions for it in sides),
                lag=sum_known(it.lag for it in sides),
                lag_bytes=sum_sized((it.lag, it.lag_bytes) for it in sides),
                records=sum(it.records for it in sides),
                bytes=sum(it.bytes for it in sides),
                records_per_second=sum_known(it.records_per_second for it in sides),
                **_complete(status, name),
            )
        )
    return made_of(HubTopics, status, topics=tuple(found))


def _complete(status: Status, name: str) -> dict[str, Any]:
    """Up to when a hub topic is complete, of all its sources together."""
    claims = status.completeness.topics if status.completeness is not None else ()
    found = next((it for it in claims if it.topic == name and it.source is None), None)
    if found is None:
        return {}
    words = found.laggard.words if found.laggard is not None else ""
    return {"complete_up_to": found.up_to, "held_up": words}


def _copied(status: Status) -> dict[tuple[str, str], tuple[int, int]]:
    """Source and topic -> records and bytes since the start."""
    return {(s.alias, it.topic): (it.records, it.bytes) for s in status.sources for it in s.copied}
