"""`aggregator quarantine`: the records that the hub refused; list them, or try them again."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from aggregator.cli.command import Call, Group, command
from aggregator.cli.options import Newest, SourceOption, TopicOption
from aggregator.cli.render import Columns, Report, moment_of, named, show, table
from aggregator.config.schema import Config
from aggregator.features.quarantine.ledger import Filter, Ledger, LedgerEntry
from aggregator.features.quarantine.quarantined import ABSENT, record_of, retry_rows
from aggregator.features.quarantine.reader import QuarantineReader, chosen_of, opened
from aggregator.features.quarantine.records import Origin, RecordState, parse_origin
from aggregator.features.quarantine.retry import Retry, RetryOutcome
from aggregator.kafka.admin import ClusterAdmin
from aggregator.model.errors import EXIT_DATA
from aggregator.model.record_rules import PoisonReason
from aggregator.plan.topics.quarantine_topics import quarantine_topic

COLUMNS: Columns = {
    **named("origin, why=reason, hub topic=hub_topic, bytes, kept, state"),
    "timestamp (UTC)": lambda it: moment_of(it.timestamp_ms),
    "quarantined (UTC)": lambda it: moment_of(it.quarantined_at_ms),
    "what became of it": "detail",
}

Reason = Annotated[
    PoisonReason | None, typer.Option(help="Only those that were refused for this reason.")
]
Origins = Annotated[
    list[str] | None, typer.Option(metavar="eu/orders-3@5", help="This record; may be repeated.")
]
WouldDo = Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")]


@command(name="list")
def list_quarantined(
    call: Call,
    source: SourceOption = None,
    topic: TopicOption = None,
    reason: Reason = None,
    retried: Annotated[
        bool, typer.Option("--retried", help="Also those that the hub has taken since.")
    ] = False,
    limit: Newest = 100,
) -> Report:
    """List the records that the hub refused, with what became of each.

    Reads the quarantine topic; works beside a running instance and without one.
    """
    with opened(call.config) as (_, _, ledger):
        found = list(ledger.select(Filter(source, topic, reason), retried=retried))
    return report_of_entries(found, call.config, limit)


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """Which records are tried."""

    origin: Origins = None
    source: SourceOption = None
    topic: TopicOption = None
    reason: Reason = None
    everything: Annotated[bool, typer.Option("--all", help="All that are not retried yet.")] = False


@command()
def retry(
    call: Call,
    wanted: RetryOptions,
    dry_run: WouldDo = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Also into topics that are compacted or have each event once."
        ),
    ] = False,
) -> None:
    """Write quarantined records to their hub topic, if it takes them now.

    Each one is written once, with its origin headers and timestamp, and after records that followed
    it at its source; the quarantine topic gets a note of it. Works beside a running instance.

    Ends with 4 when any record could not be written.
    """
    origin = wanted.origin
    if not (origin or wanted.source or wanted.topic or wanted.reason or wanted.everything):
        raise typer.BadParameter("name them: --origin, --source, --topic, --reason, or --all")
    config = call.config
    origins = origins_of(origin) if origin else None
    chosen = Filter(wanted.source, wanted.topic, wanted.reason, origins)
    with opened(config) as shelf:
        retry_those(call, shelf, chosen, dry_run=dry_run, overwrite=overwrite)


def retry_those(
    call: Call,
    shelf: tuple[ClusterAdmin, QuarantineReader, Ledger],
    wanted: Filter,
    *,
    dry_run: bool,
    overwrite: bool = False,
) -> None:
    """Try those again that are wanted of an opened topic, show what became of each, and end."""
    admin, reader, ledger = shelf
    chosen, unknown = chosen_of(ledger, wanted)
    attempts = Retry(call.config, admin, reader, ledger)
    outcomes: list[RetryOutcome] = []
    try:
        for outcome in attempts.retry(chosen, dry_run=dry_run, overwrite=overwrite):
            outcomes.append(outcome)
    finally:
        # Also when the hub goes away half-way: what was reported is done.
        shown = report_of_outcomes(outcomes, unknown, reader.place.topic, call.masked)
        show(shown, call.output)
    failed = [it for it in outcomes if it.state is not RecordState.RETRIED]
    if unknown or (failed and not dry_run):
        raise typer.Exit(EXIT_DATA)


def report_of_entries(entries: list[LedgerEntry], config: Config, limit: int) -> Report:
    """Quarantined records and their state, newest last."""
    shown = [record_of(entry) for entry in entries[-limit:]]
    where = f"{quarantine_topic(config)} at the hub"
    if not entries:
        return Report([], (f"Nothing in {where} that was not retried.",))
    counts = Counter(str(entry.state) for entry in entries)
    states = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    left = f"; the newest {limit:,} of them" if len(shown) < len(entries) else ""
    data = [it.model_dump(mode="json") for it in shown]
    return Report(data, (table(f"Quarantined in {where}", COLUMNS, shown), f"{states}{left}"))


def report_of_outcomes(
    outcomes: list[RetryOutcome], unknown: list[str], aside: str, mask: Callable[[str], str]
) -> Report:
    """What became of each record that was to be tried."""
    rows = retry_rows(outcomes, unknown)
    rows = tuple(it.model_copy(update={"detail": mask(it.detail)}) for it in rows)
    columns = named("origin, hub topic=hub_topic, state, what became of it=detail")
    none = f"Nothing in {aside} that fits and was not retried."
    lines = [f"{it}: {ABSENT}" for it in unknown]
    shown = table("Retried", columns, rows[: len(outcomes)])
    data = [it.model_dump() for it in rows]
    return Report(data, (shown, *lines) if outcomes or unknown else (none,))


def origins_of(texts: list[str]) -> frozenset[Origin]:
    """The origins in these texts, as --origin takes them."""
    found = [parse_origin(text) for text in texts]
    for text, origin in zip(texts, found, strict=True):
        if origin is None:
            raise typer.BadParameter(f"--origin {text}: write source/topic-partition@offset")
    return frozenset(origin for origin in found if origin is not None)


GROUP = Group(
    "quarantine",
    "Show the records that the hub refused, or try them again.",
    (list_quarantined, retry),
    (
        "aggregator quarantine list -c aggregator.yaml",
        "aggregator quarantine list --source eu --reason too_large -o json",
        "aggregator quarantine retry --origin eu/orders-3@5 --dry-run",
        "aggregator quarantine retry --all",
    ),
)
