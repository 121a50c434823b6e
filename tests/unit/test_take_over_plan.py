"""A start plans by what is there once no one else writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.engine import application
from aggregator.store.lease.writer import Writer


@pytest.mark.parametrize(
    ("wish", "order"),
    [
        ({}, ["planned", "taken"]),
        ({"take_over": True}, ["planned", "taken", "planned"]),
        ({"take_over": True, "stood_by": True}, ["taken", "planned"]),
    ],
)
def test_a_take_over_plans_by_what_is_there_when_the_other_has_ended(
    monkeypatch: pytest.MonkeyPatch, wish: dict[str, bool], order: list[str]
) -> None:
    """Until then the other one may have copied a topic that was not there at the first plan.

    By that plan it would be gone: a gap, though nothing is lost.
    """
    done: list[str] = []

    def planned(*_: object) -> int:
        done.append("planned")
        return len(done)

    @contextmanager
    def taken(*_: object, **__: object) -> Iterator[str]:
        done.append("taken")
        yield "writer"

    monkeypatch.setattr(application, "start_driver", lambda *_: Future())
    monkeypatch.setattr(application, "_planned", planned)
    monkeypatch.setattr(Writer, "take", taken)
    control: Any = SimpleNamespace(config=None, read_again=lambda *_, **__: False)
    all_: Any = {"until_caught_up": False, "take_over": False, "fresh": False} | wish
    with ExitStack() as stack:
        found: Any = application._acquire(
            stack, control, threading.Event(), lambda _: None, application._RunOptions(**all_)
        )
    assert done == order
    # The last one counts.
    assert found[1] == len(order) - order[::-1].index("planned")
