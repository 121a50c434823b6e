"""The table of audits, beside the checkpoints: a row per source partition and hub topic of each."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from aggregator.config.schema import Config
from aggregator.features.verify.audit_report import HubTopicResult, PartitionResult, VerifyReport
from aggregator.model.errors import CheckpointError
from aggregator.store.delta import NO_HOOKS
from aggregator.store.state_store import StateStore, is_tidy_due, quoted

TABLE = "audits"
PARTITION = "partition"
HUB_TOPIC = "hub_topic"
OF_WHAT = ("name", "kind", "cluster", "topic", "partition", "hub_topic")
"""What a row is about."""


def _from(first: str, model: type[BaseModel]) -> list[str]:
    names = [*model.model_fields]
    return names[names.index(first) :]


COUNTS = (*_from("expected", PartitionResult), *_from("no_origin", HubTopicResult))
"""The counts of a report are columns of the same names."""

SCHEMA = pa.schema(
    [
        ("audit", pa.string()),
        ("name", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("seconds", pa.float64()),
        ("commit", pa.int64()),
        ("exit_code", pa.int32()),
        ("kind", pa.string()),
        ("cluster", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("hub_topic", pa.string()),
        ("standing", pa.string()),
        ("reason", pa.string()),
        ("from_offset", pa.int64()),
        ("to_offset", pa.int64()),
        *((name, pa.int64()) for name in COUNTS),
    ]
)
"""`kind` is `partition` or `hub_topic`; what does not belong to a kind is null."""


def append_audit(store: StateStore, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append the rows of one audit in one commit; CheckpointError when they cannot be written.

    The table is made if there is none. Several may append at once: nothing is lost.
    """
    store.table(TABLE).append(pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA))


def is_trim_due(store: StateStore) -> bool:
    """Whether the writer that has just appended an audit must trim the table as well."""
    delta = store.table(TABLE).open()
    return delta is not None and is_tidy_due([int(delta.version())])


def trim_audits(store: StateStore, before: datetime) -> int | None:
    """Drop the rows of audits older than `before`, merge small files, cut the log.

    An audit that is the newest of any source partition or hub topic stays, as a whole. Returns how
    many rows were dropped; None when there is no table.
    """
    table = store.table(TABLE)
    delta = table.open()
    if delta is None:
        return None
    with table.translated("maintained"):
        rows = table.dataset(delta).to_table(columns=["audit", "at", *OF_WHAT])
        newest = pa.TableGroupBy(rows, list(OF_WHAT)).aggregate([("at", "max")])
        kept = rows.filter(pc.is_in(rows["at"], value_set=newest["at_max"].combine_chunks()))
        old = f"at < '{before.isoformat()}'"
        if kept.num_rows:
            ids = (quoted(audit) for audit in pc.unique(kept["audit"]).to_pylist())
            old += f" AND audit NOT IN ({', '.join(ids)})"
        done = delta.delete(old, post_commithook_properties=NO_HOOKS)
        table.make_few(delta)
    return int(done.get("num_deleted_rows") or 0)


def record(config: Config, report: VerifyReport) -> None:
    """Append a report to the audits beside the checkpoint; CheckpointError when it cannot."""
    store = StateStore.of(config.checkpoint)
    append_audit(store, rows_of(report))
    # The report is written. What fails here is done by a later one, or by `maintain`.
    with suppress(CheckpointError):
        if is_trim_due(store):
            before = datetime.now(UTC) - timedelta(seconds=config.timeline.keep)
            trim_audits(store, before)


def rows_of(report: VerifyReport) -> list[dict[str, Any]]:
    """A row per source partition and one per hub topic."""
    common = {
        "audit": report.audit,
        "name": report.name,
        "at": report.at,
        "seconds": report.seconds,
        "commit": report.commit,
        "exit_code": report.exit_code,
    }
    partitions = [{**common, "kind": PARTITION, **it.model_dump()} for it in report.partitions]
    hub_topics = [
        {
            **common,
            "kind": HUB_TOPIC,
            "hub_topic": it.topic,
            **it.model_dump(exclude={"topic", "offsets", "unread"}),
        }
        for it in report.hub_topics
    ]
    return [*partitions, *hub_topics]
