"""The state of the tee beside an instance: a part of the status document."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from aggregator.status.service_status import Figure, ServiceStatus


class TeeState(StrEnum):
    """What the tee does. FAILING: it runs, and something does not land. WAITING: it has ended by
    itself, or another tee has its folder, and it is started again in a while.
    """

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    WAITING = "WAITING"


class TeeStatus(ServiceStatus):
    """Hub records on their way into Delta tables, by a process beside the instance."""

    state: TeeState
    path: str = Field(description="tee.path")
    at: datetime | None = Field(default=None, description="when it reported this")
    topics: int = Field(default=0, description="hub topics that it lands")
    records: int = Field(default=0, description="landed since the start of the instance")
    undecoded: int = Field(default=0, description="of these could not be decoded")
    lost: int = Field(default=0, description="offsets that the hub deleted before they landed")
    lag: int | None = Field(default=None, description="offsets of the hub that have not landed")
    seconds_behind: float | None = Field(
        default=None, description="since when, at least, a log reaches beyond what has landed"
    )
    failures: int = Field(default=0, description="how often it ended by itself")
    problems: tuple[str, ...] = Field(default=(), description="what does not land, and why")

    def lines(self) -> Iterable[str]:
        """What has landed, what waits, and what does not land."""
        line = f"Delta: {self.state}, {self.records:,} records of {self.topics} topics have landed"
        if self.lag is not None:
            line += f", {self.lag:,} wait"
        if self.seconds_behind:
            line += f", the oldest since {self.seconds_behind:.1f} s"
        yield f"{line}, in {self.path}"
        if self.undecoded:
            yield f"Delta: {self.undecoded:,} records could not be decoded (decode_error)"
        yield from (f"Delta: {it}" for it in self.problems)

    def figures(self) -> Iterable[Figure]:
        """Its state, and its counts since the start of the instance."""
        well = float(self.state is TeeState.RUNNING)
        yield Figure.of("tee_up", "1 while hub records land in Delta.", well)
        states = [((it,), float(it is self.state)) for it in TeeState]
        yield Figure("tee_state", "1 for the state of the tee.", states, ("state",))
        behind = "Since when, at least, some of the hub has not landed."
        yield Figure.of("tee_seconds_behind", behind, self.seconds_behind)
        lag = None if self.lag is None else float(self.lag)
        yield Figure.of("tee_lag_offsets", "Offsets of the hub that have not landed.", lag)
        for name, words, count in (
            ("tee_records", "Records that landed in Delta.", self.records),
            ("tee_undecoded_records", "Of these could not be decoded.", self.undecoded),
            ("tee_lost_offsets", "Offsets that the hub deleted before they landed.", self.lost),
            ("tee_failures", "How often the tee ended by itself.", self.failures),
        ):
            yield Figure.of(name, words, float(count), count=True)

    def attention(self) -> str:
        """That some of the hub does not land."""
        problems = "; ".join(self.problems)
        return f"not all hub records land in Delta: {problems}" if problems else ""
