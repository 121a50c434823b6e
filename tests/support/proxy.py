"""A proxy between clients and a broker: hands on bytes, keeps answers back, cuts connections.

So an answer can be lost whose request was carried out, which no kill or freeze of a broker does
for certain.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK = 65_536

Address = tuple[str, int]


class Proxy:
    """Listens at one address, and hands on to another what comes, until it is closed.

    `mute`: requests are handed on, their answers are not, not even later. `cut`: every connection
    ends, and each new one at once. `heal`: all is handed on again. What was kept back is lost: a
    connection that was mute for a moment is never good again, so `heal` ends those. Each part of
    an answer comes `answer_seconds` later.
    """

    def __init__(self, own: Address, target: Address, *, answer_seconds: float = 0.0) -> None:
        self._target = target
        self._answer_seconds = answer_seconds
        self._lock = threading.Lock()
        self._mute = threading.Event()
        self._refusing = threading.Event()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.create_server(own, backlog=128)
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def mute(self) -> None:
        """Hand on requests, and keep their answers."""
        self._mute.set()

    def cut(self) -> None:
        """End all connections, and every new one at once."""
        self._refusing.set()
        self._end_all()

    def heal(self) -> None:
        """Hand on all again, on connections that are new where answers were kept back."""
        if self._mute.is_set():
            self._end_all()
        self._mute.clear()
        self._refusing.clear()

    def close(self) -> None:
        """End all of it."""
        self._refusing.set()
        # Only this wakes up who waits for the next connection.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._end_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            if self._refusing.is_set():
                return
            try:
                broker = socket.create_connection(self._target)
            except OSError:
                return
            with broker, self._known(client, broker):
                for each in (client, broker):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answers = threading.Thread(target=self._answer, args=(broker, client), daemon=True)
                answers.start()
                with suppress(OSError):
                    self._hand_on(client, broker)
                _end(client, broker)
                answers.join()

    def _hand_on(self, client: socket.socket, broker: socket.socket) -> None:
        """Requests, until one of them ends."""
        _hand_on(client, broker)

    def _answer(self, broker: socket.socket, client: socket.socket) -> None:
        _hand_on(broker, client, self._mute, self._answer_seconds)
        _end(client, broker)

    @contextmanager
    def _known(self, client: socket.socket, broker: socket.socket) -> Iterator[None]:
        with self._lock:
            self._pairs.add((client, broker))
        try:
            if self._refusing.is_set():
                _end(client, broker)
            yield
        finally:
            with self._lock:
                self._pairs.discard((client, broker))

    def _end_all(self) -> None:
        with self._lock:
            for pair in self._pairs:
                _end(*pair)


def _hand_on(
    reader: socket.socket,
    writer: socket.socket,
    mute: threading.Event | None = None,
    seconds: float = 0.0,
) -> None:
    """Until one of them ends."""
    with suppress(OSError):
        while chunk := reader.recv(CHUNK):
            if seconds:
                time.sleep(seconds)
            if mute is None or not mute.is_set():
                writer.sendall(chunk)


def _end(*pair: socket.socket) -> None:
    for each in pair:
        # The other thread may have done so.
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
