"""The counts of what was compared, as results of partitions and hub topics, with some examples."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, Row

from aggregator.features.verify.audit_report import Finding, HubTopicResult, PartitionResult
from aggregator.features.verify.audit_scope import Standing, Window
from aggregator.features.verify.compact_frames import Numbers
from aggregator.features.verify.findings import (
    ACCOUNTED,
    ALONE_THERE,
    BEFORE_THERE,
    DROPPED,
    EXPIRED,
    FOREIGN,
    MISSING,
    NO_SUCH_RECORD,
    NOT_BEGUN,
    PARTS,
    PRESENT,
    SUPERSEDED,
)
from aggregator.features.verify.hub_ranges import Job
from aggregator.model.alike import made_of

FOREIGN_KINDS = (*FOREIGN.values(), NO_SUCH_RECORD)
EXPECTED = (PRESENT, MISSING, EXPIRED, SUPERSEDED, ACCOUNTED)
ALTERED = " or ".join(PARTS)
PROBLEMS = {
    "missing": f"kind = '{MISSING}'",
    "twice": "twice",
    "altered": ALTERED,
    "out_of_order": "late",
    "foreign": f"kind in {FOREIGN_KINDS}",
}
"""Kind of finding -> its condition."""
FOREIGN_DETAILS = {
    "no_origin": "has no origin",
    "unknown_source": "its origin is no partition of this config",
    "other_topic": "its origin belongs to another hub topic",
    "no_such_record": "its origin has no such record, or none that is copied",
}
Pairs = Mapping[tuple[str, str, str], bool | None]


def unreadable(windows: Sequence[Window], why: Mapping[str, str]) -> tuple[PartitionResult, ...]:
    """Results for hub topics (`why` is by their names) of which a record cannot be read."""
    return tuple(
        made_of(
            PartitionResult,
            it.partition,
            it,
            standing=Standing.UNREADABLE,
            reason=why[it.hub_topic],
            from_offset=it.read.earliest,
            to_offset=it.read.latest,
        )
        for it in windows
    )


def pair_of(row: Row, numbers: Numbers) -> tuple[str, str, str]:
    """A source, and the schema ids that one row of the counts has there and at the hub."""
    alias = numbers.windows[row["sid"]].partition.cluster
    return alias, row["theirs"], row["ours"] or ""


def partitions_of(
    numbers: Numbers, counts: Sequence[Row], same: Pairs
) -> tuple[PartitionResult, ...]:
    """The result of each source partition; `same` is known of all pairs of schema ids."""
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in counts:
        if row["sid"] in range(len(numbers.windows)):
            window = numbers.windows[row["sid"]]
            is_same = same[pair_of(row, numbers)] if row["theirs"] is not None else True
            for name, count in _sums(row, window, is_same).items():
                found[row["sid"]][name] += count
    results = []
    for sid, window in enumerate(numbers.windows):
        sums = found[sid]
        results.append(
            PartitionResult(
                **window.partition._asdict(),
                hub_topic=window.hub_topic,
                standing=window.standing,
                reason=window.reason,
                from_offset=window.read.earliest,
                to_offset=window.read.latest,
                expected=sum(sums[kind] for kind in EXPECTED),
                ahead=window.ahead,
                **sums,
            )
        )
    return tuple(results)


def _sums(row: Row, window: Window, same_ids: bool | None) -> dict[str, int]:
    """What one row of the counts adds to the result of its source partition."""
    origins, records, kind = row["origins"], row["records"], row["kind"]
    parts = {part: bool(row[part]) for part in PARTS} | {"schema": same_ids is False}
    forgotten = kind == BEFORE_THERE or (kind == ALONE_THERE and not row["excused"])
    transformed = window.loose and kind in (PRESENT, DROPPED)
    return {
        **{name: origins if kind == name else 0 for name in (*EXPECTED, NOT_BEGUN)},
        "foreign": records if kind == NO_SUCH_RECORD else 0,
        "twice": records - origins if row["twice"] else 0,
        "out_of_order": origins if row["late"] else 0,
        "altered": origins if any(parts.values()) else 0,
        **{f"altered_{part}": origins if differs else 0 for part, differs in parts.items()},
        "transformed": origins if transformed else 0,
        "forgotten": origins if forgotten else 0,
        "excused": origins if row["excused"] else 0,
        "schemas_unknown": origins if same_ids is None else 0,
    }


def hub_topics_of(
    job: Job, numbers: Numbers, counts: Sequence[Row], unread: Mapping[str, int]
) -> tuple[HubTopicResult, ...]:
    """The result of each hub topic; `unread` counts the offsets that were not read."""
    found: dict[str, dict[str, int]] = {topic: defaultdict(int) for topic in numbers.tids}
    for tp, log in job.hub.items():
        found[tp.topic]["offsets"] += log.latest - log.earliest
    for row in counts:
        if row["kind"] in FOREIGN_KINDS:
            sid = row["sid"]
            own = numbers.windows[sid].hub_topic if sid >= 0 else numbers.hub[-1 - sid][0].topic
            found[own][row["kind"]] += row["records"]
    return tuple(
        HubTopicResult(topic=topic, unread=unread.get(topic, 0), **sums)
        for topic, sums in found.items()
    )


def examples_of(
    found: DataFrame, numbers: Numbers, counts: Sequence[Row], most: int
) -> tuple[Finding, ...]:
    """The first few of each kind, by source partition and offset."""
    kinds = [kind for kind in PROBLEMS if most and any(_is(kind, row) for row in counts)]
    return tuple(
        _finding(kind, row, numbers)
        for kind in kinds
        for row in found.filter(PROBLEMS[kind]).orderBy("sid", "at").limit(most).collect()
    )


def examples_of_ids(rows: Sequence[Row], numbers: Numbers, same: Pairs) -> list[Finding]:
    """One of each pair of schema ids that do not mean the same."""
    found = []
    for row in sorted(rows, key=lambda row: (row["sid"], row["first"] or 0)):
        if row["theirs"] is None or same[pair_of(row, numbers)] is not False:
            continue
        tp, offset = numbers.place(row["first"])
        found.append(
            Finding(
                kind="altered",
                detail=f"schema {row['theirs']} of the source is {row['ours']} at the hub, in "
                f"{row['origins']} records (hex of key/value)",
                **numbers.windows[row["sid"]].partition._asdict(),
                offset=row["opening"],
                hub_topic=tp.topic,
                hub_partition=tp.partition,
                hub_offset=offset,
            )
        )
    return found


def _is(kind: str, row: Row) -> bool:
    """Whether `PROBLEMS` would let a row pass."""
    match kind:
        case "twice":
            return bool(row["twice"])
        case "altered":
            return any(row[part] for part in PARTS)
        case "out_of_order":
            return bool(row["late"])
        case "foreign":
            return bool(row["kind"] in FOREIGN_KINDS)
    return bool(row["kind"] == MISSING)


def _finding(kind: str, row: Row, numbers: Numbers) -> Finding:
    place: dict[str, str | int] = {}
    if row["first"] is not None:
        tp, offset = numbers.place(row["first"])
        place = {"hub_topic": tp.topic, "hub_partition": tp.partition, "hub_offset": offset}
    origin: dict[str, str | int] = {}
    if row["sid"] >= 0:
        window = numbers.windows[row["sid"]]
        origin = {**window.partition._asdict(), "offset": row["at"]}
        place = place or {"hub_topic": window.hub_topic}
    return Finding(kind=kind, detail=_detail(kind, row, numbers), **origin, **place)


def _detail(kind: str, row: Row, numbers: Numbers) -> str:
    match kind:
        case "foreign":
            return FOREIGN_DETAILS[row["kind"]]
        case "twice":
            tp, offset = numbers.place(row["last"])
            return f"{row['records']} times, the last at {tp} offset {offset}"
        case "altered":
            return ", ".join(part for part in PARTS if row[part])
        case "out_of_order":
            return "behind a record of a higher offset"
    return ""
