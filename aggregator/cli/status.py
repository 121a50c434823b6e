"""`aggregator status`: what the running instance says, else what the checkpoint says."""

from collections.abc import Iterator

from aggregator.cli.aggregation import StoppedStatus
from aggregator.cli.command import Call, command
from aggregator.cli.render import Cell, Columns, Report, Table, cell, named, report, since, table
from aggregator.cli.tables import backfills_table, positions_table, sources_table
from aggregator.status.copied import DedupStatus
from aggregator.status.overview import audit_words
from aggregator.status.schema import (
    AuditStatus,
    CheckpointStatus,
    LaneStatus,
    PartitionState,
    PartitionStatus,
    PausedPart,
    QuarantineStatus,
    Status,
)

LANES: Columns = {
    **named("lane=name, state"),
    "sources": lambda it: ", ".join(it.clusters),
    **named("partitions, records, last report=reported_at, restarts"),
    "copied as": lambda it: _copied_as(it),
}
UNWELL = ("source", "topic", "partition", "state", "position", "log end", "why")
MOST_ROWS = 20
"""Partitions that are not well for the same reason: more than these are one row."""


@command("aggregator status -c aggregator.yaml", "aggregator status -o json")
def status(call: Call) -> Report:
    """Show what runs, or where it stopped.

    Asks the running instance; without one the checkpoint has the last positions.
    """
    found = call.aggregation.status()
    return report_of_status(found) if isinstance(found, Status) else report_of_view(found)


def report_of_status(status: Status) -> Report:
    """The status document as a report; the JSON is the document itself and `running`."""
    head = f"{status.name}: {status.phase}, pid {status.pid} on {status.host}"
    parts: list[Table | str] = [f"{head}, since {cell(status.started_at)} UTC"]
    if status.reason:
        parts.append(f"Why: {status.reason}")
    parts += [sources_table(status), table("Lanes", LANES, status.lanes)]
    parts.append(_unhealthy_rows(status))
    parts += [*_complete(status), *_checkpoint(status.checkpoint), *_optional(status)]
    parts += [f"{key} waits for a restart" for key in status.waits_for_restart]
    parts += [f"warning: {warning}" for warning in status.warnings]
    return Report({"running": True, **status.model_dump(mode="json")}, tuple(parts))


def _copied_as(lane: LaneStatus) -> str | None:
    """What its records are while they are copied; None while its tasks have not reported."""
    if lane.reported_at is None:
        return None
    return f"objects ({lane.objects})" if lane.objects else "bytes"


def _unhealthy_rows(status: Status) -> Table:
    """A row for each partition that is not well; one for many that are so for the same reason."""
    alike: dict[tuple[str, str, str], list[PartitionStatus]] = {}
    for part in status.partitions:
        if part.state not in (PartitionState.RUNNING, PartitionState.PAUSED):
            alike.setdefault((part.cluster, part.state, part.reason), []).append(part)
    rows: list[tuple[Cell, ...]] = []
    for (cluster, state, reason), parts in alike.items():
        why = reason or None
        if len(parts) > MOST_ROWS:
            topics = f"{len({part.topic for part in parts}):,} topics"
            rows.append((cluster, topics, f"{len(parts):,} in all", state, None, None, why))
            continue
        rows += [
            (cluster, it.topic, it.partition, state, it.position, it.log_end, why) for it in parts
        ]
    right = frozenset({"partition", "position", "log end"})
    return Table("Partitions that are not well", UNWELL, rows, right)


def _checkpoint(kept: CheckpointStatus) -> list[str]:
    line = f"Checkpoint: {kept.path}, commit {cell(kept.seq)}, epoch {cell(kept.epoch)}"
    if kept.committed_at is not None:
        line += f", {cell(kept.committed_at)} UTC"
    return [line, *((f"checkpoint error: {kept.error}",) if kept.error else ())]


