"""`aggregator positions set` and `rewind`: first shown, and with `--yes` done."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError

from aggregator.cli.logs import event_log
from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SourceOption,
    TopicOption,
    load_config,
    masked,
)
from aggregator.cli.render import Output, Report, Table, show, tell
from aggregator.cli.running import Absent, command_running
from aggregator.cli.verify import parse_moment
from aggregator.config.schema import Config
from aggregator.config.values import parse_duration
from aggregator.moves.core import TARGETS, MoveRequest
from aggregator.moves.document import MovesReport
from aggregator.writing.lock import refuse_if_held

Partition = Annotated[int | None, typer.Option(min=0, help="Only of this partition.")]
Edge = Annotated[
    Literal["earliest", "latest"] | None, typer.Option("--to", help="To an end of the logs.")
]
Offset = Annotated[
    int | None, typer.Option("--to-offset", metavar="N", min=0, help="The next offset to read.")
]
Time = Annotated[
    str | None,
    typer.Option("--to-time", metavar="TIME", help="As the records say: 2026-01-31T12:00:00Z."),
]
Version = Annotated[
    int | None,
    typer.Option("--to-version", metavar="N", min=1, help="As they were after commit N."),
]
Again = Annotated[
    bool, typer.Option("--again", help="Write also what the hub has: it is there twice then.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without it, it is only shown.")]


def set_positions(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: TopicOption = None,
    partition: Partition = None,
    to: Edge = None,
    to_offset: Offset = None,
    to_time: Time = None,
    to_version: Version = None,
    again: Again = False,
    yes: Yes = False,
) -> None:
    """Set the positions of all partitions that are named, forward or back.

    Without --yes it only shows what would be done. Going back, the next start writes only what
    the hub lacks, unless --again is given. Going forward skips records: the range is shown, and
    recorded as a gap. A quarantined partition is released. Positions must be within the live logs.

    For a running instance the sources have to be paused there.
    """
    request = _request(
        source=source,
        topic=topic,
        partition=partition,
        to=to,
        to_offset=to_offset,
        to_time_ms=parse_moment("--to-time", to_time),
        to_version=to_version,
        again=again,
    )
    config = load_config(ctx, config_file, sets)
    _show(ctx, config, request, yes, output)


def rewind(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: TopicOption = None,
    partition: Partition = None,
    by: Annotated[
        str | None, typer.Option(metavar="1h", help="To what was written so long before now.")
    ] = None,
    by_offsets: Annotated[
        int | None, typer.Option("--by-offsets", metavar="N", min=1, help="So many offsets back.")
    ] = None,
    to: Edge = None,
    to_offset: Offset = None,
    to_time: Time = None,
    to_version: Version = None,
    again: Again = False,
    yes: Yes = False,
) -> None:
    """Set positions back; as `positions set`, but never forward.

    A partition that is before the target already stays where it is.
    """
    try:
        by_seconds = None if by is None else parse_duration(by)
    except ValueError as error:
        raise typer.BadParameter(f"--by {error}") from error
    request = _request(
        source=source,
        topic=topic,
        partition=partition,
        to=to,
        to_offset=to_offset,
        to_time_ms=parse_moment("--to-time", to_time),
        to_version=to_version,
        by_seconds=by_seconds,
        by_offsets=by_offsets,
        again=again,
        rewind=True,
    )
    config = load_config(ctx, config_file, sets)
    _show(ctx, config, request, yes, output)


def report_of_moves(found: MovesReport, *, more: bool) -> Report:
    """What is to be done, or was; `more` tells that --yes does it."""
    rows = [
        (it.cluster, it.topic, it.partition, it.position, it.new, it.difference, it.what)
        for it in found.moves
    ]
    columns = ("source", "topic", "partition", "now", "new", "difference", "what will happen")
    right = frozenset({"partition", "now", "new", "difference"})
    title = "Positions, if you say --yes" if found.dry_run else "Positions that were set"
    lines = [f"note: {note}" for note in found.notes]
    if found.tail:
        lines.append(f"note: {found.tail:,} offsets of the hub are read before it goes on")
    if not found.changes:
        lines.append("Nothing is to be changed.")
    elif found.commit is not None:
        lines.append(f"Set in commit {found.commit}.")
    elif more:
        lines.append("Nothing was changed. The same with --yes does it.")
    return Report(found.model_dump(mode="json"), (Table(title, columns, rows, right), *lines))


def _request(**fields: Any) -> MoveRequest:
    given = [name for name in TARGETS if fields.get(name) is not None]
    if len(given) != 1:
        shown = "--to, --to-offset, --to-time, --to-version"
        shown += ", --by, --by-offsets" if fields.get("rewind") else ""
        raise typer.BadParameter(f"say where to, with one of {shown}")
    try:
        return MoveRequest(**fields)
    except ValidationError as error:
        raise typer.BadParameter("; ".join(it["msg"] for it in error.errors())) from error


def _show(
    ctx: typer.Context, config: Config, request: MoveRequest, yes: bool, output: Output
) -> None:
    show(report_of_moves(moves_of(ctx, config, request, yes), more=not yes), output)


def moves_of(ctx: typer.Context, config: Config, request: MoveRequest, yes: bool) -> MovesReport:
    """Do it, by the running instance if there is one, or with `yes` False only say what it is."""
    body = {**request.model_dump(), "dry_run": not yes}
    found = command_running(config, "POST", "/api/positions", MovesReport, body)
    return _stopped(ctx, config, request, yes) if isinstance(found, Absent) else found


def _stopped(ctx: typer.Context, config: Config, request: MoveRequest, yes: bool) -> MovesReport:
    """Do it in the checkpoint, when no instance runs on it."""
    # Not even shown: whoever runs there has other positions than the checkpoint.
    refuse_if_held(config.checkpoint, tell)
    if not yes:
        from aggregator.moves.propose import propose

        return propose(config, request).report(config, dry_run=True, running=False)
    from aggregator.backfills.stopped import are_busy, refuse_moves
    from aggregator.moves.propose import propose
    from aggregator.moves.stopped import set_positions as set_by_hand

    if are_busy(config):
        refuse_moves(config, propose(config, request).plan)
    log = event_log(lambda text: masked(ctx, text))
    return set_by_hand(
        config, request, lambda event: log(event.kind, event.message, **event.fields)
    )
