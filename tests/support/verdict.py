"""Compares a hub topic with its sources, record by record: what is missing, twice, or altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from support.reading import Record, read_topic

EXAMPLES = 5

Place = tuple[str, int, int]
"""(source alias, partition, offset) of a source record."""


@dataclass
class Verdict:
    """What is wrong; all empty when nothing is. `missing` and so on name source records."""

    copied: int = 0
    missing: list[Place] = field(default_factory=list)
    duplicated: list[Place] = field(default_factory=list)
    out_of_order: list[Place] = field(default_factory=list)
    altered: list[tuple[Record, Record]] = field(default_factory=list)
    unexpected: list[Record] = field(default_factory=list)

    @property
    def problems(self) -> dict[str, object]:
        """Per kind of problem how many there are, and the first few."""
        kinds = ("missing", "duplicated", "out_of_order", "altered", "unexpected")
        found = {kind: getattr(self, kind) for kind in kinds}
        return {kind: (len(items), items[:EXAMPLES]) for kind, items in found.items() if items}


def judge(
    sources: Mapping[str, Sequence[Record]],
    hub: Sequence[Record],
    backfilled: Mapping[tuple[str, int], range] | None = None,
) -> Verdict:
    """Compare the records of one topic of each source (alias -> records) with the hub's.

    `hub` is in the order of each hub partition. A record is altered when its key, value, own
    headers or timestamp differ, or when its origin says a wrong time; a record without a timestamp
    (-1) has to say so in its origin only. One header says no time. `backfilled` says of a source
    partition (alias, number) which offsets came beside the live flow: the order of those and the
    order of the others are judged apart.
    """
    wanted = {
        (alias, record.partition, record.offset): record
        for alias, records in sources.items()
        for record in records
    }
    topics = {alias: {record.topic for record in records} for alias, records in sources.items()}
    verdict = Verdict()
    seen: set[Place] = set()
    newest: dict[tuple[str, int, int, bool], int] = {}
    for record in hub:
        origin = record.origin
        place = (origin.cluster, origin.partition, origin.offset)
        source = wanted.get(place)
        if source is None or origin.topic not in topics[origin.cluster]:
            verdict.unexpected.append(record)
            continue
        if place in seen:
            verdict.duplicated.append(place)
            continue
        seen.add(place)
        beside = (backfilled or {}).get((origin.cluster, origin.partition), range(0))
        flow = (origin.cluster, origin.partition, record.partition, origin.offset in beside)
        if origin.offset < newest.get(flow, -1):
            verdict.out_of_order.append(place)
        newest[flow] = max(origin.offset, newest.get(flow, -1))
        if not _same(source, record):
            verdict.altered.append((source, record))
    verdict.copied = len(seen)
    verdict.missing = sorted(wanted.keys() - seen)
    return verdict


def assert_copied(
    sources: Mapping[str, tuple[str, str]],
    hub: tuple[str, str],
    at_least: int = 1,
    backfilled: Mapping[tuple[str, int], range] | None = None,
) -> list[Record]:
    """Read source topics (alias -> bootstrap, topic) and a hub topic; both must hold the same.

    `backfilled` as in `judge`. Returns the hub's records, in the order of its partitions.
    """
    expected = {alias: read_topic(*where) for alias, where in sources.items()}
    found = read_topic(*hub)
    verdict = judge(expected, found, backfilled)
    assert not verdict.problems, verdict.problems
    assert verdict.copied >= at_least
    return found


def _same(source: Record, record: Record) -> bool:
    timestamp = source.timestamp if source.timestamp >= 0 else record.timestamp
    return (
        (record.key, record.value, record.own_headers, record.timestamp)
        == (source.key, source.value, source.headers, timestamp)
    ) and (record.form == "header" or record.origin.timestamp == source.timestamp)
