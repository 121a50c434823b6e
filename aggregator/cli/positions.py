"""`aggregator positions`: what the checkpoint holds, now and in the past, and setting it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from aggregator.checkpoint.history import Commit, history
from aggregator.checkpoint.rows import to_moment
from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SourceOption,
    TopicOption,
    load_config,
)
from aggregator.cli.render import Output, Report, Table, cell, show
from aggregator.cli.set_positions import rewind, set_positions
from aggregator.cli.tables import positions_table
from aggregator.config.node import timestamp_to_millis
from aggregator.documents.stopped import (
    CheckpointView,
    PositionChange,
    checkpoint_view,
    position_changes,
)

EXAMPLES = (
    "aggregator positions show",
    "aggregator positions show --source eu --at 2026-01-31T12:00:00Z",
    "aggregator positions history --source eu --topic orders --partition 0",
    "aggregator positions rewind --source eu --by 1h        (shows what would be done)",
    "aggregator positions rewind --source eu --by 1h --yes  (does it)",
    "aggregator positions set --source eu --topic orders --to latest",
)

app = typer.Typer(
    help="Show the positions in the checkpoint, now and in the past, and set them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def show_positions(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: TopicOption = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="As they were then: 2026-01-31T12:00:00Z.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="As they were after commit N.")
    ] = None,
) -> None:
    """Show the position of every source partition, now, at a time, or after a commit."""
    if at is not None and version is not None:
        raise typer.BadParameter("give --at or --version, not both")
    at_ms = parse_time(at) if at is not None else None
    config = load_config(ctx, config_file, sets)
    view = checkpoint_view(config, seq=version, at_ms=at_ms)
    kept = [
        row
        for row in view.positions
        if source in (None, row.cluster) and topic in (None, row.topic)
    ]
    show(report_of_positions(view.model_copy(update={"positions": tuple(kept)})), output)


def show_history(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: TopicOption = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only of this partition.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
) -> None:
    """Show the last commits; with --source, --topic or --partition the positions in them."""
    config = load_config(ctx, config_file, sets)
    place = config.checkpoint
    if (source, topic, partition) == (None, None, None):
        commits = history(place.path, place.storage_options, limit)
        show(report_of_commits(commits, place.path), output)
        return
    changes = position_changes(place, cluster=source, topic=topic, partition=partition, limit=limit)
    show(report_of_changes(changes), output)


def parse_time(text: str) -> int:
    """Milliseconds since 1970 of an ISO 8601 time with a UTC offset; a usage error otherwise."""
    try:
        return int(timestamp_to_millis(datetime.fromisoformat(text)))
    except ValueError as error:
        raise typer.BadParameter(
            f"--at {text}: {error}; write 2026-01-31T12:00:00Z or 2026-01-31T13:00:00+01:00"
        ) from error


def report_of_positions(view: CheckpointView) -> Report:
    """The positions of a state of the checkpoint."""
    data = view.model_dump(mode="json", exclude={"running"})
    if view.seq is None:
        return Report(data, (f"There is no checkpoint under {view.path} yet.",))
    when = f", {cell(view.committed_at)} UTC" if view.committed_at else ""
    head = f"{view.path}: commit {view.seq} of epoch {view.epoch}{when}"
    table = positions_table(view.positions)
    return Report(data, (head, table) if view.positions else (head, "No such positions."))


def report_of_commits(commits: list[Commit], path: str) -> Report:
    """Commits, newest first."""
    rows = [
        (
            commit.seq,
            to_moment(commit.committed_at_ms),
            commit.epoch,
            "start" if commit.kind == "epoch" else "checkpoint",
            commit.lane,
            commit.generation,
            commit.batch,
            commit.positions,
            commit.clean,
        )
        for commit in commits
    ]
    columns = ("commit", "at (UTC)", "epoch", "kind", "lane or owner", "generation", "batch")
    right = frozenset({"commit", "epoch", "generation", "batch", "positions"})
    table = Table("Commits", (*columns, "positions", "clean"), rows, right)
    data = [
        {
            "seq": commit.seq,
            "committed_at": to_moment(commit.committed_at_ms).isoformat(),
            "epoch": commit.epoch,
            "kind": commit.kind,
            "lane": commit.lane,
            "generation": commit.generation,
            "batch": commit.batch,
            "positions": commit.positions,
            "clean": commit.clean,
        }
        for commit in commits
    ]
    return Report(data, (table,) if rows else (f"There is no checkpoint under {path} yet.",))


def report_of_changes(changes: list[PositionChange]) -> Report:
    """Positions by commit, newest first."""
    rows = [
        (
            it.seq,
            it.committed_at,
            it.epoch,
            it.cluster,
            it.topic,
            it.partition,
            it.position,
            it.log_end,
            it.lane,
        )
        for it in changes
    ]
    columns = ("commit", "at (UTC)", "epoch", "source", "topic", "partition", "position")
    right = frozenset({"commit", "epoch", "partition", "position", "log end then"})
    table = Table("Positions by commit", (*columns, "log end then", "lane"), rows, right)
    data = [change.model_dump(mode="json") for change in changes]
    return Report(data, (table,) if rows else ("No such positions.",))


app.command("show")(show_positions)
app.command("history")(show_history)
app.command("set")(set_positions)
app.command("rewind")(rewind)
