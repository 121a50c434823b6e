"""Warns of records so old that the hub's retention would delete them soon after they arrive."""

from collections.abc import Iterable, Mapping

from aggregator.model.values import Route
from aggregator.plan.topics.hub_topics import HubTopic
from aggregator.plan.topics.source_configs import UNLIMITED, policies


def history_warnings(
    routes: Iterable[Route],
    hub_topics: Mapping[str, HubTopic],
    ages_ms: Mapping[tuple[str, str], int],
) -> tuple[str, ...]:
    """A warning per source topic whose oldest record is older than its hub topic's retention.

    `ages_ms` is (cluster, topic) -> age of its oldest record; one that is not in it is not judged.
    """
    warnings = []
    for route in routes:
        hub = hub_topics[route.hub_topic]
        age = ages_ms.get((route.cluster, route.topic))
        if age is None or "delete" not in policies(hub.cleanup_policy):
            continue
        if hub.retention_ms == UNLIMITED or age <= hub.retention_ms:
            continue
        warnings.append(
            f"{route.cluster}/{route.topic}: its oldest record is {duration(age)} old, hub topic "
            f"{hub.name} keeps {duration(hub.retention_ms)}: history older than that is deleted "
            "soon after it arrives; raise retention.ms of the hub topic"
        )
    return tuple(warnings)


def duration(ms: int) -> str:
    """A duration in its largest fitting unit: `7 days`, `90 minutes`, `500 ms`."""
    for name, unit in (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000)):
        if ms >= 2 * unit or (ms >= unit and ms % unit == 0):
            count = ms / unit
            return f"{count:.0f} {name if round(count) != 1 else name[:-1]}"
    return f"{ms / 1000:.0f} seconds" if ms >= 1000 else f"{ms} ms"
