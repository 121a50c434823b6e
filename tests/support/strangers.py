"""A server that speaks another protocol than the one it is asked by."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def speaking(answer: bytes) -> Iterator[int]:
    """The port of a server that answers the first one who sends it something with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def speak() -> None:
            line, _ = server.accept()
            with line:
                line.recv(65_536)
                line.sendall(answer)

        threading.Thread(target=speak, daemon=True).start()
        yield server.getsockname()[1]
