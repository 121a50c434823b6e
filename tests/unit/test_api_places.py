"""Few may read topics over the API at once, or follow an instance, or only be connected to it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.types import Message

from aggregator.api import server
from aggregator.api.followers import Followers
from aggregator.api.permissions import CallerError
from aggregator.api.queries import LOOKS, QueryService
from aggregator.config import load_text
from aggregator.engine.control.command_queue import NotReadyError
from aggregator.engine.control.commands import Control
from aggregator.features.quarantine.ledger import Filter
from support.rest import SETS


def test_what_was_dropped_is_read_by_few_at_once(tmp_path: Path) -> None:
    query_service = QueryService(Control(load_text("", [*SETS, f"checkpoint.path={tmp_path}"])))
    for _ in range(2):
        # The second time each place has been given back.
        with ExitStack() as places:
            for _ in range(LOOKS):
                places.enter_context(query_service._looking())
            with pytest.raises(NotReadyError, match="try again in a moment"):
                query_service.dropped(Filter(), datetime.now(UTC), retried=True, limit=1)


def test_of_two_that_come_at_once_one_gets_the_last_place() -> None:
    viewers = Followers(1, lambda _: [], lambda: False)

    async def come() -> None:
        gone = asyncio.Event()

        async def receive() -> Message:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            pass

        first = asyncio.create_task(viewers.answer(0)({"type": "http"}, receive, send))
        # It has begun, and nothing was sent yet.
        await asyncio.sleep(0)
        with pytest.raises(CallerError, match="1 follow it already"):
            viewers.answer(0)
        gone.set()
        await first

    asyncio.run(come())
    assert viewers.count == 0


def test_connections_are_counted_before_anything_is_said_on_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "MOST_LINES", 2)
    with ExitStack() as ends, server._listen("127.0.0.1", 0) as listening:

        def one() -> socket.socket:
            return ends.enter_context(socket.create_connection(listening.getsockname(), 30))

        callers = [one() for _ in range(3)]
        first, second = (ends.enter_context(listening.accept()[0]) for _ in range(2))
        with pytest.raises(ConnectionAbortedError):
            listening.accept()
        assert callers[2].recv(1) == b""
        first.close()
        one()
        third = ends.enter_context(listening.accept()[0])
        assert third.fileno() >= 0 and second.fileno() >= 0
