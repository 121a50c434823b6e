"""Backfills while no instance runs: stored for the next start, or cancelled."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from aggregator.config.schema import Config
from aggregator.features.backfill.backfill_table import BackfillTable
from aggregator.features.backfill.proposal_of_ranges import BackfillOrder, propose_backfill
from aggregator.features.backfill.ranges import (
    Backfill,
    BackfillRequest,
    BackfillState,
    busy_with,
    find_active,
    held_back,
    next_id,
)
from aggregator.features.positions.targets import MovePlan
from aggregator.model.errors import RefusedError
from aggregator.store.lease.lock import for_the_next
from aggregator.store.state_store import StateStore


def table_of(config: Config) -> BackfillTable:
    """The table beside the checkpoints of this config."""
    return BackfillTable(StateStore.of(config.checkpoint))


def order_stopped(
    config: Config,
    request: BackfillRequest,
    by: str,
    report: Callable[[str], object],
    *,
    dry_run: bool,
) -> tuple[BackfillOrder, Backfill | None]:
    """The result of an order, and unless it is a dry run the backfill that the next start begins.

    Raises as `propose_backfill` does, and as `for_the_next` does when an instance runs: it would
    not see the order. `report` gets what it waits for, in words.
    """
    table = table_of(config)
    with for_the_next(config.checkpoint, report):
        order = propose_backfill(config, request, by)
        if dry_run:
            return order, None
        ordered = replace(order.backfill, id=next_id(table.load()))
        table.put(ordered)
    return order, ordered


def cancel_stopped(config: Config, name: str, report: Callable[[str], object]) -> Backfill:
    """Take an order back. Raises RefusedError when there is none, and as `order_stopped` does."""
    table = table_of(config)
    with for_the_next(config.checkpoint, report):
        backfill = find_active(table.load(), name)
        now = datetime.now(UTC)
        cancelled = replace(backfill, state=BackfillState.CANCELLED, reason="", at=now)
        table.put(cancelled)
    return cancelled


def are_busy(config: Config) -> bool:
    """Whether any backfill still has to read something."""
    return bool(busy_with(table_of(config).load().values()))


def refuse_moves(config: Config, moves: MovePlan) -> None:
    """RefusedError for positions that would have the live flow read what a backfill reads."""
    wanted = {move.partition: move.new for move in moves.changes}
    if wanted and (problems := held_back(wanted, table_of(config).load().values())):
        raise RefusedError(problems)
