"""`aggregator status`: what the running instance says, else what the checkpoint says."""

from __future__ import annotations

import typer

from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config
from aggregator.cli.render import Output, Report, Table, cell, show, since
from aggregator.cli.running import Absent, running_status
from aggregator.cli.tables import backfills_table, positions_table, sources_table
from aggregator.documents.copied import DedupStatus
from aggregator.documents.document import (
    AclSyncStatus,
    AuditStatus,
    GapsStatus,
    GroupSyncStatus,
    HeartbeatsStatus,
    PartitionState,
    PausedPart,
    QuarantineStatus,
    RecoveryStatus,
    Status,
)
from aggregator.documents.overview import audit_words
from aggregator.documents.stopped import CheckpointView, checkpoint_view
from aggregator.documents.tee import TeeStatus

EXAMPLES = ("aggregator status -c aggregator.yaml", "aggregator status -o json")


def status(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what runs, or where it stopped.

    Asks the running instance; without one the checkpoint tells the last positions.
    """
    config = load_config(ctx, config_file, sets)
    found = running_status(config)
    if isinstance(found, Absent):
        show(report_of_view(checkpoint_view(config), found.reason), output)
    else:
        show(report_of_status(found), output)


def report_of_status(status: Status) -> Report:
    """The status document as a report; the JSON is the document itself and `running`."""
    lanes = Table(
        "Lanes",
        ("lane", "state", "sources", "partitions", "records", "last report", "restarts"),
        [
            (
                lane.name,
                lane.state,
                ", ".join(lane.clusters),
                lane.partitions,
                lane.records,
                lane.reported_at,
                lane.restarts,
            )
            for lane in status.lanes
        ],
        frozenset({"partitions", "records", "restarts"}),
    )
    unwell = Table(
        "Partitions that are not well",
        ("source", "topic", "partition", "state", "position", "log end", "why"),
        [
            (
                part.cluster,
                part.topic,
                part.partition,
                part.state,
                part.position,
                part.log_end,
                part.reason,
            )
            for part in status.partitions
            if part.state not in (PartitionState.RUNNING, PartitionState.PAUSED)
        ],
        frozenset({"partition", "position", "log end"}),
    )
    kept = status.checkpoint
    checkpoint = f"Checkpoint: {kept.path}, commit {cell(kept.seq)}, epoch {cell(kept.epoch)}"
    if kept.committed_at is not None:
        checkpoint += f", {cell(kept.committed_at)} UTC"
    head = f"{status.name}: {status.phase}, pid {status.pid} on {status.host}"
    return Report(
        {"running": True, **status.model_dump(mode="json")},
        (
            f"{head}, since {cell(status.started_at)} UTC",
            *((f"Why: {status.reason}",) if status.reason else ()),
            sources_table(status),
            lanes,
            unwell,
            *_complete(status),
            checkpoint,
            *((f"checkpoint error: {kept.error}",) if kept.error else ()),
            *((_recovered(status.recovery),) if status.recovery is not None else ()),
            *((_gaps(status.gaps),) if status.gaps.total else ()),
            *((quarantine_line(status.quarantine),) if status.quarantine is not None else ()),
            *map(dedup_line, status.dedup),
            *((_audit(status.audit),) if status.audit is not None else ()),
            *((_heartbeats(status.heartbeats),) if status.heartbeats is not None else ()),
            *map(_part, status.paused),
            *((backfills_table(status.backfills),) if status.backfills else ()),
            *(
                f"not taken: {', '.join(it.sources)} into hub topic {it.hub_topic}: {it.reason}"
                for it in status.refused_topics
            ),
            *(_synced(status.group_sync) if status.group_sync is not None else ()),
            *(_acls(status.acl_sync) if status.acl_sync is not None else ()),
            *(_tee(status.tee) if status.tee is not None else ()),
            *(f"{key} waits for a restart" for key in status.waits_for_restart),
            *(f"warning: {warning}" for warning in status.warnings),
        ),
    )


def _complete(status: Status) -> tuple[Table, ...]:
    told = status.completeness.topics if status.completeness is not None else ()
    rows = [
        (it.topic, it.up_to, it.lost, it.laggard.words if it.laggard is not None else None)
        for it in told
        if it.source is None
    ]
    columns = ("hub topic", "up to (UTC)", "lost offsets", "held up by")
    return (Table("Complete", columns, rows, frozenset({"lost offsets"})),) if rows else ()


def _part(part: PausedPart) -> str:
    where = f"{part.source}/{part.topic}"
    if part.partition is not None:
        where += f"-{part.partition}"
    return f"Paused: {where} {since(part.since, part.by)}"


def _heartbeats(told: HeartbeatsStatus) -> str:
    if told.error:
        return f"Heartbeats: none are written: {told.error}"
    return f"Heartbeats into {told.topic}: {', '.join(told.sources) or 'none just now'}"


def _synced(told: GroupSyncStatus) -> list[str]:
    good = [it.group for it in told.groups if not it.error]
    lines = [f"Consumer groups at the hub: {', '.join(good) or 'none yet'}"]
    lines += [f"group {it.group}: {it.error}" for it in told.groups if it.error]
    return [*lines, *((f"groups: {told.error}",) if told.error else ())]


def _acls(told: AclSyncStatus) -> list[str]:
    lines = [f"ACLs: {told.added:,} added at the hub since the start"]
    lines += [f"ACLs: not granted by any source: {it}" for it in told.superfluous]
    lines += [f"ACLs: {it}" for it in told.notes]
    return [*lines, *((f"ACLs: {told.error}",) if told.error else ())]


def _tee(told: TeeStatus) -> list[str]:
    line = f"Delta: {told.state}, {told.records:,} records of {told.topics} topics have landed"
    if told.lag is not None:
        line += f", {told.lag:,} wait"
    if told.seconds_behind:
        line += f", the oldest since {told.seconds_behind:.1f} s"
    lines = [f"{line}, in {told.path}"]
    if told.undecoded:
        lines.append(f"Delta: {told.undecoded:,} records could not be decoded (decode_error)")
    return [*lines, *(f"Delta: {it}" for it in told.problems)]


def _gaps(gaps: GapsStatus) -> str:
    return (
        f"Gaps: {gaps.total:,}, {gaps.open:,} of them open, {gaps.lost:,} offsets lost as far as "
        "known (aggregator gaps)"
    )


def _audit(found: AuditStatus) -> str:
    if found.at is None:
        return f"Audits cannot be read: {found.error}"
    words = f"{audit_words(found)} (aggregator verify)" if found.wrong else "nothing is wrong"
    if found.not_judged:
        words += f"; {found.not_judged:,} could not be judged"
    line = f"Audit at {cell(found.at)} UTC: {found.expected:,} records judged, {words}"
    return f"{line}; a newer one may not be known: {found.error}" if found.error else line


def _recovered(done: RecoveryStatus) -> str:
    return (
        f"Recovery at {cell(done.at)} UTC, {done.seconds:.1f} s: {done.tail:,} offsets of the hub "
        f"read, {done.found:,} records found beyond the checkpoint, {done.replayed:,} written again"
    )


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


def report_of_view(view: CheckpointView, reason: str = "") -> Report:
    """What the checkpoint says of an instance that does not answer."""
    data = {**view.model_dump(mode="json"), "reason": reason}
    head = f"{view.name}: not running" + (f" ({reason})" if reason else "")
    if view.seq is None:
        return Report(data, (head, f"There is no checkpoint under {view.path} yet."))
    how = "clean" if view.clean else "not clean: the next start looks for what the hub holds"
    when = f"{cell(view.committed_at)} UTC" if view.committed_at else "at an unknown time"
    last = f"Last commit {view.seq} of epoch {view.epoch}, {when}, {how}"
    paused = [
        f"Paused: {alias} {since(at, view.paused_by.get(alias, ''))}"
        for alias, at in sorted(view.paused.items())
    ]
    paused += map(_part, view.paused_parts)
    return Report(data, (head, last, *paused, positions_table(view.positions)))
