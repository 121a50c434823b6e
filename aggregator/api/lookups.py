"""Our own calls that only read: gaps, quarantine, checkpoints, recovery, topics, lanes, audits."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query

from aggregator.api.incidents import Incidents
from aggregator.api.instance import Here
from aggregator.api.permissions import CallerError
from aggregator.api.timeline import moment
from aggregator.features.dedup.duplicates import DroppedReport
from aggregator.features.peek.read_topic import ReadFrom
from aggregator.features.peek.topic_report import TopicLook
from aggregator.features.quarantine.ledger import Filter
from aggregator.features.quarantine.quarantined import QuarantineReport
from aggregator.features.timeline.timeline_report import EventRow
from aggregator.features.verify.audit_process import AuditRun
from aggregator.features.verify.past_audits import AuditsReport
from aggregator.model.alike import made_of
from aggregator.model.record_rules import PoisonReason
from aggregator.status.gaps import GapsReport
from aggregator.status.hub_topics import HubTopicOverview, HubTopics, hub_topics
from aggregator.status.schema import Document, LaneStatus, RecoveryStatus
from aggregator.store.checkpoint.rows import to_moment

Source = Annotated[str | None, Query(description="only of this source")]
Topic = Annotated[str | None, Query(description="only of this source topic")]
Limit = Annotated[int, Query(ge=1, le=10_000)]
COMMITS = 100
"""A commit may have a row for each partition, and all are read; commands read any number."""


class CommitRow(Document):
    """One commit of the checkpoint; `lane` is the owner when `kind` is `epoch`."""

    seq: int
    committed_at: datetime
    epoch: int
    kind: str
    lane: str
    generation: int | None
    positions: int
    clean: bool


class CommitsReport(Document):
    """The newest first."""

    name: str
    commits: tuple[CommitRow, ...]


class RecoveryReport(Document):
    """The last recovery of this run, and those of the last month."""

    name: str
    last: RecoveryStatus | None
    earlier: tuple[EventRow, ...]


class LanesReport(Document):
    """The lanes as they are."""

    name: str
    lanes: tuple[LaneStatus, ...]


router = APIRouter(prefix="/api", tags=["lookups"])


# Plain functions: they read tables and ask clusters, in threads.
@router.get("/gaps")
def gaps(
    here: Here,
    source: Source = None,
    topic: Topic = None,
    only_open: Annotated[bool, Query(alias="open")] = False,
    limit: Limit = 200,
) -> GapsReport:
    """What was lost at the sources, open gaps first."""
    return here.query_service.gaps(source, topic, only_open=only_open, limit=limit)


@router.get("/quarantine")
def quarantine(
    here: Here,
    source: Source = None,
    topic: Topic = None,
    reason: Annotated[PoisonReason | None, Query()] = None,
    retried: Annotated[bool, Query(description="also those that the hub took since")] = False,
    limit: Limit = 200,
) -> QuarantineReport:
    """Records that the hub refused, and what became of each."""
    return here.query_service.quarantine(
        Filter(source, topic, reason), retried=retried, limit=limit
    )


@router.get("/dedup")
def dedup(
    here: Here,
    source: Source = None,
    topic: Topic = None,
    since: Annotated[str, Query(description="a moment or an age: all since then is read")] = ("1h"),
    retried: Annotated[bool, Query(description="also those that were written since")] = False,
    limit: Limit = 200,
) -> DroppedReport:
    """Records that dedup has dropped, and what became of each."""
    begin = moment(since)
    return here.query_service.dropped(Filter(source, topic), begin, retried=retried, limit=limit)


@router.get("/checkpoints")
def checkpoints(here: Here, limit: Annotated[int, Query(ge=1, le=COMMITS)] = 50) -> CommitsReport:
    """The last commits of the checkpoint."""
    rows = tuple(
        made_of(CommitRow, it, committed_at=to_moment(it.committed_at_ms))
        for it in here.query_service.commits(limit)
    )
    return CommitsReport(name=here.control.config.name, commits=rows)


@router.get("/recovery")
def recovery(here: Here) -> RecoveryReport:
    """What was recovered after unclean stops."""
    status = here.status()
    return RecoveryReport(
        name=status.name, last=status.recovery, earlier=here.query_service.recoveries()
    )


@router.get("/lanes")
def lanes(here: Here) -> LanesReport:
    """What reads the sources."""
    status = here.status()
    return LanesReport(name=status.name, lanes=status.lanes)


@router.get("/audits")
def past_audits(here: Here, limit: Limit = 20) -> AuditsReport:
    """What `verify` has found, the newest first."""
    return here.query_service.audits(limit)


@router.get("/verify")
def verifying(here: Here) -> AuditRun:
    """The audit that this instance runs, or the last one that it ran."""
    return here.audits.latest


@router.get("/incidents")
def timeline(here: Here) -> Incidents:
    """Gaps, quarantined records, recoveries and audits as one timeline."""
    status = here.status()
    found, failing = here.query_service.incidents(status)
    return Incidents(
        name=status.name,
        phase=status.phase,
        at=status.at,
        incidents=tuple(found),
        failing=failing,
    )


@router.get("/hub/topics")
def topics(here: Here) -> HubTopics:
    """Every hub topic, and what each source gives to it."""
    status = here.status()
    return hub_topics(status, here.holder.earlier(), here.control.titles)


@router.get("/hub/topics/{topic}")
def hub_topic(here: Here, topic: str) -> HubTopicOverview:
    """One of them."""
    status = here.status()
    all_topics = hub_topics(status, here.holder.earlier(), here.control.titles).topics
    found = next((it for it in all_topics if it.topic == topic), None)
    if found is None:
        raise CallerError(404, f"nothing is copied to a hub topic {topic}")
    return found


@router.get("/topics/{topic}/look")
def look(
    here: Here,
    topic: str,
    source: Annotated[str | None, Query(description="at this source; without: the hub")] = None,
    records: Annotated[int, Query(ge=0, le=100, description="how many")] = 5,
    partition: Annotated[int | None, Query(ge=0, description="only of this one")] = None,
    offset: Annotated[
        int | None, Query(ge=0, description="from here on in each partition, not the newest")
    ] = None,
    at: Annotated[
        str | None, Query(description="from this time on: a duration ago, or an ISO time")
    ] = None,
) -> TopicLook:
    """A topic as it is now: configs, what its logs hold, and records with headers.

    Those are the newest, the newest first; or from an offset or a time on, the oldest first.
    """
    start = None
    if offset is not None:
        start = ReadFrom(offset=offset)
    elif at is not None:
        start = ReadFrom(at_ms=max(0, int(moment(at).timestamp() * 1000)))
    return here.query_service.look(
        here.status(), source, topic, records, partition=partition, start=start
    )
