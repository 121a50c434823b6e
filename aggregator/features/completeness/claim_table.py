"""The table `completeness` beside the checkpoints: what was claimed, a row whenever it changed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.dataset import Dataset, Expression

from aggregator.plan.completeness.claims import Claim, Laggard, Lost, standing
from aggregator.store.checkpoint.rows import to_millis
from aggregator.store.delta import latest
from aggregator.store.row_model import INT32, RowModel
from aggregator.store.state_store import StateStore

TABLE = "completeness"


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim; `source` is null for all together, and `topics` are its own, as JSON.

    One with a source and no `topic` is of each hub topic that the source may feed and does not.
    """

    at: datetime
    source: str | None = None
    topic: str = ""
    up_to: datetime | None = None
    lost: int = 0
    gaps: int = 0
    laggard_source: str | None = None
    laggard_topic: str | None = None
    laggard_partition: Annotated[int | None, INT32] = None
    why: str | None = None
    reason: str | None = None
    topics: Annotated[tuple[str, ...], pa.string()] = ()
    cluster_id: str = ""
    hub_cluster_id: str = ""


SCHEMA = RowModel(ClaimRow).schema
RECENT = timedelta(minutes=65)
"""Within an hour the keeper writes each claim that counts at least once."""
MOST_ROWS = 500_000


class CompletenessTable:
    """The log of claims; what cannot be read or written is a CheckpointError.

    After a power loss, which may cost the last rows, a claim starts a little lower.
    """

    def __init__(self, store: StateStore) -> None:
        self._log = store.log(TABLE, ClaimRow, durable=False)

    def append(self, claims: Sequence[Claim], at_ms: int) -> None:
        """Append a row for each claim in one commit; the table is made if there is none."""
        if claims:
            self._log.table.append(rows_of(claims, at_ms))

    def newest(self, topic: str | None = None) -> tuple[Claim, ...]:
        """The newest claim of each source, and of all together; of this hub topic, or of all.

        And those without a hub topic.
        """
        newest: dict[tuple[str | None, str], Claim] = {}
        for claim in map(claim_of, self._last_rows(topic)):
            before = newest.get((claim.source, claim.topic))
            newest[claim.source, claim.topic] = merged(before, claim)
        return tuple(standing(newest.values()))

    def _last_rows(self, topic: str | None) -> list[ClaimRow]:
        """The rows by which the newest claims are known, in the order of time."""
        table = self._log.table
        delta = table.open(may_be_begun=True)
        if delta is None:
            return []
        wanted = pc.scalar(True) if topic is None else pc.field("topic").isin([topic, ""])
        with table.translated("read"):
            dataset, last, found = table.dataset(delta), latest(delta, "at"), SCHEMA.empty_table()
            if last is not None:
                found = _read(dataset, wanted & (pc.field("at") >= last - RECENT))
            if not found.num_rows or topic not in (None, *found["topic"].to_pylist()):
                found = _read(dataset, wanted)
            return [self._log.model.item(row) for row in found.to_pylist()]

    def claims(self, begin: datetime, end: datetime) -> tuple[tuple[datetime, Claim], ...]:
        """What was written down in [begin, end), and when, in the order of time."""
        wanted = (pc.field("at") >= begin) & (pc.field("at") < end)
        return tuple((row.at, claim_of(row)) for row in self._log.select(wanted))

    def maintain(self, before: datetime) -> int:
        """Drop rows older than `before`, merge small files, cut the log; returns rows dropped."""
        return self._log.table.trim(before)


def _read(dataset: Dataset, wanted: Expression) -> pa.Table:
    """The rows that count of those that are wanted; read in parts, as there may be millions."""
    parts = [SCHEMA.empty_table()]
    for batch in dataset.to_batches(filter=wanted):
        parts.append(pa.Table.from_batches([batch]))
        if sum(it.num_rows for it in parts[1:]) > MOST_ROWS:
            parts = [what_counts(_together(parts))]
    return what_counts(_together(parts))


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(parts, promote_options="default").sort_by("at").combine_chunks()


