"""Takes librdkafka's log lines off stderr, and keeps what they report of failures."""

from __future__ import annotations

import logging

log = logging.getLogger("aggregator.kafka")


class ClientLog:
    """Where librdkafka's own log lines go: our debug log, whatever their level.

    The last failure of a connection is kept: some causes, such as a broker that closes it, are
    reported in a log line only.
    """

    def __init__(self) -> None:
        self.failure = ""

    def log(self, level: int, message: str, *args: object) -> None:
        """Called by the client for each line."""
        del level
        log.debug(message, *args)
        text = message % args if args else message
        if text.startswith("FAIL "):
            self.failure = text.rpartition("]: ")[2]