def _optional(status: Status) -> Iterator[Table | str]:
    """What is said of what is on, or has happened."""
    if (done := status.recovery) is not None:
        yield (
            f"Recovery at {cell(done.at)} UTC, {done.seconds:.1f} s: {done.tail:,} offsets of the "
            f"hub read, {done.found:,} records found beyond the checkpoint, {done.replayed:,} "
            "written again"
        )
    if (gaps := status.gaps).total:
        yield (
            f"Gaps: {gaps.total:,}, {gaps.open:,} of them open, {gaps.lost:,} offsets lost as far "
            "as known (aggregator gaps)"
        )
    if status.quarantine is not None:
        yield quarantine_line(status.quarantine)
    yield from map(dedup_line, status.dedup)
    if status.audit is not None:
        yield _audit(status.audit)
    yield from map(_part, status.paused)
    if status.backfills:
        yield backfills_table(status.backfills)
    for it in status.refused_topics:
        yield f"not taken: {', '.join(it.sources)} into hub topic {it.hub_topic}: {it.reason}"
    for service in status.services:
        yield from service.lines()


def _complete(status: Status) -> Iterator[Table]:
    claims = status.completeness.topics if status.completeness is not None else ()
    columns: Columns = {
        **named("hub topic=topic, up to (UTC)=up_to, lost offsets=lost"),
        "held up by": lambda it: it.laggard.words if it.laggard is not None else None,
    }
    if whole := [it for it in claims if it.source is None]:
        yield table("Complete", columns, whole)


def _part(part: PausedPart) -> str:
    where = f"{part.source}/{part.topic}"
    if part.partition is not None:
        where += f"-{part.partition}"
    return f"Paused: {where} {since(part.since, part.by)}"


def _audit(found: AuditStatus) -> str:
    if found.at is None:
        return f"Audits cannot be read: {found.error}"
    words = f"{audit_words(found)} (aggregator verify)" if found.wrong else "nothing is wrong"
    if found.not_judged:
        words += f"; {found.not_judged:,} could not be judged"
    line = f"Audit at {cell(found.at)} UTC: {found.expected:,} records judged, {words}"
    return f"{line}; a newer one may not be known: {found.error}" if found.error else line


def quarantine_line(found: QuarantineStatus) -> str:
    """What went into quarantine, in a line."""
    if not found.records:
        line = f"Quarantine {found.topic}: nothing since the start"
    else:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in found.reasons.items())
        line = (
            f"Quarantine {found.topic}: {found.records:,} records since the start ({reasons}), the "
            f"newest {found.newest}; see aggregator quarantine list"
        )
    return f"{line}; not all is known: {found.error}" if found.error else line


def dedup_line(found: DedupStatus) -> str:
    """What is known of the events of a hub topic, in a line."""
    known = f"{found.events:,} events are known, in {found.bytes / 2**20:,.1f} MiB"
    stand = known if found.ready else "the events that it holds are being read"
    return f"One event once in {found.hub_topic}, by {found.by}: {stand}; see aggregator dedup list"


def report_of_view(view: StoppedStatus) -> Report:
    """What the checkpoint says of an instance that does not answer."""
    state = "cannot be asked" if view.is_there else "not running"
    head = f"{view.name}: {state}" + (f" ({view.reason})" if view.reason else "")
    if view.seq is None:
        return report(view, head, f"There is no checkpoint under {view.path} yet.")
    how = "clean" if view.clean else "not clean: the next start looks for what the hub holds"
    when = f"{cell(view.committed_at)} UTC" if view.committed_at else "at an unknown time"
    last = f"Last commit {view.seq} of epoch {view.epoch}, {when}, {how}"
    paused = [
        f"Paused: {alias} {since(at, view.paused_by.get(alias, ''))}"
        for alias, at in sorted(view.paused.items())
    ]
    paused += map(_part, view.paused_parts)
    return report(view, head, last, *paused, positions_table(view.positions))
