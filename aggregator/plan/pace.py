"""How a lane reads: records as they come or, where a source has a limit, in batches of a second.

Real-time mode knows no limit (Spark 4.2.0): it takes what there is. A micro-batch takes so many
offsets of each source, and begins at a full second (ProcessingTimeExecutor). Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aggregator.model import Lane, Route

LIMITED_BATCH_SECONDS = 1


def lane_trigger(lane: Lane, trigger: str, limits: Mapping[str, int]) -> str:
    """The trigger of a lane: the configured one, but no real-time mode with a limited source."""
    return "microbatch" if trigger == "realtime" and limited(lane, limits) else trigger


def limited(lane: Lane, limits: Mapping[str, int]) -> list[str]:
    """The sources of a lane that have a limit, sorted."""
    return sorted(limits.keys() & set(lane.clusters))


def offsets_per_batch(limit: int, own: int, of_all: int) -> int:
    """How many offsets a batch of one reader may take: its share of the source's records/s.

    `own` are the partitions of that reader, `of_all` those of the source; several lanes may read
    it. At least one, or nothing would ever be read.
    """
    return max(1, limit * LIMITED_BATCH_SECONDS * own // max(own, of_all))


def partitions_of(routes: Iterable[Route]) -> dict[str, int]:
    """Source -> how many partitions of it are read in all."""
    found: dict[str, int] = {}
    for route in routes:
        found[route.cluster] = found.get(route.cluster, 0) + route.partitions
    return found


def pace_warnings(lanes: Iterable[Lane], trigger: str, limits: Mapping[str, int]) -> list[str]:
    """What is worth saying: sources that wait with a limited one, and a limit that is not kept."""
    if limits and trigger == "available-now":
        return ["max_records_per_second is not kept with stream.trigger = available-now"]
    said = []
    for lane in lanes:
        slow = limited(lane, limits)
        others = sorted(set(lane.clusters) - limits.keys())
        if slow and others and trigger == "realtime":
            said.append(
                f"lane {lane.name}: {', '.join(others)} is read in batches of a second, as "
                f"{', '.join(slow)} with its max_records_per_second is, because they share the "
                "lane (see stream.lanes)"
            )
    return said
