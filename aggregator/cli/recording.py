"""Stores history and events beside a run: what is logged is also kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aggregator.model.events import Event

if TYPE_CHECKING:
    from aggregator.engine.control.commands import Control
    from aggregator.features.timeline.recorder import Recorder
    from aggregator.status.schema import Status
    from aggregator.status.view import View

Log = Callable[..., None]


class Record:
    """Takes each event of a run, and its newest view."""

    def __init__(self, control: Control, log: Log, mask: Callable[[str], str]) -> None:
        from aggregator.datapath.connector.reports import bucket_bounds
        from aggregator.features.timeline.recorder import Recorder

        self.view: View | None = None
        self._log = log
        self.recorder: Recorder = Recorder(
            control.in_force, self._latest, mask, self._logged, bucket_bounds()
        )

    def take(self, event: Event) -> None:
        """Log an event, and keep it."""
        self._logged(event)
        self.recorder.take(event)

    def _latest(self) -> Status | None:
        from aggregator.status.assemble import status

        view = self.view
        return status(view) if view is not None else None

    def _logged(self, event: Event) -> None:
        self._log(event.kind, event.message, **event.fields)


@contextmanager
def recording(control: Control, log: Log, mask: Callable[[str], str]) -> Iterator[Record]:
    """What keeps history and events while the block runs; texts go through `mask`."""
    record = Record(control, log, mask)
    record.recorder.start()
    try:
        yield record
    finally:
        record.recorder.stop()
