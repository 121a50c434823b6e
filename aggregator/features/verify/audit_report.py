"""The result of `aggregator verify` as one document: per source partition and per hub topic."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from pydantic import computed_field

from aggregator.features.verify.audit_scope import Standing
from aggregator.model.errors import EXIT_CLUSTER, EXIT_DATA, EXIT_DONE
from aggregator.status.schema import Document

SUMS = ("expected", "present", "missing", "twice", "altered", "out_of_order", "foreign")
"""The counts that every view of an audit has."""
NOT_JUDGED = ("expired", "not_begun", "transformed", "forgotten", "excused", "schemas_unknown")
"""Those of records that could not be judged, or not in all of their parts."""
SILENT = (Standing.UNREACHABLE, Standing.UNREADABLE)
"""The state of these partitions is unknown."""


class PartitionResult(Document):
    """One source partition: what its range holds, and what the hub makes of it.

    `expected` records are all that have to be at the hub: present, missing, or absent for a reason
    (expired, superseded, accounted). `altered` counts records, and the parts of them that differ.
    `NOT_JUDGED` names what could not be judged, and `ahead` are offsets above the position.
    """

    cluster: str
    topic: str
    partition: int
    hub_topic: str
    standing: Standing = Standing.COMPARED
    reason: str = ""
    from_offset: int = 0
    to_offset: int = 0
    expected: int = 0
    present: int = 0
    missing: int = 0
    twice: int = 0
    altered: int = 0
    altered_key: int = 0
    altered_value: int = 0
    altered_headers: int = 0
    altered_timestamp: int = 0
    altered_schema: int = 0
    out_of_order: int = 0
    foreign: int = 0
    expired: int = 0
    superseded: int = 0
    accounted: int = 0
    not_begun: int = 0
    transformed: int = 0
    forgotten: int = 0
    excused: int = 0
    schemas_unknown: int = 0
    ahead: int = 0

    @property
    def wrong(self) -> bool:
        """Whether anything is wrong with this partition."""
        problems = (self.missing, self.twice, self.altered, self.out_of_order, self.foreign)
        return any(problems) or self.standing is Standing.CONFLICT


class HubTopicResult(Document):
    """One hub topic: offsets read, and records that are not copies of what a source has.

    `unread` offsets are older than all that is judged.
    """

    topic: str
    offsets: int = 0
    unread: int = 0
    no_origin: int = 0
    unknown_source: int = 0
    other_topic: int = 0
    no_such_record: int = 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def foreign(self) -> int:
        """All of them."""
        return self.no_origin + self.unknown_source + self.other_topic + self.no_such_record

    @property
    def claimed(self) -> int:
        """Those that claim to be ours, and are not."""
        return self.other_topic + self.no_such_record


class Finding(Document):
    """One record that is not as it should be: its origin, and where it lies at the hub.

    `kind` is missing, twice, altered, out_of_order, or foreign; `detail` says more.
    """

    kind: str
    detail: str = ""
    cluster: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    hub_topic: str | None = None
    hub_partition: int | None = None
    hub_offset: int | None = None


class Totals(Document):
    """Sums over all partitions, and foreign records over all hub topics."""

    expected: int = 0
    present: int = 0
    missing: int = 0
    twice: int = 0
    altered: int = 0
    out_of_order: int = 0
    foreign: int = 0
    expired: int = 0
    superseded: int = 0
    accounted: int = 0
    not_begun: int = 0
    transformed: int = 0
    forgotten: int = 0
    excused: int = 0
    schemas_unknown: int = 0
    ahead: int = 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def not_judged(self) -> int:
        """Records that could not be judged, or not in all of their parts."""
        return sum(getattr(self, name) for name in NOT_JUDGED)


class VerifyReport(Document):
    """One audit. `commit` is the checkpoint's whose positions were taken, null without one.

    `unreachable` is source -> why it was not compared. `allow_foreign`: records that do not claim
    to be ours are not held against the hub.
    """

    audit: str
    name: str
    at: datetime
    seconds: float
    commit: int | None = None
    allow_foreign: bool = False
    partitions: tuple[PartitionResult, ...] = ()
    hub_topics: tuple[HubTopicResult, ...] = ()
    findings: tuple[Finding, ...] = ()
    unreachable: dict[str, str] = {}
    notes: tuple[str, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def totals(self) -> Totals:
        """The sums."""
        return totals_of(self.partitions, self.hub_topics)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def exit_code(self) -> int:
        """4 when something is wrong, 3 when something could not be looked at, else 0."""
        claimed = sum(topic.claimed for topic in self.hub_topics)
        foreign = claimed if self.allow_foreign else self.totals.foreign
        if foreign or any(partition.wrong for partition in self.partitions):
            return EXIT_DATA
        silent = any(it.standing in SILENT for it in self.partitions)
        return EXIT_CLUSTER if silent or self.unreachable else EXIT_DONE


def totals_of(
    partitions: Sequence[PartitionResult], hub_topics: Iterable[HubTopicResult]
) -> Totals:
    """The sums over partitions; foreign records are counted where they lie, at the hub."""
    names = [name for name in Totals.model_fields if name != "foreign"]
    sums = {name: sum(getattr(it, name) for it in partitions) for name in names}
    return Totals(**sums, foreign=sum(topic.foreign for topic in hub_topics))
