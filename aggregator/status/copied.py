"""Counts of what was sent, topic by topic, and the state of dedup."""

from pydantic import BaseModel, ConfigDict, Field


class Copied(BaseModel):
    """What was sent of one topic of a source since the start; bytes are of keys and values."""

    model_config = ConfigDict(frozen=True)

    topic: str
    records: int
    bytes: int
    dropped: int = Field(default=0, description="of the records: duplicates of events of the hub")
    without_id: int = Field(
        default=0, description="of the records: those that dedup found no event in"
    )


class DedupStatus(BaseModel):
    """A hub topic that has each event once: what is known of its events."""

    model_config = ConfigDict(frozen=True)

    hub_topic: str
    by: str
    ready: bool = Field(description="false while the events that the hub holds are being read")
    events: int = Field(description="events that are remembered, some of which may be too old")
    bytes: int = Field(description="memory that they take")
