"""How a lane reads: records as they come or, where a source has a limit, in batches of a second.

Real-time mode knows no limit (Spark 4.2.0): it takes what there is. A micro-batch takes so many
offsets of each source, and begins at a full second (ProcessingTimeExecutor). Spark counts offsets
and no bytes, so a limit in bytes is one in records of the source's mean size. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from aggregator.config.schema import Config
from aggregator.model import Lane, Route

LIMITED_BATCH_SECONDS = 1
ASSUMED_BYTES = 1_000.0
"""The size of a record of a source of which none could be read yet."""
STEADY = 0.25
"""A mean size that differs by less is taken for the same: a new limit restarts a lane."""
NEW_SHARE = 0.2
"""What a new sample counts in the running mean: some records are not all of them."""
BEHIND_SECONDS, CAUGHT_UP_SECONDS = 10, 5
"""At its limit for catching up: who needs longer than the first is behind, until the second."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The trigger of lanes without a limit, and source -> records per second where there is one."""

    trigger: str
    limits: Mapping[str, int] = field(default_factory=dict)

    def of(self, lane: Lane) -> Pace:
        """What of it concerns a lane: two that are equal make the same query."""
        own = {alias: self.limits[alias] for alias in self.limited(lane)}
        return Pace(self.trigger_of(lane), own)

    def trigger_of(self, lane: Lane) -> str:
        """The trigger of a lane: no real-time mode with a limited source."""
        slow = self.trigger == "realtime" and self.limited(lane)
        return "microbatch" if slow else self.trigger

    def limited(self, lane: Lane) -> list[str]:
        """The sources of a lane that have a limit, sorted."""
        return sorted(self.limits.keys() & set(lane.clusters))


def plan_pace(
    config: Config,
    trigger: str,
    sizes: Mapping[str, float] | None = None,
    behind: Collection[str] = (),
) -> Pace:
    """The smallest limit of each source, by all settings that limit it.

    `sizes` are mean bytes of a source's records, `behind` the sources that catch up. What is read
    once, to its end (`available-now`), knows no limit.
    """
    if trigger == "available-now":
        return Pace(trigger)
    limits = {
        alias: max(1, int(min(found)))
        for alias in config.sources
        if (found := list(_limits(config, alias, sizes or {}, behind)))
    }
    return Pace(trigger, limits)


def _limits(
    config: Config, alias: str, sizes: Mapping[str, float], behind: Collection[str]
) -> Iterator[float]:
    source, stream = config.sources[alias], config.stream
    size = max(1.0, sizes.get(alias, ASSUMED_BYTES))
    share = source.weight / sum(each.weight for each in config.sources.values())
    if source.max_records_per_second is not None:
        yield source.max_records_per_second
    if source.max_bytes_per_second is not None:
        yield source.max_bytes_per_second / size
    if stream.max_records_per_second is not None:
        yield stream.max_records_per_second * share
    if stream.max_bytes_per_second is not None:
        yield stream.max_bytes_per_second * share / size
    if source.catch_up_records_per_second is not None and alias in behind:
        yield source.catch_up_records_per_second


def weighed(config: Config) -> list[str]:
    """The sources whose limit depends on the size of their records."""
    if config.stream.max_bytes_per_second is not None:
        return list(config.sources)
    return [
        alias for alias, source in config.sources.items() if source.max_bytes_per_second is not None
    ]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Mean bytes of a source's records: the running means, and those that are gone by."""

    running: Mapping[str, float] = field(default_factory=dict)
    used: Mapping[str, float] = field(default_factory=dict)

    def sampled(self, found: Mapping[str, float]) -> Sizes:
        """After one more sample: what is gone by changes when the running mean has left it."""
        running = dict(self.running)
        for alias, size in found.items():
            before = running.get(alias, size)
            running[alias] = before + NEW_SHARE * (size - before)
        kept = {
            alias: size
            for alias, size in self.used.items()
            if abs(running[alias] - size) <= STEADY * size
        }
        return Sizes(running, {**running, **kept})


def is_held_back(config: Config, alias: str, backlog: int, *, held: bool) -> bool:
    """Whether a source with so many records to read is to keep to its limit for catching up.

    `held`: it does so now.
    """
    limit = config.sources[alias].catch_up_records_per_second
    seconds = CAUGHT_UP_SECONDS if held else BEHIND_SECONDS
    return limit is not None and backlog > seconds * limit


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


def pace_warnings(
    config: Config, lanes: Iterable[Lane], pace: Pace, sizes: Mapping[str, float]
) -> list[str]:
    """What is worth saying: sources that wait with a limited one, and a limit that is not kept."""
    if pace.trigger == "available-now":
        limited = plan_pace(config, "microbatch", sizes, behind=config.sources).limits
        return [f"{_settings(limited)}: no limit is kept with available-now"] if limited else []
    said = [
        f"{alias}: the size of its records is not known yet, {ASSUMED_BYTES:.0f} bytes are assumed "
        "for its limit in bytes"
        for alias in weighed(config)
        if alias not in sizes
    ]
    for lane in lanes:
        slow = pace.limited(lane)
        others = sorted(set(lane.clusters) - pace.limits.keys())
        if slow and others and pace.trigger == "realtime":
            said.append(
                f"lane {lane.name}: {', '.join(others)} is read in batches of a second, as "
                f"{', '.join(slow)} with its limit is, because they share the lane (see "
                "stream.lanes)"
            )
    return said


def _settings(limits: Mapping[str, int]) -> str:
    return ", ".join(f"{alias} ({limit:,} records/s)" for alias, limit in sorted(limits.items()))
