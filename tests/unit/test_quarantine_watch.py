"""The watch of the quarantine topic: what its end waits for. Brokers show what it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from aggregator.features.quarantine import follower as watch_module
from aggregator.features.quarantine.follower import QuarantineWatch
from aggregator.kafka.admin import ClusterAdmin
from aggregator.model.values import OffsetRange
from support.flow_world import config_of

ADMIN = cast("ClusterAdmin", None)
End = Callable[[OffsetRange | None, OffsetRange | None], str]


@pytest.fixture
def end(monkeypatch: pytest.MonkeyPatch) -> Iterator[End]:
    """Starts and stops a watch of a topic whose log is so at its start and at its end."""
    monkeypatch.setattr(QuarantineWatch, "_follow", lambda self: self._loop.over.wait(60))
    monkeypatch.setattr(watch_module, "STOP_SECONDS", 0.3)

    def run(first: OffsetRange | None, last: OffsetRange | None) -> str:
        logs = iter((first, last))
        monkeypatch.setattr(watch_module, "log_of", lambda *_: next(logs))
        watch = QuarantineWatch(config_of(), lambda _: None, ADMIN)
        watch.start()
        watch.stop()
        return watch.status().error

    yield run


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (None, None),
        (None, OffsetRange(0, 0)),
        (OffsetRange(3, 7), OffsetRange(3, 7)),
        (None, OffsetRange(5, 5)),
    ],
)
def test_where_nothing_came_nothing_is_waited_for(
    end: End, first: OffsetRange | None, last: OffsetRange | None
) -> None:
    assert end(first, last) == ""


@pytest.mark.parametrize("first", [None, OffsetRange(0, 4)])
def test_what_came_and_was_not_counted_in_time_is_reported(
    end: End, first: OffsetRange | None
) -> None:
    assert "not all of central.quarantine" in end(first, OffsetRange(0, 5))
