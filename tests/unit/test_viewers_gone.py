"""A viewer that takes nothing any more leaves its place to others."""

from __future__ import annotations

import socket
import threading

import pytest
from starlette.types import Receive, Scope, Send

from aggregator.api import followers, server
from aggregator.api.followers import Followers, Message
from aggregator.extras.embedded.waiting import wait_until
from support.serving import served

LARGE = "x" * 1_000_000


def test_a_viewer_that_takes_nothing_any_more_leaves_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one whose machine has vanished: what is sent to it is not acknowledged either."""
    monkeypatch.setattr(server, "GONE_SECONDS", 1.0)
    monkeypatch.setattr(followers, "POLL_SECONDS", 0.01)
    closed = threading.Event()
    viewers = Followers(1, lambda number: [Message(number + 1, "moment", LARGE)], closed.is_set)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await viewers.answer(0)(scope, receive, send)

    with served(app) as api, socket.create_connection((api.host, api.port), 30) as line:
        try:
            line.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            wait_until(lambda: viewers.count == 1, seconds=60, what="it follows")
            # All buffers between the two are full soon.
            wait_until(lambda: viewers.count == 0, seconds=60, what="its place is free")
        finally:
            closed.set()


def test_one_that_reads_now_and_then_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "GONE_SECONDS", 1.0)
    monkeypatch.setattr(followers, "PING_SECONDS", 0.1)
    closed = threading.Event()
    viewers = Followers(1, lambda _: [], closed.is_set)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await viewers.answer(0)(scope, receive, send)

    with served(app) as api, socket.create_connection((api.host, api.port), 30) as line:
        try:
            line.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            pings = b""
            # Pings come four times a second: this is longer than a second without any request.
            while pings.count(b": ping") < 10:
                got = line.recv(65536)
                assert got, "it was ended"
                pings += got
            assert viewers.count == 1
        finally:
            closed.set()