def what_counts(rows: pa.Table) -> pa.Table:
    """Of rows in the order of time the last of each claim, and those that it may be merged with.

    Others are of the same scope as the last one, and do not claim more.
    """
    if not rows.num_rows:
        return rows
    own = [pc.fill_null(rows[it].combine_chunks(), "") for it in ("source", "topic")]
    key = pc.binary_join_element_wise(*own, "\n").dictionary_encode().indices
    number = pa.array(range(rows.num_rows), pa.int64())
    last = pa.table({"key": key, "number": number}).group_by("key").aggregate([("number", "max")])
    last_of = last.sort_by("key")["number_max"].combine_chunks().take(key)
    adds_nothing = pc.is_null(rows["source"].combine_chunks())
    same = None
    for name in ("topics", "cluster_id", "hub_cluster_id"):
        column = pc.fill_null(rows[name].combine_chunks(), "")
        alike = pc.equal(column, column.take(last_of))
        same = alike if same is None else pc.and_(same, alike)
    up_to = pc.fill_null(rows["up_to"].combine_chunks().cast(pa.int64()), -1)
    no_more = pc.less_equal(up_to, up_to.take(last_of))
    adds_nothing = pc.or_(adds_nothing, pc.and_(same, no_more))
    return rows.filter(pc.or_(pc.equal(number, last_of), pc.invert(adds_nothing)))


def merged(before: Claim | None, claim: Claim) -> Claim:
    """The newer one, which an instance that was replaced may have written with less in it."""
    if before is None or before.source is None or before.up_to_ms is None:
        return claim
    if not before.covers(claim.topics, claim.cluster_id, claim.hub_id):
        return claim
    if claim.up_to_ms is not None and claim.up_to_ms >= before.up_to_ms:
        return claim
    if before.topics != claim.topics:
        return claim
    return replace(claim, up_to_ms=before.up_to_ms)


def rows_of(claims: Sequence[Claim], at_ms: int) -> pa.Table:
    """A row of each claim, made by columns: there are thousands, again and again."""
    laggards = [it.laggard for it in claims]
    named: dict[tuple[str, ...], str] = {}
    columns: dict[str, Sequence[Any]] = {
        "at": [at_ms * 1_000] * len(claims),
        "source": [it.source for it in claims],
        "topic": [it.topic for it in claims],
        "up_to": [None if it.up_to_ms is None else it.up_to_ms * 1_000 for it in claims],
        "lost": [it.lost.offsets for it in claims],
        "gaps": [it.lost.gaps for it in claims],
        "laggard_source": [it and it.source for it in laggards],
        "laggard_topic": [it and it.topic for it in laggards],
        "laggard_partition": [it and it.partition for it in laggards],
        "why": [it and it.why for it in laggards],
        "reason": [it and it.reason for it in laggards],
        "topics": [_as_json(it.topics, named) for it in claims],
        "cluster_id": [it.cluster_id for it in claims],
        "hub_cluster_id": [it.hub_id for it in claims],
    }
    return pa.table(columns, schema=SCHEMA)


def _as_json(topics: tuple[str, ...], known: dict[tuple[str, ...], str]) -> str:
    if (found := known.get(topics)) is None:
        found = known[topics] = json.dumps(topics, ensure_ascii=False)
    return found


def claim_of(row: ClaimRow) -> Claim:
    """The claim that a row holds."""
    laggard = None
    if row.why:
        laggard = Laggard(
            source=row.laggard_source or "",
            why=row.why,
            reason=row.reason or "",
            topic=row.laggard_topic or "",
            partition=row.laggard_partition,
        )
    return Claim(
        source=row.source,
        topic=row.topic,
        up_to_ms=None if row.up_to is None else to_millis(row.up_to),
        laggard=laggard,
        lost=Lost(row.lost, row.gaps),
        topics=row.topics,
        cluster_id=row.cluster_id,
        hub_id=row.hub_cluster_id,
    )
