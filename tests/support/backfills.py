"""A backfill to be decided about: [0, 100) of one partition."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from aggregator.features.backfill.ranges import Backfill, BackfillPart
from aggregator.model.values import LogId, SourcePartition

SP = SourcePartition("eu", "orders", 0)
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LOG = LogId("eu-id", "orders-id")


def backfill(**parts: Any) -> Backfill:
    """Nothing of it is read yet."""
    plain: dict[str, Any] = {
        "id": "b1",
        "cluster": "eu",
        "topic": "orders",
        "parts": (BackfillPart(SP, 0, 100, 0),),
        "ordered_at": NOW,
        "at": NOW,
        "log": LOG,
    }
    return Backfill(**{**plain, **parts})
