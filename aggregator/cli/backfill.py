"""`aggregator backfill`: have an older range of a topic come into the hub beside the live flow."""

from __future__ import annotations

import re
import time
from typing import Annotated

import typer
from pydantic import ValidationError

from aggregator.backfills.core import BackfillRequest, BackfillState
from aggregator.backfills.document import BackfillReport, BackfillsReport, backfill_status
from aggregator.backfills.stopped import cancel_stopped, order_stopped, table_of
from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config
from aggregator.cli.render import Output, Report, Table, show, tell
from aggregator.cli.run import run_config
from aggregator.cli.running import Absent, command_running, running_backfills
from aggregator.cli.tables import backfills_table
from aggregator.cli.verify import parse_moment
from aggregator.config.schema import Config
from aggregator.config.values import parse_size
from aggregator.errors import EXIT_DATA, EXIT_OTHER

EXAMPLES = (
    "aggregator backfill --source eu --topic orders --dry-run",
    "aggregator backfill --source eu --topic orders --rate 5MB/s",
    "aggregator backfill --source eu --topic orders --from 2026-01-01T00:00:00Z --until 120000",
    "aggregator backfill --wait                     (do what was ordered, and end)",
    "aggregator backfill list",
    "aggregator backfill cancel b1",
)
BY = "command line"
WAIT_SECONDS = 1.0

app = typer.Typer(
    help="Have an older range of a topic come into the hub beside the live flow.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def order(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: Annotated[
        str | None, typer.Option(metavar="ALIAS", help="The source that still has it.")
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="NAME", help="The source topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only of this partition.")] = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="WHERE", help="earliest, an offset, or a time.")
    ] = "earliest",
    until: Annotated[
        str,
        typer.Option(
            metavar="WHERE", help="Up to here, without it: position, an offset, or a time."
        ),
    ] = "position",
    rate: Annotated[
        str | None, typer.Option(metavar="5MB/s", help="At most so fast; or 2000/s, in records.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be read, and order nothing.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="End when it is done. Where no instance runs, do it here, and only it."
        ),
    ] = False,
) -> None:
    """Have an older range of a topic come into the hub beside the live flow.

    For what the hub lacks because the topic was taken from `latest`, or because its position was
    set forward. What the hub holds already of the range is not written again. A running instance
    begins at once, else the next one does; one backfill goes on at a time. Times are those of the
    records: 2026-01-31T12:00:00Z.
    """
    if ctx.invoked_subcommand is not None:
        return
    if source is None or topic is None:
        if not wait or source is not None or topic is not None or dry_run:
            raise typer.BadParameter("say what is to be read: --source and --topic")
        config = load_config(ctx, config_file, sets)
        _wait(ctx, config, config_file, sets, output, None)
        return
    records, bytes_ = parse_rate(rate)
    try:
        request = BackfillRequest(
            source=source,
            topic=topic,
            partition=partition,
            **_place("from", from_, "earliest"),
            **_place("until", until, "position"),
            records_per_second=records,
            bytes_per_second=bytes_,
        )
    except ValidationError as error:
        raise typer.BadParameter("; ".join(it["msg"] for it in error.errors())) from error
    config = load_config(ctx, config_file, sets)
    found = _order(config, request, dry_run=dry_run)
    if wait and not dry_run:
        _wait(ctx, config, config_file, sets, output, found.backfill.id)
        return
    show(report_of_order(found), output)


@app.command("list")
def list_(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what was ordered, and how far each is."""
    config = load_config(ctx, config_file, sets)
    show(report_of_backfills(_backfills(config)), output)


@app.command()
def cancel(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="As `backfill list` shows it.")],
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read no more of a backfill. What it has written stays, and is skipped by another one."""
    config = load_config(ctx, config_file, sets)
    found = command_running(config, "PUT", f"/api/backfills/{name}/cancel", BackfillReport)
    if isinstance(found, Absent):
        shown = backfill_status(cancel_stopped(config, name, tell))
        found = BackfillReport(name=config.name, running=False, backfill=shown)
    it = found.backfill
    words = f"Backfill {it.id} is cancelled; {it.left:,} offsets were not read."
    show(Report(found.model_dump(mode="json"), (words,)), output)


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
    """What is to be read, or would be."""
    backfill = found.backfill
    rows = [
        (it.partition, it.begin, it.until, it.until - it.begin, it.lost) for it in backfill.parts
    ]
    columns = ("partition", "from", "until", "offsets", "deleted at the source")
    title = f"{backfill.source}/{backfill.topic}"
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
    return Report(
        found.model_dump(mode="json"), (Table(title, columns, rows, frozenset(columns)), *lines)
    )


def report_of_backfills(found: BackfillsReport) -> Report:
    """All that were ordered."""
    data = found.model_dump(mode="json")
    if not found.backfills:
        return Report(data, ("No backfill was ever ordered.",))
    return Report(data, (backfills_table(found.backfills),))


def _place(end: str, text: str, default: str) -> dict[str, int]:
    """An offset or a time in the words of a request; nothing for the default."""
    if text == default:
        return {}
    if text.isdigit():
        return {f"{end}_offset": int(text)}
    moment = parse_moment(f"--{end}", text)
    assert moment is not None
    return {f"{end}_time_ms": moment}


def _order(config: Config, request: BackfillRequest, *, dry_run: bool) -> BackfillReport:
    """Tell the running instance, else note it for the next one."""
    body = {**request.model_dump(), "dry_run": dry_run}
    found = command_running(config, "POST", "/api/backfills", BackfillReport, body)
    if not isinstance(found, Absent):
        return found
    order, ordered = order_stopped(config, request, BY, tell, dry_run=dry_run)
    return order.report(config, ordered, running=False)


def _backfills(config: Config) -> BackfillsReport:
    found = running_backfills(config)
    if not isinstance(found, Absent):
        return found
    known = table_of(config).load().values()
    return BackfillsReport(
        name=config.name, running=False, backfills=tuple(map(backfill_status, known))
    )


def _wait(
    ctx: typer.Context,
    config: Config,
    config_file: ConfigFile,
    sets: Sets,
    output: Output,
    name: str | None,
) -> None:
    """Wait until this one, or all, have ended; where no instance runs, do them here."""
    code = 0
    active = BackfillState.ACTIVE
    before = (
        {name} if name else {it.id for it in _backfills(config).backfills if it.state == active}
    )
    if isinstance(running_backfills(config), Absent):
        try:
            run_config(
                ctx,
                lambda added: load_config(ctx, config_file, sets, added),
                until_caught_up=True,
                only_backfills=True,
            )
        except typer.Exit as end:
            code = end.exit_code
    while True:
        found = _backfills(config)
        own = tuple(it for it in found.backfills if it.id in before)
        if not found.running or not any(it.state == active for it in own):
            break
        time.sleep(WAIT_SECONDS)
    show(report_of_backfills(found.model_copy(update={"backfills": own})), output)
    if any(it.state == BackfillState.FAILED for it in own):
        code = code or EXIT_DATA
    elif any(it.state == active for it in own):
        code = code or EXIT_OTHER
    raise typer.Exit(code)
