"""`aggregator dedup`: records whose event the hub held already; list or write them after all."""

from typing import Annotated

import typer

from aggregator.cli.command import Call, Group, command
from aggregator.cli.options import Newest, SinceOption, SourceOption, TopicOption, moment
from aggregator.cli.quarantine import Origins, WouldDo, origins_of, retry_those
from aggregator.cli.render import Columns, Report, moment_of, named, table
from aggregator.features.dedup.duplicates import DroppedReport, dropped_report
from aggregator.features.quarantine.ledger import Filter
from aggregator.features.quarantine.reader import opened_duplicates
from aggregator.plan.topics.quarantine_topics import duplicates_topic

COLUMNS: Columns = {
    **named("origin, event, by, hub topic=hub_topic, bytes, kept, state"),
    "timestamp (UTC)": lambda it: moment_of(it.timestamp_ms),
    "dropped (UTC)": lambda it: moment_of(it.dropped_at_ms),
    "what became of it": "detail",
}


@command(name="list")
def list_dropped(
    call: Call,
    source: SourceOption = None,
    topic: TopicOption = None,
    since: SinceOption = "7d",
    retried: Annotated[
        bool, typer.Option("--retried", help="Also those that were written since.")
    ] = False,
    limit: Newest = 100,
) -> Report:
    """List the records that were dropped, because the hub held their event already.

    Reads the topic of the duplicates from --since on; works beside a running instance and without
    one.
    """
    begin = moment("--since", since)
    with opened_duplicates(call.config, begin) as (_, _, ledger):
        found = list(ledger.select(Filter(source, topic), retried=retried))
    return report_of(dropped_report(duplicates_topic(call.config), found, limit))


@command()
def retry(
    call: Call,
    origin: Origins = None,
    source: SourceOption = None,
    topic: TopicOption = None,
    since: SinceOption = "7d",
    everything: Annotated[
        bool, typer.Option("--all", help="All since then that were not written yet.")
    ] = False,
    dry_run: WouldDo = False,
) -> None:
    """Write dropped records to their hub topic after all: it then holds their event once more.

    Each one is written once, with its origin headers and timestamp, and after records that followed
    it at its source; the duplicates topic gets a note of it. Works beside a running instance.

    Ends with 4 when any record could not be written.
    """
    if not (origin or source or topic or everything):
        raise typer.BadParameter("name them: --origin, --source, --topic, or --all")
    begin = moment("--since", since)
    config = call.config
    wanted = Filter(source, topic, None, origins_of(origin) if origin else None)
    with opened_duplicates(config, begin) as shelf:
        retry_those(call, shelf, wanted, dry_run=dry_run)


def report_of(found: DroppedReport) -> Report:
    """Dropped records, newest last."""
    where, shown = f"{found.topic} at the hub", found.records
    if not shown:
        return Report([], (f"Nothing in {where} since then that was not written again.",))
    left = f"; the newest {len(shown):,} of them" if len(shown) < found.count else ""
    data = [it.model_dump(mode="json") for it in shown]
    dropped = table(f"Dropped, in {where}", COLUMNS, shown)
    return Report(data, (dropped, f"{found.count:,} records{left}"))


GROUP = Group(
    "dedup",
    "Show the records that dedup has dropped, or write them to the hub after all.",
    (list_dropped, retry),
    (
        "aggregator dedup list -c aggregator.yaml",
        "aggregator dedup list --source eu --since 1h -o json",
        "aggregator dedup retry --origin eu/orders-3@5",
    ),
)
