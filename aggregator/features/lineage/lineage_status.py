"""The part of the status document about lineage, and how it is shown."""

from collections.abc import Iterable

from pydantic import Field

from aggregator.status.service_status import Figure, ServiceStatus


class LineageStatus(ServiceStatus):
    """What a data catalog was sent in this run."""

    jobs: int = Field(default=0, description="jobs that the catalog knows as running")
    events: int = Field(default=0, description="events that were sent in this run")
    error: str = Field(default="", description="why the last event could not be sent, or empty")
    schema_error: str = Field(
        default="", description="why fields of topics are not reported, or empty"
    )

    def lines(self) -> Iterable[str]:
        """One line."""
        failed = f"; failing: {self.error}" if self.error else ""
        schemas = f"; no fields of topics: {self.schema_error}" if self.schema_error else ""
        yield f"Lineage: {self.jobs} jobs reported, {self.events} events sent{failed}{schemas}"

    def figures(self) -> Iterable[Figure]:
        """The events, and whether they fail."""
        words = "OpenLineage events that were sent in this run."
        yield Figure.of("lineage_events_total", words, self.events, count=True)
        words = "1 while OpenLineage events cannot be sent."
        yield Figure.of("lineage_failing", words, float(bool(self.error)))

    def attention(self) -> str:
        """A catalog that cannot be reached."""
        return f"no lineage is reported: {self.error}" if self.error else ""
