"""`aggregator backfill`: copy an older range of a topic into the hub beside the live flow."""

import re
import time
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from aggregator.cli.command import Call, Group, command
from aggregator.cli.options import PartitionOption, moment_ms
from aggregator.cli.render import Columns, Report, named, report, table
from aggregator.cli.run import RunOptions, run_config
from aggregator.cli.tables import backfills_table
from aggregator.config.values import parse_size
from aggregator.features.backfill.backfill_report import BackfillReport, BackfillsReport
from aggregator.features.backfill.ranges import BackfillRequest, BackfillState
from aggregator.model.errors import EXIT_DATA, EXIT_DONE, EXIT_OTHER

WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class BackfillOptions:
    """What to read, and how fast."""

    source: Annotated[
        str | None, typer.Option(metavar="ALIAS", help="The source that still has it.")
    ] = None
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="The source topic.")] = None
    partition: PartitionOption = None
    from_: Annotated[
        str, typer.Option("--from", metavar="WHERE", help="earliest, an offset, or a time.")
    ] = "earliest"
    until: Annotated[
        str,
        typer.Option(
            metavar="WHERE", help="Its end, not included: position, an offset, or a time."
        ),
    ] = "position"
    rate: Annotated[
        str | None, typer.Option(metavar="5MB/s", help="The highest rate; or 2000/s, in records.")
    ] = None


@command()
def order(
    call: Call,
    wanted: BackfillOptions,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be read, and start nothing.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Return when it is done. If no instance runs, do it here, and only that."
        ),
    ] = False,
) -> Report:
    """Copy an older range of a topic into the hub beside the live flow.

    For what the hub lacks because the topic was copied from `latest`, or because its position was
    set forward. What the hub already holds of the range is not written again. A running instance
    begins at once, else the next one does; one backfill runs at a time. Times are those of the
    records: 2026-01-31T12:00:00Z.
    """
    if wanted.source is None or wanted.topic is None:
        if not wait or (wanted.source, wanted.topic) != (None, None) or dry_run:
            raise typer.BadParameter("say what to read: --source and --topic")
        return _waited(call, None)
    request = _request(wanted)
    found = call.aggregation.order_backfill(request, dry_run=dry_run)
    return _waited(call, found.backfill.id) if wait and not dry_run else report_of_order(found)


@command(name="list")
def list_(call: Call) -> Report:
    """List all backfills, and how far each is."""
    return report_of_backfills(call.aggregation.backfills())


@command()
def cancel(
    call: Call,
    name: Annotated[str, typer.Argument(metavar="ID", help="As `backfill list` shows it.")],
) -> Report:
    """Stop a backfill. What it has written stays, and a later one leaves it out."""
    found = call.aggregation.cancel_backfill(name)
    it = found.backfill
    return report(found, f"Backfill {it.id} is cancelled; {it.left:,} offsets were not read.")


def _request(wanted: BackfillOptions) -> BackfillRequest:
    records, bytes_ = parse_rate(wanted.rate)
    try:
        return BackfillRequest(
            source=wanted.source or "",
            topic=wanted.topic or "",
            partition=wanted.partition,
            **_place("from", wanted.from_, "earliest"),
            **_place("until", wanted.until, "position"),
            records_per_second=records,
            bytes_per_second=bytes_,
        )
    except ValidationError as error:
        raise typer.BadParameter("; ".join(it["msg"] for it in error.errors())) from error


def parse_rate(text: str | None) -> tuple[float | None, float | None]:
    """Records and bytes per second of `2000/s`, `2000 records/s`, `5MB/s`; one of them is None."""
    if text is None:
        return None, None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(records|[kKMG]i?B|B|)\s*/\s*s\s*", text)
    if match is None or float(match.group(1)) <= 0:
        raise typer.BadParameter(f"--rate {text}: write 5MB/s, or 2000/s in records")
    number, unit = match.groups()
    if unit in ("", "records"):
        return float(number), None
    return None, float(parse_size(number + unit))


def report_of_order(found: BackfillReport) -> Report:
    """The ranges to read."""
    backfill = found.backfill
    columns: Columns = {
        **named("partition, from=begin, until"),
        "offsets": lambda it: it.until - it.begin,
        "deleted at the source": "lost",
    }
    lines = [f"note: {note}" for note in found.notes]
    if found.hub_offsets:
        lines.append(
            f"note: {found.hub_offsets:,} offsets of the hub are read first, to find what it holds"
        )
    if found.dry_run:
        lines.append("Nothing was ordered.")
    elif found.running:
        lines.append(f"Ordered as {backfill.id}: aggregator backfill list shows how far it is.")
    else:
        lines.append(f"Ordered as {backfill.id}: no instance runs, and the next one begins it.")
    return report(
        found, table(f"{backfill.source}/{backfill.topic}", columns, backfill.parts), *lines
    )


def report_of_backfills(found: BackfillsReport, exit_code: int = EXIT_DONE) -> Report:
    """All that were ordered."""
    none = "No backfill was ever ordered."
    shown = backfills_table(found.backfills) if found.backfills else none
    return report(found, shown, exit_code=exit_code)


def _place(end: str, text: str, default: str) -> dict[str, Any]:
    """An offset or a time in the words of a request; nothing for the default."""
    if text == default:
        return {}
    if text.isdigit():
        return {f"{end}_offset": int(text)}
    return {f"{end}_time_ms": moment_ms(f"--{end}", text)}


def _waited(call: Call, name: str | None) -> Report:
    """Wait until this one, or all, have ended; where no instance runs, do them here."""
    aggregation, active = call.aggregation, BackfillState.ACTIVE
    before = {name}
    if name is None:
        before = {it.id for it in aggregation.backfills().backfills if it.state == active}
    code = EXIT_DONE
    if not aggregation.runs():
        try:
            run_config(call, call.load, RunOptions(until_caught_up=True), only_backfills=True)
        except typer.Exit as end:
            code = end.exit_code
    while True:
        found = aggregation.backfills()
        own = tuple(it for it in found.backfills if it.id in before)
        if not found.running or not any(it.state == active for it in own):
            break
        time.sleep(WAIT_SECONDS)
    if any(it.state == BackfillState.FAILED for it in own):
        code = code or EXIT_DATA
    elif any(it.state == active for it in own):
        code = code or EXIT_OTHER
    return report_of_backfills(found.model_copy(update={"backfills": own}), code)


GROUP = Group(
    "backfill",
    "Copy an older range of a topic into the hub beside the live flow.",
    (list_, cancel),
    (
        "aggregator backfill --source eu --topic orders --dry-run",
        "aggregator backfill --source eu --topic orders --rate 5MB/s",
        "aggregator backfill --source eu --topic orders --from 2026-01-01T00:00:00Z --until 120000",
        "aggregator backfill --wait                     (do those that are stored, and end)",
        "aggregator backfill list",
        "aggregator backfill cancel b1",
    ),
    alone=order,
)
