"""Asks an API as curl does, and plays the engine behind one."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from aggregator.engine.control.commands import Control
from aggregator.features.backfill.ranges import Backfill
from aggregator.features.positions.proposal import Proposal
from aggregator.model.errors import AggregatorError, RefusedError
from aggregator.model.values import Part
from aggregator.plan.plan import Plan
from support.reading import SECONDS

SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
    "supervision.connect_timeout=1s",
)
"""A config whose clusters no one asks, or that refuse it at once."""


def ask(
    method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """The code and the JSON of an answer, None for an empty one; a body is sent as JSON."""
    data = None if body is None else json.dumps(body).encode()
    sent = {} if body is None else {"content-type": "application/json"}
    request = Request(url, data, {**sent, **(headers or {})}, method=method)
    try:
        with urlopen(request, timeout=60) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


class Answered(NamedTuple):
    """How long an answer took, and how large it was."""

    seconds: float
    bytes: int


def quickest(
    url: str, within: float, before: Callable[[], object] = lambda: None, seconds: float = 60.0
) -> Answered:
    """The first answer to GET that came within `within` seconds, each asked after `before`.

    The machine may be busy, so it is asked again for a while; then it is the quickest of all.
    AssertionError unless each is 200.
    """
    found: list[Answered] = []
    end = time.monotonic() + seconds
    while not found or (min(found).seconds >= within and time.monotonic() < end):
        before()
        began = time.monotonic()
        with urlopen(url, timeout=60) as response:
            content = response.read()
            assert response.status == 200, url
        found.append(Answered(time.monotonic() - began, len(content)))
    return min(found)


class PlayedEngine:
    """Notes what it is asked to do, in a thread that plays the engine's."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.calls: list[str] = []
        self.failure: Exception | None = None
        self.ended: BaseException | None = None
        self._stop, self._open = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._open.wait(SECONDS)

    def stop(self) -> None:
        """End it."""
        self._stop.set()
        self._thread.join()

    def leave(self, aliases: Collection[str]) -> None:
        """As an `Actor` does; so are the others."""
        self.calls.append(f"leave {sorted(aliases)}")
        if self.failure is not None:
            raise self.failure

    def rest(self, part: Part) -> None:
        self.calls.append(f"rest {part}")

    def check_part(self, part: Part) -> None:
        if self.failure is not None:
            raise self.failure

    def request_discovery(self) -> None:
        self.calls.append("request discovery")

    def put(self, proposal: Proposal) -> int:
        self.calls.append("put")
        return 7

    def order_backfill(self, backfill: Backfill) -> Backfill:
        self.calls.append("order backfill")
        return backfill

    def cancel_backfill(self, name: str) -> Backfill:
        raise RefusedError([f"there is no backfill {name}"])

    def check(self, plan: Plan) -> None:
        self.calls.append("check")

    def publish(self) -> None:
        self.calls.append("publish")

    def _run(self) -> None:
        self.control.load()
        self.control.gate.open()
        self._open.set()
        try:
            while not self._stop.wait(0.01):
                self.control.gate.handle(self)
        except AggregatorError as error:
            self.ended = error
        self.control.gate.close()
