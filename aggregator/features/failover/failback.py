"""Failback: the source is caught up with, and a config is made that copies from the hub to it.

Run beside the aggregation, that config brings to the old cluster what was written at the hub since
the failover, and nothing that came from a source. Each step is done once.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aggregator.config.load import load_text
from aggregator.config.render import dump
from aggregator.config.schema import Config
from aggregator.datapath.connector.hub_origins import ProcessOrigins
from aggregator.features.failover.failover import (
    FailoverFacts,
    FailoverRules,
    SetPaused,
    TextSink,
    sighted,
    wait_copied,
)
from aggregator.features.failover.failover_report import FailbackReport, StepRow, StepState
from aggregator.features.groups.batch_scan import in_batches
from aggregator.features.groups.hub_scan import ScanLimits, read_scans
from aggregator.features.positions.set_stopped import set_positions
from aggregator.features.positions.targets import MoveRequest
from aggregator.kafka.admin import HUB, open_admin
from aggregator.kafka.discovery.hub_logs import read_logs
from aggregator.kafka.discovery.prepare import plan_of_all, prepare
from aggregator.model.errors import ClusterError, RefusedError
from aggregator.model.events import EventSink
from aggregator.model.values import Route, TopicPartition
from aggregator.plan.failover import (
    FailbackPlan,
    Failover,
    NativeCount,
    plan_failback,
    positions_back,
    to_bring_back,
)
from aggregator.plan.positions.hub_losses import least_ends
from aggregator.store.checkpoint.checkpoint_table import stored_state
from aggregator.store.controls import Controls
from aggregator.store.failovers import Failovers
from aggregator.store.state_store import StateStore

COUNTED, COUNTED_LEAST, COUNT_SECONDS = 200_000, 1_000, 30.0
"""How many offsets of the hub are searched for records of its own, in all and in each partition."""

HEAD = """\
# The way back from the hub to {alias}: what was written at the hub itself goes to {alias}.
# Written by `aggregator failback {alias}`. Run it beside the aggregation {name}.
"""


@dataclass(frozen=True, slots=True)
class FailbackFile:
    """Where the failback config is written: a file, or none; `force` overwrites another."""

    file: Path | None
    folder: Path
    force: bool = False


def fail_back(
    config: Config,
    raw: Mapping[str, Any],
    alias: str,
    written: FailbackFile,
    rules: FailoverRules,
    set_paused: SetPaused,
    emit: EventSink,
    report: TextSink,
) -> FailbackReport:
    """Resume the source, wait until the hub has all of it, write the config, set its positions.

    `raw` is the YAML of the config. Raises ClusterError when one of the two clusters gives no
    answer, RefusedError when the failback cannot be planned, FailoverError when it takes too long.
    """
    config.chosen(alias)
    if alias not in (raw.get("sources") or {}):
        hint = "write it into the config file first, as `aggregator config` shows it"
        raise RefusedError([f"source {alias} was added while it ran: {hint}"])
    deadline = time.monotonic() + rules.seconds
    plan = plan_of_all(config, [alias], "the way back needs both clusters")
    failovers = Failovers(StateStore.of(config.checkpoint))
    noted = failovers.read().get(alias, ())
    found = sighted(config, alias)
    if not found.alive:
        raise ClusterError(f"{alias}: {found.reason}")
    was = {it.cluster_id for it in found.state.entries.values() if it.cluster_id}
    other = bool(was) and plan.sources[alias].cluster_id not in was
    back = plan_failback(config, raw, alias, plan.routes, Path.cwd())
    if not back.topics:
        raise RefusedError([f"no hub topic can go back to {alias}", *back.notes])
    steps = _forward(config, alias, found, rules, set_paused, deadline, report, other=other)
    text = HEAD.format(alias=alias, name=config.name) + dump(dict(back.tree))
    made = load_text(text, folder=written.folder)
    refusals, warnings = _checked(made)
    if refusals:
        raise RefusedError(refusals)
    steps.append(_write(text, written, rules))
    brought = to_bring_back(noted, found.hub_id)
    starts = positions_back(least_ends(it.hub_ends for it in brought), back.topics)
    before = _left_at_hub(config, starts, plan.routes)
    moves = None
    if starts and not rules.dry_run and written.file is not None:
        request = MoveRequest(source=config.name, to_offsets=starts, taken_over=True)
        moves = set_positions(made, request, emit)
        failovers.put_returned(alias, [it for it in brought if not it.returned])
    changed = moves is not None and bool(moves.changes)
    steps.append(_positions_step(starts, rules, written, changed=changed))
    return FailbackReport(
        name=config.name,
        source=alias,
        dry_run=rules.dry_run,
        failed_over_at=brought[0].at if brought else None,
        config=text,
        file="" if written.file is None else str(written.file),
        steps=tuple(steps),
        positions=moves,
        notes=(*_notes(alias, noted, brought, back, other=other), *before, *warnings),
    )


def _forward(
    config: Config,
    alias: str,
    found: FailoverFacts,
    rules: FailoverRules,
    set_paused: SetPaused,
    deadline: float,
    report: TextSink,
    *,
    other: bool,
) -> list[StepRow]:
    """The hub has to have all that the source holds before anything moves back to it."""
    resume, copy = f"resume {alias}", "copy what it held"
    if other:
        why = "it is another cluster than the one that failed over"
        return [StepRow(step=it, state=StepState.LEFT_OUT, detail=why) for it in (resume, copy)]
    paused = alias in Controls(StateStore.of(config.checkpoint)).read().sources
    words = f"{found.left:,} offsets are not at the hub"
    if rules.dry_run:
        state = StepState.PLANNED if paused else StepState.WAS_DONE
        copied = StepState.PLANNED if found.left else StepState.WAS_DONE
        return [
            StepRow(step=resume, state=state),
            StepRow(step=copy, state=copied, detail=words),
        ]
    if paused:
        set_paused(alias, False)
    steps = [StepRow(step=resume, state=StepState.DONE if paused else StepState.WAS_DONE)]
    if not rules.wait:
        return [*steps, StepRow(step=copy, state=StepState.LEFT_OUT, detail=f"--no-wait; {words}")]
    state = StepState.DONE if found.left else StepState.WAS_DONE
    wait_copied(config, alias, found, deadline, report)
    return [*steps, StepRow(step=copy, state=state)]


def _checked(made: Config) -> tuple[list[str], list[str]]:
    """The refusals and warnings of the failback's own plan."""
    prepared = prepare(made)
    failed = [str(it) for it in prepared.discovery.failed.values()]
    if failed:
        raise ClusterError("\n".join(failed))
    refused = [str(it) for it in (*prepared.plan.refusals, *prepared.plan.refused)]
    return refused, [str(it) for it in prepared.plan.warnings]


