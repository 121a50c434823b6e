"""The steps of a failover or failback, as the command line shows them."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from aggregator.features.groups.group_report import GroupReport
from aggregator.features.positions.change_report import MovesReport
from aggregator.model.alike import made_of
from aggregator.plan.failover import NotCopied
from aggregator.status.schema import Document


class StepState(StrEnum):
    """The outcome of a step."""

    DONE = "done"
    WAS_DONE = "was done"
    PLANNED = "would be done"
    LEFT_OUT = "left out"


class StepRow(Document):
    """One step of a sequence."""

    step: str
    state: StepState
    detail: str = ""


class BehindRow(Document):
    """A source partition whose records are not all at the hub."""

    topic: str
    partition: int
    position: int | None
    log_end: int | None = Field(description="null: not known")
    behind: int | None = Field(description="offsets that are not at the hub; null: not known")


def row_of(behind: NotCopied) -> BehindRow:
    """The same as a row."""
    return made_of(BehindRow, behind.partition, behind, behind=behind.offsets)


class HubGroup(Document):
    """A group that continues at the hub from the offsets that groups.sync has written there."""

    group: str
    state: str
    partitions: int
    synced: bool = Field(description="whether groups.sync of the source takes it")


class FailoverReport(Document):
    """A failover. `alive` is False when the source gives no answer, with the `reason`."""

    name: str
    source: str
    dry_run: bool
    alive: bool
    reason: str = ""
    bootstrap_servers: str = Field(description="the hub, where its applications continue")
    behind: tuple[BehindRow, ...] = ()
    groups: tuple[GroupReport, ...] = ()
    failed: dict[str, str] = Field(
        default={}, description="groups that were not taken over, and why"
    )
    unlisted: str = Field(
        default="", description="why groups may be left out that are not known; empty: none is"
    )
    hub_groups: tuple[HubGroup, ...] = ()
    topics: tuple[str, ...] = Field(default=(), description="hub topics that the source feeds")
    steps: tuple[StepRow, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether all groups are at the hub, or would be."""
        return not self.failed and not self.unlisted and all(it.done for it in self.groups)


class FailbackReport(Document):
    """A failback to a source: the config that copies the hub's own records to it."""

    name: str
    source: str
    dry_run: bool
    failed_over_at: datetime | None = None
    config: str = Field(description="the YAML, with the references of the config it is made of")
    file: str = ""
    steps: tuple[StepRow, ...] = ()
    positions: MovesReport | None = None
    notes: tuple[str, ...] = ()
