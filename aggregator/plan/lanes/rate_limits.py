"""How fast sources may be read: limits in records and bytes per second, by all settings. Pure.

The readers keep them, each its share by the partitions that it has.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from aggregator.config.schema import Config
from aggregator.model.values import Route, SourcePartition

BEHIND_SECONDS, CAUGHT_UP_SECONDS = 10, 5
"""At its limit for catching up: who needs longer than the first is behind, until the second."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Records and bytes (of keys and values) per second; None for no limit."""

    records: float | None = None
    bytes_: float | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """The sources that have a limit, and which."""

    limits: Mapping[str, Limit] = field(default_factory=dict)


def plan_pace(config: Config, behind: Collection[str] = ()) -> Pace:
    """The smallest limit of each source, by all settings that limit it.

    `behind` are the sources that catch up.
    """
    limits = {alias: _limit(config, alias, alias in behind) for alias in config.sources}
    return Pace({alias: limit for alias, limit in limits.items() if limit != Limit()})


def _limit(config: Config, alias: str, behind: bool) -> Limit:
    source, stream = config.sources[alias], config.stream
    share = source.weight / sum(each.weight for each in config.sources.values())
    return Limit(
        _least(
            source.max_records_per_second,
            _part(stream.max_records_per_second, share),
            source.catch_up_records_per_second if behind else None,
        ),
        _least(source.max_bytes_per_second, _part(stream.max_bytes_per_second, share)),
    )


def _part(limit: float | None, share: float) -> float | None:
    return None if limit is None else max(1.0, limit * share)


def _least(*limits: float | None) -> float | None:
    found = [float(limit) for limit in limits if limit is not None]
    return min(found) if found else None


def rate_shares(
    pace: Pace, partitions: Collection[SourcePartition], of_all: Mapping[str, int]
) -> tuple[float | None, float | None]:
    """Records and bytes per second of one task, which has these partitions of one source.

    `of_all` says how many partitions of each source are read in all.
    """
    cluster = next(iter(partitions)).cluster
    limit = pace.limits.get(cluster, Limit())
    share = len(partitions) / max(len(partitions), of_all.get(cluster, 0))
    return (
        None if limit.records is None else limit.records * share,
        None if limit.bytes_ is None else limit.bytes_ * share,
    )


def is_held_back(config: Config, alias: str, backlog: int, *, held: bool) -> bool:
    """Whether a source with this backlog must keep to its catch-up limit.

    `held`: it does so now.
    """
    limit = config.sources[alias].catch_up_records_per_second
    seconds = CAUGHT_UP_SECONDS if held else BEHIND_SECONDS
    return limit is not None and backlog > seconds * limit


def partitions_of(routes: Iterable[Route]) -> dict[str, int]:
    """Source -> how many partitions of it are read in all."""
    found: dict[str, int] = {}
    for route in routes:
        found[route.cluster] = found.get(route.cluster, 0) + route.partitions
    return found