def _write(text: str, written: FailbackFile, rules: FailoverRules) -> StepRow:
    step, file = "write the config", written.file
    if file is None:
        return StepRow(step=step, state=StepState.LEFT_OUT, detail="--write FILE writes it")
    there = file.read_text("utf-8") if file.exists() else None
    if there == text:
        return StepRow(step=step, state=StepState.WAS_DONE, detail=str(file))
    if there is not None and not written.force:
        raise RefusedError([f"{file} exists and says something else: --force writes over it"])
    if rules.dry_run:
        return StepRow(step=step, state=StepState.PLANNED, detail=str(file))
    # It may hold a secret in clear, as the config that it was made of may.
    file.touch(0o600)
    file.write_text(text, "utf-8")
    return StepRow(step=step, state=StepState.DONE, detail=str(file))


def _positions_step(
    starts: Mapping[str, Mapping[int, int]],
    rules: FailoverRules,
    written: FailbackFile,
    *,
    changed: bool,
) -> StepRow:
    step = "set its positions"
    if not starts:
        why = "it begins at the beginning, and leaves out what came from a source"
        return StepRow(step=step, state=StepState.LEFT_OUT, detail=why)
    count = sum(len(it) for it in starts.values())
    detail = f"{count} partitions, before what was written at the hub instead"
    if written.file is None:
        return StepRow(step=step, state=StepState.LEFT_OUT, detail="with --write FILE")
    if rules.dry_run:
        return StepRow(step=step, state=StepState.PLANNED, detail=detail)
    state = StepState.DONE if changed else StepState.WAS_DONE
    return StepRow(step=step, state=state, detail=detail)


def _left_at_hub(
    config: Config, starts: Mapping[str, Mapping[int, int]], routes: Iterable[Route]
) -> list[str]:
    """Notes on the hub's own records before the start of the failback, which leaves them out.

    People decide about them, so this looks at the newest alone, and for a while. Batches may have
    been copied as they are, of the source partitions of `routes` and of the checkpoint.
    """
    timeout = config.supervision.connect_timeout
    places = {TopicPartition(t, n): at for t, own in starts.items() for n, at in own.items()}
    stored = stored_state(config.checkpoint).entries
    try:
        with open_admin(config, HUB) as admin:
            logs = read_logs(admin, starts, timeout)
        most = max(COUNTED // max(1, len(places)), COUNTED_LEAST)
        counts = {tp: NativeCount(logs[tp], at, most) for tp, at in places.items() if tp in logs}
        deadline = time.monotonic() + COUNT_SECONDS
        batches = in_batches(ProcessOrigins, config.hub, routes, stored)
        read_scans(config.hub, counts, ScanLimits(timeout, deadline), batches)
    except ClusterError as error:
        return [f"whether the hub holds more of its own, before its start, is not known: {error}"]
    found = {tp: it.found for tp, it in counts.items() if it.found}
    if not found:
        return []
    first, *others = sorted(found)
    more = f" and {len(others)} other partitions" if others else ""
    return [
        f"{sum(found.values()):,} records that were written at the hub itself, in {first}{more}, "
        "lie before where the way back begins, and do not go back: the source still gave records "
        "then. If they are its applications', set its positions to an earlier time"
    ]


def _notes(
    alias: str,
    noted: Sequence[Failover],
    brought: Sequence[Failover],
    back: FailbackPlan,
    *,
    other: bool,
) -> list[str]:
    notes = list(back.notes)
    if not noted:
        notes.append(
            f"no failover of {alias} is noted: all that was ever written at the hub goes back"
        )
    elif not brought:
        notes.append(
            "the hub is another cluster than at the failover: its ends of then say nothing"
        )
    elif len(brought) > 1:
        notes.append(
            f"{alias} failed over {len(brought)} times since the last way back: it begins at the "
            "earliest of them"
        )
    if other:
        notes.append(
            f"{alias} is another cluster than before: what the old one held and the hub lacks is "
            f"lost (aggregator gaps), and records of before the failover are not copied there"
        )
    return notes
