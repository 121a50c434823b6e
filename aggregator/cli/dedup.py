"""`aggregator dedup`: records whose event the hub held already; list or write them after all."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SinceOption,
    SourceOption,
    TopicOption,
    load_config,
    moment,
)
from aggregator.cli.quarantine import origins_of, retry_those
from aggregator.cli.render import Output, Report, Table, moment_of, show
from aggregator.dedup.document import DroppedRecord, DroppedReport, dropped_report
from aggregator.plan.quarantine import duplicates_topic
from aggregator.quarantine.ledger import Filter
from aggregator.quarantine.shelf import opened_duplicates

EXAMPLES = (
    "aggregator dedup list -c aggregator.yaml",
    "aggregator dedup list --source eu --since 1h -o json",
    "aggregator dedup retry --origin eu/orders-3@5",
)
COLUMNS = (
    *("origin", "event", "by", "hub topic", "bytes", "kept", "state"),
    *("timestamp (UTC)", "dropped (UTC)", "what became of it"),
)

app = typer.Typer(
    help="Show the records that dedup has dropped, or write them to the hub after all.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def list_dropped(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: TopicOption = None,
    since: SinceOption = "7d",
    retried: Annotated[
        bool, typer.Option("--retried", help="Also those that were written since.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest.")] = 100,
) -> None:
    """List the records that were dropped, because the hub held their event already.

    Reads the topic of the duplicates from --since on; works beside a running instance and without
    one.
    """
    begin = moment("--since", since)
    config = load_config(ctx, config_file, sets)
    with opened_duplicates(config, begin) as (_, _, ledger):
        found = list(ledger.select(Filter(source, topic), retried=retried))
    show(report_of(dropped_report(duplicates_topic(config), found, limit)), output)


def retry(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="eu/orders-3@5", help="This record; may be repeated."),
    ] = None,
    source: SourceOption = None,
    topic: TopicOption = None,
    since: SinceOption = "7d",
    everything: Annotated[
        bool, typer.Option("--all", help="All since then that were not written yet.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
) -> None:
    """Write dropped records to their hub topic after all: its event is there once more then.

    Each one is written once, with its origin headers and timestamp; the topic of the duplicates
    gets a note of it. It comes later than its order would have it. Works beside a running instance.

    Ends with 4 when any record could not be written.
    """
    if not (origin or source or topic or everything):
        raise typer.BadParameter("name them: --origin, --source, --topic, or --all")
    begin = moment("--since", since)
    config = load_config(ctx, config_file, sets)
    wanted = Filter(source, topic, None, origins_of(origin) if origin else None)
    with opened_duplicates(config, begin) as shelf:
        retry_those(ctx, config, shelf, wanted, output, dry_run=dry_run, overwrite=False)


def report_of(found: DroppedReport) -> Report:
    """Dropped records, newest last."""
    where = f"{found.topic} at the hub"
    if not found.records:
        return Report([], (f"Nothing in {where} since then that was not written again.",))
    left = (
        f"; the newest {len(found.records):,} of them" if len(found.records) < found.count else ""
    )
    rows = [_row(it) for it in found.records]
    table = Table(f"Dropped, in {where}", COLUMNS, rows, frozenset({"bytes"}))
    data = [it.model_dump(mode="json") for it in found.records]
    return Report(data, (table, f"{found.count:,} records{left}"))


def _row(record: DroppedRecord) -> tuple[Any, ...]:
    return (
        *(record.origin, record.event, record.by, record.hub_topic, record.bytes, record.kept),
        *(record.state, moment_of(record.timestamp_ms), moment_of(record.dropped_at_ms)),
        record.detail or None,
    )


app.command("list")(list_dropped)
app.command("retry")(retry)
