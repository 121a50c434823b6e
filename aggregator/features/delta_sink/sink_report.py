"""What a tee has done, as one document that the command prints in both forms."""

from datetime import datetime

from pydantic import Field

from aggregator.model.errors import EXIT_DONE, EXIT_OTHER
from aggregator.status.schema import Document


class LandedTopic(Document):
    """One hub topic and its table."""

    topic: str
    table: str = Field(description="where its table lies")
    positions: dict[int, int] = Field(description="the next offset of each hub partition")
    lag: int | None = Field(description="offsets of the hub that have not landed; null: unknown")
    seconds_behind: float | None = Field(
        default=None, description="since when, at least, the log reaches beyond what has landed"
    )
    commits: int = Field(description="commits of this process")
    records: int = Field(description="records that it landed")
    undecoded: int = Field(description="those that could not be decoded; their column says why")
    columns: int = Field(description="columns that values were decoded to so far")
    lost: int = Field(description="offsets that the hub deleted before they landed")
    failing: str = Field(default="", description="why it does not land now")


class TeeReport(Document):
    """All topics of one process."""

    name: str
    path: str
    at: datetime
    seconds: float
    hub: str = Field(default="", description="why the hub cannot be asked now")
    topics: tuple[LandedTopic, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong at the end, a sentence each."""
        hub = (f"hub: {self.hub}",) if self.hub else ()
        return (*hub, *(f"{it.topic}: {it.failing}" for it in self.topics if it.failing))

    @property
    def exit_code(self) -> int:
        """How a command ends that has shown this."""
        return EXIT_OTHER if self.problems else EXIT_DONE
