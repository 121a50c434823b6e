"""`aggregator positions`: what the checkpoint holds, now and in the past, and setting it."""

from typing import Annotated

import typer

from aggregator.cli.command import Call, Group, command
from aggregator.cli.options import PartitionOption, SourceOption, TopicOption, moment_ms
from aggregator.cli.render import Columns, Report, cell, named, table
from aggregator.cli.set_positions import rewind, set_positions
from aggregator.cli.tables import positions_table
from aggregator.status.from_checkpoint import (
    CheckpointView,
    PositionChange,
    checkpoint_view,
    position_changes,
)
from aggregator.store.checkpoint.history import Commit, history
from aggregator.store.checkpoint.rows import to_moment


@command(name="show")
def show_positions(
    call: Call,
    source: SourceOption = None,
    topic: TopicOption = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="As they were then: 2026-01-31T12:00:00Z.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="As they were after commit N.")
    ] = None,
) -> Report:
    """Show the position of every source partition, now, at a time, or after a commit."""
    if at is not None and version is not None:
        raise typer.BadParameter("give --at or --version, not both")
    at_ms = moment_ms("--at", at)
    view = checkpoint_view(call.config, seq=version, at_ms=at_ms)
    kept = [
        row
        for row in view.positions
        if source in (None, row.cluster) and topic in (None, row.topic)
    ]
    return report_of_positions(view.model_copy(update={"positions": tuple(kept)}))


@command(name="history")
def show_history(
    call: Call,
    source: SourceOption = None,
    topic: TopicOption = None,
    partition: PartitionOption = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
) -> Report:
    """Show the last commits; with --source, --topic or --partition the positions in them."""
    place = call.config.checkpoint
    if (source, topic, partition) == (None, None, None):
        return report_of_commits(history(place.path, place.storage_options, limit), place.path)
    return report_of_changes(
        position_changes(place, cluster=source, topic=topic, partition=partition, limit=limit)
    )


def report_of_positions(view: CheckpointView) -> Report:
    """The positions of a state of the checkpoint."""
    data = view.model_dump(mode="json", exclude={"running"})
    if view.seq is None:
        return Report(data, (f"There is no checkpoint under {view.path} yet.",))
    when = f", {cell(view.committed_at)} UTC" if view.committed_at else ""
    head = f"{view.path}: commit {view.seq} of epoch {view.epoch}{when}"
    shown = positions_table(view.positions) if view.positions else "No such positions."
    return Report(data, (head, shown))


def report_of_commits(commits: list[Commit], path: str) -> Report:
    """Commits, newest first."""
    columns: Columns = {
        "commit": "seq",
        "at (UTC)": lambda it: to_moment(it.committed_at_ms),
        "epoch": "epoch",
        "kind": lambda it: "start" if it.kind == "epoch" else "checkpoint",
        **named("lane or owner=lane, generation, batch, positions, clean"),
    }
    names = ("epoch", "kind", "lane", "generation", "batch", "positions", "clean")
    data = [
        {
            "seq": it.seq,
            "committed_at": to_moment(it.committed_at_ms).isoformat(),
            **{name: getattr(it, name) for name in names},
        }
        for it in commits
    ]
    none = f"There is no checkpoint under {path} yet."
    return Report(data, (table("Commits", columns, commits) if commits else none,))


def report_of_changes(changes: list[PositionChange]) -> Report:
    """Positions by commit, newest first."""
    columns = named(
        "commit=seq, at (UTC)=committed_at, epoch, source=cluster, topic, partition, position",
        "log end then=log_end, lane",
    )
    shown = table("Positions by commit", columns, changes) if changes else "No such positions."
    return Report([it.model_dump(mode="json") for it in changes], (shown,))


GROUP = Group(
    "positions",
    "Show the positions in the checkpoint, now and in the past, and set them.",
    (show_positions, show_history, set_positions, rewind),
    (
        "aggregator positions show",
        "aggregator positions show --source eu --at 2026-01-31T12:00:00Z",
        "aggregator positions history --source eu --topic orders --partition 0",
        "aggregator positions rewind --source eu --by 1h        (shows what would be done)",
        "aggregator positions rewind --source eu --by 1h --yes  (does it)",
        "aggregator positions set --source eu --topic orders --to latest",
    ),
)
