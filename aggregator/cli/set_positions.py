"""`aggregator positions set` and `rewind`: a dry run, and with `--yes` the change."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError

from aggregator.cli.command import Call, command
from aggregator.cli.options import (
    PartitionOption,
    SourceOption,
    TopicOption,
    Yes,
    duration,
    moment_ms,
)
from aggregator.cli.render import Report, named, report, table
from aggregator.features.positions.change_report import MovesReport
from aggregator.features.positions.targets import TARGETS, MoveRequest


@dataclass(frozen=True, slots=True)
class MoveOptions:
    """Which positions are set, and where to."""

    source: SourceOption = None
    topic: TopicOption = None
    partition: PartitionOption = None
    to: Annotated[
        Literal["earliest", "latest"] | None, typer.Option("--to", help="To an end of the logs.")
    ] = None
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="N", min=0, help="The next offset to read.")
    ] = None
    to_time: Annotated[
        str | None,
        typer.Option("--to-time", metavar="TIME", help="As the records say: 2026-01-31T12:00:00Z."),
    ] = None
    to_version: Annotated[
        int | None,
        typer.Option("--to-version", metavar="N", min=1, help="As they were after commit N."),
    ] = None
    again: Annotated[
        bool, typer.Option("--again", help="Write also what the hub has: it is there twice then.")
    ] = False
    yes: Yes = False


@command(name="set")
def set_positions(call: Call, move: MoveOptions) -> Report:
    """Set the positions of all partitions that are named, forward or back.

    Without --yes it only shows what would be done. Going back, the next start writes only what
    the hub lacks, unless --again is given. Going forward skips records: the range is shown, and
    recorded as a gap. A quarantined partition is released. Positions must be within the live logs.

    For a running instance the sources have to be paused there.
    """
    return _moved(call, move)


@command()
def rewind(
    call: Call,
    move: MoveOptions,
    by: Annotated[
        str | None, typer.Option(metavar="1h", help="To what was written this long before now.")
    ] = None,
    by_offsets: Annotated[
        int | None, typer.Option("--by-offsets", metavar="N", min=1, help="Number of offsets back.")
    ] = None,
) -> Report:
    """Set positions back; as `positions set`, but never forward.

    A partition that is before the target already stays where it is.
    """
    seconds = None if by is None else duration("--by", by)
    return _moved(call, move, by_seconds=seconds, by_offsets=by_offsets, rewind=True)


def _moved(call: Call, move: MoveOptions, **fields: Any) -> Report:
    given = asdict(move) | {"to_time_ms": moment_ms("--to-time", move.to_time)} | fields
    del given["to_time"], given["yes"]
    request = _request(given)
    return report_of_moves(call.aggregation.move(request, dry_run=not move.yes), more=not move.yes)


def report_of_moves(found: MovesReport, *, more: bool) -> Report:
    """What would be done, or was; `more` says that --yes does it."""
    columns = named(
        "source=cluster, topic, partition, now=position, new, difference, what will happen=what"
    )
    title = "Positions, if you say --yes" if found.dry_run else "Positions that were set"
    lines = [f"note: {note}" for note in found.notes]
    if found.tail:
        lines.append(f"note: {found.tail:,} offsets of the hub are read before it continues")
    if not found.changes:
        lines.append("Nothing to change.")
    elif found.commit is not None:
        lines.append(f"Set in commit {found.commit}.")
    elif more:
        lines.append("Nothing was changed. The same with --yes does it.")
    moves = table(title, columns, found.moves, ("now", "new", "difference"))
    return report(found, moves, *lines)


def _request(fields: dict[str, Any]) -> MoveRequest:
    given = [name for name in TARGETS if fields.get(name) is not None]
    if len(given) != 1:
        shown = "--to, --to-offset, --to-time, --to-version"
        shown += ", --by, --by-offsets" if fields.get("rewind") else ""
        raise typer.BadParameter(f"say where to, with one of {shown}")
    try:
        return MoveRequest(**fields)
    except ValidationError as error:
        raise typer.BadParameter("; ".join(it["msg"] for it in error.errors())) from error
