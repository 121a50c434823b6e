"""Runs the REST app in a daemon thread, on a port that is taken before anything else starts.

The number of its connections is limited, and how long one may be idle: each is an open file of the
process that copies records, which needs files of its own.
"""

import asyncio
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from aggregator.config.api import TlsConfig
from aggregator.model.errors import AggregatorError, ConfigError, Problem

MOST_LINES = 256
GONE_SECONDS = 60.0
"""A connection whose other end takes nothing for this long is ended: one whose machine has vanished
would else have its place for a quarter of an hour."""
QUIET_SECONDS = 10.0
"""Within these a request has to have come whole, but for its body; before it, a TLS handshake."""


class Line(H11Protocol):
    """One connection. By h11, whatever else is installed: it takes 64 kB of headers and no more."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._seen: RequestResponseCycle | None = None
        self._look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, and look now and then whether it is used."""
        super().connection_made(transport)
        self._look = self.loop.call_later(QUIET_SECONDS, self._check)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _check(self) -> None:
        """End one on which no request has begun since the last look, and none is being answered."""
        asked: RequestResponseCycle | None = self.cycle
        if asked is self._seen and (asked is None or asked.response_complete):
            self.transport.abort()
            return
        self._seen = asked
        self._look = self.loop.call_later(QUIET_SECONDS, self._check)


class _Listening(socket.socket):
    """Takes MOST_LINES connections at most. It counts them itself: a `Line` gets one over TLS only
    after the handshake, which may never end.
    """

    def __init__(self, family: int, kind: int) -> None:
        super().__init__(family, kind)
        self._taken: WeakSet[socket.socket] = WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection. One too many is closed, and is ConnectionAbortedError: for asyncio
        it had gone before.
        """
        line, address = super().accept()
        if sum(it.fileno() >= 0 for it in self._taken) >= MOST_LINES:
            line.close()
            raise ConnectionAbortedError(f"there are {MOST_LINES} already")
        self._taken.add(line)
        return line, address


class ServingLoop(asyncio.SelectorEventLoop):
    """The loop that serves. It is asyncio's, whatever else is installed: uvloop would accept
    connections without asking `_Listening`.
    """

    async def create_server(self, *given: Any, **named: Any) -> asyncio.Server:
        """As asyncio's, which gives a handshake a minute: it is part of the wait for a request."""
        if named.get("ssl") is not None:
            named["ssl_handshake_timeout"] = QUIET_SECONDS
        return await super().create_server(*given, **named)


START_SECONDS = 10.0
STOP_SECONDS = 5.0
BACKLOG = 128
HEADER_BYTES = 65_536
"""So much of a request line and its headers is taken."""
TICK_SECONDS = 1.0
"""How often the time in the headers of answers changes."""


class ApiServer:
    """Serves an app on host:port. Port 0 takes a free one; `port` is that one.

    The port is taken when this is made: ConfigError when it cannot be had. `on_death` gets the
    reason when it has ended unasked; nothing else ends with it.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        tls: TlsConfig | None = None,
        *,
        on_death: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._on_death = on_death
        self._socket = _listen(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._scheme = "http" if tls is None else "https"
        settings = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            loop=f"{__name__}:{ServingLoop.__name__}",
            http=Line,
            ws="none",
            h11_max_incomplete_event_size=HEADER_BYTES,
            **_certificates(tls),
        )
        try:
            settings.load()
        except (OSError, ValueError) as error:
            self._socket.close()
            reason = f"the certificates cannot be used: {error}"
            hint = "PEM files of a certificate, its key without a password, and a CA"
            raise ConfigError([Problem("api.tls", reason, hint)]) from error
        self._server = _Server(settings)
        self._thread = threading.Thread(target=self._serve, name="api", daemon=True)

    @property
    def url(self) -> str:
        """Where it answers, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self._scheme}://{host}:{self.port}"

    def start(self) -> None:
        """Begin to serve; returns when requests are answered."""
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                raise AggregatorError(f"the API on {self.url} does not start; set api.listen: off")
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop serving and free the port; waits at most some seconds for running requests."""
        self._server.end()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)
        self._socket.close()

    def _serve(self) -> None:
        reason = "it has ended by itself"
        try:
            self._server.run(sockets=[self._socket])
        except Exception as error:  # a thread has no caller to raise to: it is passed on
            reason = f"{type(error).__name__}: {error}"
        if not self._server.should_exit:
            self._socket.close()
            self._on_death(reason)


class _Server(uvicorn.Server):
    """One that ends at once when asked; uvicorn itself polls for that ten times a second. So an
    idle one wakes only once a second.

    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._changed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        """Wait for the end; every tenth tick of uvicorn's sets the time, and so here each one."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), TICK_SECONDS)

    def end(self) -> None:
        """Have it end, from another thread."""
        self.should_exit = True
        if self._loop is not None:
            # It may just have ended by itself.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._changed.set)


def _certificates(tls: TlsConfig | None) -> dict[str, Any]:
    if tls is None:
        return {}
    asked = ssl.CERT_NONE if tls.client_ca is None else ssl.CERT_REQUIRED
    return {
        "ssl_certfile": tls.certificate,
        "ssl_keyfile": tls.key,
        "ssl_ca_certs": tls.client_ca,
        "ssl_cert_reqs": asked,
    }


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = _Listening(family, socket.SOCK_STREAM)
    try:
        # Else the port of an aggregator that has just ended could not be had for a minute.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":
            # Connections have it from here. Streams send something at least every 15 seconds.
            milliseconds = round(GONE_SECONDS * 1000)
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        reason = f"cannot listen on {host}:{port}: {error.strerror or error}"
        hint = "does it run already? choose another port, 0 for any free one, or 'off'"
        raise ConfigError([Problem("api.listen", reason, hint)]) from error
    return listening
