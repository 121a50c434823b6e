"""Whether hub records with an origin come from the log that exists there now. Pure.

An origin names an alias, not a log: another aggregation may use the same alias for another cluster,
and a topic may have been created again. So before found origins are believed, a few of the hub's
records are compared with the source's at the same offsets: by their timestamps, and by keys and
values where nothing changes them on the way. What the source does not hold any more proves nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from aggregator.model.values import LogId, Route, Skip, SourcePartition
from aggregator.plan.positions.start import Gap, GapKind

READS = 4_000
"""The most records requested of all sources, but at least two of each partition."""


class Print(NamedTuple):
    """A hub record: its timestamp at the source, None when unknown, and its content."""

    timestamp: int | None
    content: int
    hub_topic: str


class SourceRecord(NamedTuple):
    """What the source holds at an offset; without a timestamp it is below 0."""

    timestamp: int
    content: int


@dataclass(frozen=True, slots=True)
class HubSample:
    """What the hub holds by one offset: a record, or several that differ."""

    offset: int
    prints: tuple[Print, ...]


@dataclass(frozen=True, slots=True)
class SampleAnswers:
    """The sources' answers for the samples: records, log ends where there is none, or why not."""

    records: Mapping[SourcePartition, Mapping[int, SourceRecord]] = field(default_factory=dict)
    ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    silent: Mapping[SourcePartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judged:
    """Partitions whose records in the hub are not trusted: `foreign` are not theirs, and why. Of
    those in `silent` that is not known yet, as the source does not answer.
    """

    foreign: Mapping[SourcePartition, str] = field(default_factory=dict)
    silent: Mapping[SourcePartition, str] = field(default_factory=dict)

    @property
    def partitions(self) -> frozenset[SourcePartition]:
        """All of them."""
        return frozenset(self.foreign) | frozenset(self.silent)


def plan_samples(
    samples: Mapping[SourcePartition, Sequence[HubSample]],
) -> tuple[dict[SourcePartition, list[int]], int]:
    """Which offsets the sources are asked for, in their order, and how many answers are enough."""
    wanted = {}
    for sp, own in samples.items():
        offsets = sorted(sample.offset for sample in own)
        ends = dict.fromkeys([*offsets[:1], *offsets[-1:]])
        wanted[sp] = [*ends, *(at for at in offsets if at not in ends)]
    return wanted, max(2, READS // max(1, len(wanted)))


def judge_origins(
    samples: Mapping[SourcePartition, Sequence[HubSample]],
    sampled: SampleAnswers,
    starts: Mapping[SourcePartition, int],
    routes: Sequence[Route],
) -> Judged:
    """Compare what was found of each partition with what its source holds.

    `starts` are the positions beyond which it was found.
    """
    own_routes = {(route.cluster, route.topic): route for route in routes}
    foreign, silent = {}, {}
    for sp, own in samples.items():
        route = own_routes.get((sp.cluster, sp.topic))
        records = sampled.records.get(sp, {})
        if why := _unlike(own, records, "" if route is None else _plain_topic(route)):
            foreign[sp] = why
        elif sp in sampled.silent:
            silent[sp] = sampled.silent[sp]
        elif not records and sp in sampled.ends:
            end = sampled.ends[sp]
            first = min(sample.offset for sample in own)
            if starts[sp] <= end <= first:
                foreign[sp] = f"the log ends at {end}, and offset {first} there is beyond that"
    return Judged(foreign, silent)


def plan_foreign(
    judged: Judged,
    found: Mapping[SourcePartition, Skip],
    starts: Mapping[SourcePartition, int],
    routes: Sequence[Route],
    logs: Mapping[SourcePartition, LogId],
) -> tuple[Gap, ...]:
    """The finding about each partition of which the hub holds what is not its own."""
    topics = {(route.cluster, route.topic): route.hub_topic for route in routes}
    gaps = []
    for sp, why in sorted(judged.foreign.items()):
        ranges, log = found[sp].ranges, logs.get(sp, LogId())
        first, last = ranges[0][0], ranges[-1][1]
        count = sum(end - start for start, end in ranges)
        reason = (
            f"hub topic {topics.get((sp.cluster, sp.topic), '?')} holds {count} records with the "
            f"origin {sp} at {first} to {last - 1} that are not, or not all, of this log: {why}. "
            f"Another aggregation uses the alias {sp.cluster} for this hub topic, or the topic or "
            "its cluster was created again, or the log was cut off, unknown to the checkpoint. "
            "Nothing of it is taken for copied"
        )
        gaps.append(
            Gap(sp, GapKind.FOREIGN_ORIGIN, first, last, reason, starts[sp], None, log, log)
        )
    return tuple(gaps)


def _plain_topic(route: Route) -> str:
    """The hub topic in which keys and values are as they are at the source; "" for none."""
    return "" if route.transform or route.schemas == "translate" else route.hub_topic


def _unlike(samples: Sequence[HubSample], records: Mapping[int, SourceRecord], plain: str) -> str:
    """In what the hub's records differ from the source's, in words; "" where nothing shows it."""
    times: set[int] = set()
    content = ""
    for sample in samples:
        record = records.get(sample.offset)
        if record is None:
            continue
        for there in sample.prints:
            if there.timestamp is not None and record.timestamp >= 0:
                if there.timestamp != record.timestamp:
                    then, now = _moment(there.timestamp), _moment(record.timestamp)
                    return f"offset {sample.offset} is of {then} there and of {now} at the source"
                times.add(record.timestamp)
            if there.hub_topic == plain and there.content != record.content:
                content = f"offset {sample.offset} has another key or value there"
    # Timestamps that differ among each other and agree with the source's say more than a content
    # that an earlier transform may have changed.
    return content if len(times) < 2 else ""


def _moment(timestamp: int) -> str:
    if not 0 <= timestamp < 253_402_300_800_000:
        return f"timestamp {timestamp}"
    whole = datetime.fromtimestamp(timestamp // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{timestamp % 1000:03d}Z"
