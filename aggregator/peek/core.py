"""Records and topics as people see them: bytes as text, an origin in words. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from aggregator.model import OffsetRange, TopicPartition

MOST_BYTES = 2_000
"""So much of a key, value or header is shown."""
MOST_PARTITIONS = 64
"""So many partitions are read at most: those with the most records."""


def shown(content: bytes | None) -> str | None:
    """Bytes as text where they are text, else in hexadecimal; cut off after `MOST_BYTES`."""
    if content is None:
        return None
    cut = content[:MOST_BYTES]
    more = "…" if len(content) > MOST_BYTES else ""
    try:
        # Cut in the midst of a character it still is text.
        text = cut.decode() if not more else cut.decode(errors="ignore")
    except UnicodeDecodeError:
        return f"0x{cut.hex()}{more}"
    printable = all(it.isprintable() or it in "\n\r\t" for it in text)
    return f"{text}{more}" if printable else f"0x{cut.hex()}{more}"


def tails(
    logs: Mapping[TopicPartition, OffsetRange], records: int
) -> dict[TopicPartition, OffsetRange]:
    """Where to read for the newest `records` of a topic.

    Behind the last record there may be markers, so a little more than that is read. Where more
    offsets than that hold no record (compaction, an aborted transaction), fewer are found.
    """
    filled = [
        (log.latest - log.earliest, tp) for tp, log in logs.items() if log.latest > log.earliest
    ]
    most = sorted(filled, key=lambda it: (-it[0], it[1]))[:MOST_PARTITIONS]
    return {
        tp: OffsetRange(max(logs[tp].earliest, logs[tp].latest - records - 2), logs[tp].latest)
        for _, tp in most
    }
