"""Loopback ports that are free now and stay ours while a broker is restarted."""

import random
import socket
import threading

# Below the range from which Linux and macOS take ports for outgoing connections. A client which
# keeps knocking at a dead broker's port in that range ends up connected to itself one day, and the
# broker cannot come back.
LOWEST = 12_000
HIGHEST = 32_000

_lock = threading.Lock()
_given: set[int] = set()


def free_ports(count: int) -> list[int]:
    """Unused ports; never the same twice in one process.

    Another process may still take one before it is used: the caller starts again with others.
    """
    chosen: list[int] = []
    with _lock:
        while len(chosen) < count:
            port = random.randrange(LOWEST, HIGHEST)
            if port not in _given and _is_free(port):
                _given.add(port)
                chosen.append(port)
    return chosen


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
