"""`aggregator quarantine`: the records that the hub refused; list them, or try them again."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SourceOption,
    TopicOption,
    load_config,
    masked,
)
from aggregator.cli.render import Output, Report, Table, moment_of, show
from aggregator.config.schema import Config
from aggregator.discover import ClusterAdmin
from aggregator.errors import EXIT_DATA
from aggregator.plan.quarantine import quarantine_topic
from aggregator.quarantine.document import ABSENT, record_of, retry_rows
from aggregator.quarantine.ledger import Filter, Ledger, LedgerEntry
from aggregator.quarantine.reader import QuarantineReader
from aggregator.quarantine.records import Origin, RecordState, parse_origin
from aggregator.quarantine.retry import Retry, RetryOutcome
from aggregator.quarantine.shelf import chosen_of, opened
from aggregator.rules import PoisonReason

EXAMPLES = (
    "aggregator quarantine list -c aggregator.yaml",
    "aggregator quarantine list --source eu --reason too_large -o json",
    "aggregator quarantine retry --origin eu/orders-3@5 --dry-run",
    "aggregator quarantine retry --all",
)
COLUMNS = (
    "origin",
    "why",
    "hub topic",
    "bytes",
    "kept",
    "state",
    "timestamp (UTC)",
    "quarantined (UTC)",
    "what became of it",
)

app = typer.Typer(
    help="Show the records that the hub refused, or try them again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Reason = Annotated[
    PoisonReason | None, typer.Option(help="Only those that were refused for this reason.")
]


def list_quarantined(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: TopicOption = None,
    reason: Reason = None,
    retried: Annotated[
        bool, typer.Option("--retried", help="Also those that the hub has taken since.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many, the newest.")] = 100,
) -> None:
    """List the records that the hub refused, with what became of each.

    Reads the quarantine topic; works beside a running instance and without one.
    """
    config = load_config(ctx, config_file, sets)
    with opened(config) as (_, _, ledger):
        found = list(ledger.select(Filter(source, topic, reason), retried=retried))
    show(report_of_entries(found, config, limit), output)


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
    reason: Reason = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All that are not retried yet.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Also into topics that are compacted or have each event once."
        ),
    ] = False,
) -> None:
    """Write quarantined records to their hub topic, if it takes them now.

    Each one is written once, with its origin headers and timestamp; the quarantine topic gets a
    note of it. It comes later than its order would have it. Works beside a running instance.

    Ends with 4 when any record could not be written.
    """
    if not (origin or source or topic or reason or everything):
        raise typer.BadParameter("name them: --origin, --source, --topic, --reason, or --all")
    config = load_config(ctx, config_file, sets)
    wanted = Filter(source, topic, reason, origins_of(origin) if origin else None)
    with opened(config) as shelf:
        retry_those(ctx, config, shelf, wanted, output, dry_run=dry_run, overwrite=overwrite)


def retry_those(
    ctx: typer.Context,
    config: Config,
    shelf: tuple[ClusterAdmin, QuarantineReader, Ledger],
    wanted: Filter,
    output: Output,
    *,
    dry_run: bool,
    overwrite: bool,
) -> None:
    """Try those again that are wanted of an opened topic, show what became of each, and end."""
    admin, reader, ledger = shelf
    chosen, unknown = chosen_of(ledger, wanted)
    attempts = Retry(config, admin, reader, ledger)
    outcomes: list[RetryOutcome] = []
    try:
        for outcome in attempts.retry(chosen, dry_run=dry_run, overwrite=overwrite):
            outcomes.append(outcome)
    finally:
        # Also when the hub goes away half-way: what was told is done.
        show(report_of_outcomes(ctx, outcomes, unknown, reader.place.topic), output)
    failed = [it for it in outcomes if it.state is not RecordState.RETRIED]
    if unknown or (failed and not dry_run):
        raise typer.Exit(EXIT_DATA)


def report_of_entries(entries: list[LedgerEntry], config: Config, limit: int) -> Report:
    """Quarantined records and their state, newest last."""
    shown = entries[-limit:]
    where = f"{quarantine_topic(config)} at the hub"
    if not entries:
        return Report([], (f"Nothing in {where} that was not retried.",))
    counts = Counter(str(entry.state) for entry in entries)
    states = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    left = f"; the newest {limit:,} of them" if len(shown) < len(entries) else ""
    table = Table(
        f"Quarantined in {where}", COLUMNS, [_row(it) for it in shown], frozenset({"bytes"})
    )
    data = [record_of(entry).model_dump(mode="json") for entry in shown]
    return Report(data, (table, f"{states}{left}"))


def report_of_outcomes(
    ctx: typer.Context, outcomes: list[RetryOutcome], unknown: list[str], aside: str
) -> Report:
    """What became of each record that was to be tried."""
    told = retry_rows(outcomes, unknown)
    tried = told[: len(outcomes)]
    rows = [(it.origin, it.hub_topic, it.state, masked(ctx, it.detail)) for it in tried]
    data = [{**it.model_dump(), "detail": masked(ctx, it.detail)} for it in told]
    table = Table("Retried", ("origin", "hub topic", "state", "what became of it"), rows)
    none = f"Nothing in {aside} that fits and was not retried."
    lines = [f"{it}: {ABSENT}" for it in unknown]
    return Report(data, (table, *lines) if outcomes or unknown else (none,))


def origins_of(texts: list[str]) -> frozenset[Origin]:
    """The origins in these texts, as --origin takes them."""
    found = [parse_origin(text) for text in texts]
    for text, origin in zip(texts, found, strict=True):
        if origin is None:
            raise typer.BadParameter(f"--origin {text}: write source/topic-partition@offset")
    return frozenset(origin for origin in found if origin is not None)


def _row(entry: LedgerEntry) -> tuple[Any, ...]:
    record = entry.record
    return (
        str(record.origin),
        record.reason,
        record.hub_topic,
        record.size,
        record.kept,
        str(entry.state),
        moment_of(record.timestamp),
        moment_of(record.at_ms),
        entry.detail or None,
    )


app.command("list")(list_quarantined)
app.command("retry")(retry)
