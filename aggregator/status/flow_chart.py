"""The flow from sources to hub topics, small enough to draw: what is many is grouped. Pure."""

from collections.abc import Iterable, Mapping

from aggregator.status.hub_topics import HubTopicOverview, hub_topics
from aggregator.status.lag import sum_known
from aggregator.status.schema import Document, PartitionState, SourceStatus, Status

MOST_SOURCES = 14
MOST_TOPICS = 14
"""More than these are drawn as one."""


class FlowLink(Document):
    """From a source into a hub topic; null is the group of the others."""

    source: str | None
    topic: str | None
    records_per_second: float | None
    lag: int | None
    partitions: int
    not_read: int = 0


class FlowChart(Document):
    """What is drawn, in order, and how many are in the group of the others."""

    sources: tuple[str, ...]
    other_sources: int
    topics: tuple[str, ...]
    other_topics: int
    links: tuple[FlowLink, ...]


def flow_chart(status: Status, earlier: Status | None, titles: Mapping[str, str]) -> FlowChart:
    """The chart of a status; rates since an `earlier` one.

    Sources that do not run come before busy ones, so that grouping hides none of them that few
    others are like.
    """
    topics = hub_topics(status, earlier, titles).topics
    own = _chosen(_by_need(status.sources), [it.alias for it in status.sources], MOST_SOURCES)
    by_records = sorted(topics, key=lambda it: (-it.records, it.topic))
    names = _chosen([it.topic for it in by_records], [it.topic for it in topics], MOST_TOPICS)
    return FlowChart(
        sources=own,
        other_sources=len(status.sources) - len(own),
        topics=names,
        other_topics=len(topics) - len(names),
        links=_links(topics, own, names),
    )


def _by_need(sources: Iterable[SourceStatus]) -> list[str]:
    """The ones that do not run first, then by what was copied of them."""
    ordered = sorted(sources, key=lambda it: (it.state.is_well, -it.records, it.alias))
    return [it.alias for it in ordered]


def _chosen(by_need: list[str], in_order: list[str], most: int) -> tuple[str, ...]:
    """At most that number, in order; one place less where the others need one."""
    if len(in_order) <= most:
        return tuple(in_order)
    wanted = set(by_need[: most - 1])
    return tuple(it for it in in_order if it in wanted)


def _links(
    topics: Iterable[HubTopicOverview], sources: tuple[str, ...], names: tuple[str, ...]
) -> tuple[FlowLink, ...]:
    found: dict[tuple[str | None, str | None], FlowLink] = {}
    for topic in topics:
        for side in topic.sources:
            source = side.source if side.source in sources else None
            key = (source, topic.topic if topic.topic in names else None)
            link = FlowLink(
                source=key[0],
                topic=key[1],
                records_per_second=side.records_per_second,
                lag=side.lag,
                partitions=side.partitions,
                not_read=side.partitions - side.states.get(PartitionState.RUNNING, 0),
            )
            found[key] = _added(found[key], link) if key in found else link
    return tuple(found.values())


def _added(one: FlowLink, other: FlowLink) -> FlowLink:
    rates = (one.records_per_second, other.records_per_second)
    return one.model_copy(
        update={
            "records_per_second": sum_known(rates),
            "lag": sum_known((one.lag, other.lag)),
            "partitions": one.partitions + other.partitions,
            "not_read": one.not_read + other.not_read,
        }
    )
