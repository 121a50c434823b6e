"""How the tee stands that runs beside an instance: a part of the status document."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class TeeState(StrEnum):
    """What the tee does. FAILING: it runs, and something does not land. WAITING: it has ended by
    itself, or another tee has its folder, and it is started again in a while.
    """

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    WAITING = "WAITING"


class TeeStatus(BaseModel):
    """Hub records on their way into Delta tables, by a process beside the instance."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    state: TeeState
    path: str = Field(description="tee.path")
    at: datetime | None = Field(default=None, description="when it told this")
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
