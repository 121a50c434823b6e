"""Live figures as REST shows them: of now, and of the last minutes by the second."""

from datetime import datetime

from pydantic import Field

from aggregator.model.values import SourceState
from aggregator.status.schema import Document, Latency, Phase


class LiveFigures(Document):
    """Of a source, or of all together, as they are now. Unknown is null, never 0."""

    records_per_second: float | None = None
    bytes_per_second: float | None = None
    lag: int | None = None
    seconds_behind: float | None = None
    seconds_behind_at_least: bool = False
    latency: Latency = Field(
        default=Latency(), description="of a source over a minute; of all together as the rates are"
    )


class LiveSource(LiveFigures):
    """One source."""

    alias: str
    state: SourceState


class LiveFlow(Document):
    """What one source sends to one hub topic."""

    source: str
    topic: str
    records_per_second: float
    bytes_per_second: float


class LiveMoment(Document):
    """All sources at one moment. `number` grows by one with each moment of a run."""

    number: int
    at: datetime
    phase: Phase
    rate_seconds: float = Field(description="the time that rates are over")
    total: LiveFigures
    sources: tuple[LiveSource, ...]
    flows: tuple[LiveFlow, ...] | None = Field(description="null where they are too many")


class LiveSeries(Document):
    """Figures by the second, the oldest first; null is unknown, or that nothing was copied."""

    records_per_second: tuple[float | None, ...] = ()
    bytes_per_second: tuple[float | None, ...] = ()
    lag: tuple[float | None, ...] = ()
    flight_p50_ms: tuple[float | None, ...] = ()
    flight_p99_ms: tuple[float | None, ...] = ()
    age_p50_ms: tuple[float | None, ...] = ()
    age_p99_ms: tuple[float | None, ...] = ()


class LiveHistory(Document):
    """The last fifteen minutes, as far as there are any; of a hub topic only the rates."""

    times: tuple[float, ...] = Field(description="seconds since 1970")
    series: LiveSeries
    sparks: dict[str, tuple[float | None, ...]] = Field(
        description="records per second of each source (alias), in 60 points over 15 minutes; "
        "none where one source was asked for"
    )
