"""A report as rows of the table of audits."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from aggregator.config.schema import Config
from aggregator.features.verify.audit_report import VerifyReport
from aggregator.features.verify.audit_table import (
    HUB_TOPIC,
    PARTITION,
    append_audit,
    is_trim_due,
    trim_audits,
)
from aggregator.model.errors import CheckpointError
from aggregator.store.state_store import StateStore


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
