"""Few may read topics over the API at once: each holds a thread, and what it has read."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.api.queries import LOOKS, Desk
from aggregator.config import load_text
from aggregator.engine.control.command_queue import NotReadyError
from aggregator.engine.control.commands import Control
from aggregator.features.quarantine.ledger import Filter
from support.rest import SETS


def test_what_was_dropped_is_read_by_few_at_once(tmp_path: Path) -> None:
    desk = Desk(Control(load_text("", [*SETS, f"checkpoint.path={tmp_path}"])))
    for _ in range(2):
        # The second time each place has been given back.
        with ExitStack() as places:
            for _ in range(LOOKS):
                places.enter_context(desk._looking())
            with pytest.raises(NotReadyError, match="try again in a moment"):
                desk.dropped(Filter(), datetime.now(UTC), retried=True, limit=1)
