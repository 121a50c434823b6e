"""The rules by which a record does not go to its hub topic: it is refused, or a duplicate. Pure."""

from dataclasses import dataclass, field
from enum import StrEnum


class PoisonReason(StrEnum):
    """Why a record does not go to its hub topic; of a schema its id follows."""

    NO_KEY = "no_key"
    TIMESTAMP = "timestamp"
    TOO_LARGE = "too_large"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class EventRule:
    """What identifies the events of a hub topic, each of which must come once.

    `by` is key, header:NAME or value:$.PATH; an event is remembered for `window_ms`. What is
    dropped goes to the hub topic `duplicates`; a record larger than `duplicate_bytes` not whole.
    """

    by: str
    window_ms: int
    duplicates: str
    # Not compared: a change of this alone is no reason to restart a lane.
    duplicate_bytes: int = field(default=0, compare=False)


ANY_ORIGIN = "*"
"""In `hub.known_as`: the hub is whatever cluster an origin names, so what bears one is left out."""
