"""History as REST and commands show it: figures by the minute, and events."""

from datetime import datetime

from pydantic import Field

from aggregator.status.schema import Document


class HistoryRow(Document):
    """A source, or one of its topics, or all sources, over a span of time that ended `at`.

    Counts are of that span; all else is as it was at its end. Unknown is null, never 0.
    """

    at: datetime
    seconds: float = Field(description="how long the span was")
    source: str = Field(description="blank: all sources together")
    topic: str | None = Field(default=None, description="null: all topics of the source")
    state: str = Field(description="of all sources together blank")
    records: int = Field(description="records sent to the hub")
    bytes: int = Field(description="bytes of their keys and values")
    lag: int | None = None
    lag_bytes: int | None = Field(
        default=None, description="an estimate: by the mean size of what was copied"
    )
    seconds_behind: float | None = None
    age_p50_ms: int | None = Field(
        default=None, description="from a record's timestamp to its acknowledgement by the hub"
    )
    age_p95_ms: int | None = None
    age_p99_ms: int | None = None
    flight_p50_ms: int | None = Field(
        default=None, description="from its fetch from the source to that acknowledgement"
    )
    flight_p95_ms: int | None = None
    flight_p99_ms: int | None = None


class HistoryReport(Document):
    """Rows in the order of time; `cut` says that older ones are left out, "" when none is."""

    name: str
    since: datetime
    until: datetime
    rows: tuple[HistoryRow, ...]
    cut: str = ""


class EventRow(Document):
    """One thing that happened. `id` grows with time, also over restarts."""

    id: int
    at: datetime
    kind: str
    level: str
    message: str
    source: str | None = None
    fields: dict[str, str | int] = Field(default_factory=dict)


class EventsReport(Document):
    """Events in the order of time; `failing` says why newer ones are not in the table."""

    name: str
    events: tuple[EventRow, ...]
    failing: str = ""
