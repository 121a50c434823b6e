"""Our own calls for decisions: accept a gap, retry records, verify now."""

import time

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from aggregator.api.instance import CHANGING, Here, check_source
from aggregator.api.permissions import CallerError
from aggregator.config.values import parse_duration
from aggregator.features.quarantine.ledger import Filter
from aggregator.features.quarantine.quarantined import RetryReport
from aggregator.features.quarantine.records import Origin, parse_origin
from aggregator.features.verify.audit_process import AuditRun
from aggregator.features.verify.audit_scope import Scope
from aggregator.model.record_rules import PoisonReason
from aggregator.status.gaps import GapsReport


class _Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AcceptRequest(_Wanted):
    """Gaps by their ids, or all open ones of a source, a topic, or both."""

    gaps: list[str] = Field(default=[], max_length=10_000)
    source: str | None = None
    topic: str | None = None


class RetryRequest(_Wanted):
    """Records by their origins (`eu/orders-3@5`), or all that fit; with nothing named all.

    At most 200 at once. Unless `dry_run` is false the answer only shows what would be done.
    """

    origins: list[str] | None = Field(default=None, min_length=1, max_length=10_000)
    source: str | None = None
    topic: str | None = None
    reason: PoisonReason | None = None
    overwrite: bool = Field(
        default=False,
        description="also into hub topics that are compacted, or have each event once",
    )
    dry_run: bool = True


class AuditRequest(_Wanted):
    """What to compare; all below the checkpoint's positions when nothing is named."""

    source: str | None = None
    topic: str | None = None
    last: str | None = Field(default=None, description="only what is that young, such as 1h")


router = APIRouter(prefix="/api", dependencies=CHANGING)


@router.post("/gaps/accept")
def accept(here: Here, wanted: AcceptRequest) -> GapsReport:
    """Let partitions continue without what they lost."""
    return here.query_service.accept(wanted.gaps, wanted.source, wanted.topic)


@router.post("/quarantine/retry")
def retry(here: Here, wanted: RetryRequest) -> RetryReport:
    """Write quarantined records to their hub topic, if it takes them now; each once."""
    origins = None if wanted.origins is None else frozenset(map(_origin, wanted.origins))
    return here.query_service.retry(
        Filter(wanted.source, wanted.topic, wanted.reason, origins),
        dry_run=wanted.dry_run,
        overwrite=wanted.overwrite,
    )


@router.post("/verify", status_code=202)
def verify(here: Here, wanted: AuditRequest) -> AuditRun:
    """Compare the hub with its sources, record by record, in a process beside this one."""
    config = here.control.config
    if wanted.source is not None:
        check_source(here, wanted.source)
    since: int | None = None
    if wanted.last is not None:
        try:
            since = int((time.time() - parse_duration(wanted.last)) * 1000)
        except (ValueError, OverflowError) as error:
            raise CallerError(400, f"last {error}") from error
    scope = Scope(source=wanted.source, topic=wanted.topic, since_ms=since)
    return here.audits.start(config, scope)


def _origin(text: str) -> Origin:
    found = parse_origin(text)
    if found is None:
        raise CallerError(400, f"origin {text}: write source/topic-partition@offset")
    return found
