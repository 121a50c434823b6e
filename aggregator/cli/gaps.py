"""`aggregator gaps`: what was lost at the sources and what was decided about it; no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SourceOption,
    TopicOption,
    load_config,
)
from aggregator.cli.render import Output, Report, Table, show
from aggregator.config.schema import Config
from aggregator.documents.document import GapStatus
from aggregator.errors import RefusedError
from aggregator.gaps.core import GapRecord
from aggregator.gaps.decide import accept_gaps, load_gaps
from aggregator.gaps.document import GapsReport, gap_status, gaps_report
from aggregator.gaps.table import GapTable

EXAMPLES = (
    "aggregator gaps --open",
    "aggregator gaps --source eu --topic orders -o json",
    "aggregator gaps accept 1f0c4e5ab27d9c31",
    "aggregator gaps accept --source eu",
)

app = typer.Typer(
    help="Show the gaps: records lost at the sources, topics and clusters that changed.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def gaps(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: TopicOption = None,
    only_open: Annotated[
        bool, typer.Option("--open", help="Only those that hold their partition back.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many; open ones come first.")] = 50,
) -> None:
    """Show the gaps: records lost at the sources, topics and clusters that changed.

    Read from the table of gaps beside the checkpoint, whether an instance runs or not.
    """
    if ctx.invoked_subcommand is not None:
        return
    config = load_config(ctx, config_file, sets)
    records = load_gaps(_table(config), source, topic)
    found = gaps_report(records, only_open=only_open, limit=limit)
    show(report_of_gaps(found, config.checkpoint.path), output)


@app.command()
def accept(
    ctx: typer.Context,
    gap: Annotated[
        list[str] | None, typer.Argument(metavar="[GAP]...", help="Ids of open gaps.")
    ] = None,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: TopicOption = None,
) -> None:
    """Let partitions go on without what they lost, as `on_gap: skip` would.

    A running instance does so at its next look (topics.refresh_interval), else the next start does.
    """
    config = load_config(ctx, config_file, sets)
    try:
        accepted = accept_gaps(_table(config), gap or (), source, topic)
    except RefusedError as error:
        raise typer.BadParameter("; ".join(error.refusals)) from error
    show(report_of_accepted(accepted), output)


def report_of_gaps(found: GapsReport, path: str) -> Report:
    """Gaps in the order given."""
    data = found.model_dump(mode="json")
    if not found.total:
        return Report(data, (f"No gap was ever found; there is none under {path}.",))
    head = f"{found.total} gaps, {found.open} of them open"
    return Report(data, (head, _gaps_table(found.gaps)) if found.gaps else (head, "No such gaps."))


def report_of_accepted(accepted: Sequence[GapRecord]) -> Report:
    """What was accepted."""
    shown = [gap_status(record) for record in accepted]
    data = {"accepted": [it.model_dump(mode="json") for it in shown]}
    if not accepted:
        return Report(data, ("No such gap is open.",))
    count = len(accepted)
    said = (
        f"{count} gap{'s' if count > 1 else ''} accepted: their partitions go on at the running "
        "instance's next look, else at the next start"
    )
    return Report(data, (_gaps_table(shown), said))


def _gaps_table(gaps: Sequence[GapStatus]) -> Table:
    rows = [
        (
            it.id,
            it.found_at,
            it.cluster,
            it.topic,
            it.partition,
            it.cause,
            it.from_offset,
            it.to_offset,
            it.lost,
            it.decision,
            "resolved" if it.resolved else "open",
            it.resumes_at,
            it.note or it.reason,
        )
        for it in gaps
    ]
    columns = ("gap", "found (UTC)", "source", "topic", "partition", "cause", "from", "to", "lost")
    return Table(
        "Gaps (offsets from, up to and without to)",
        (*columns, "decision", "state", "goes on at", "why"),
        rows,
        frozenset({"partition", "from", "to", "lost", "goes on at"}),
    )


def _table(config: Config) -> GapTable:
    return GapTable(config.checkpoint.path, config.checkpoint.storage_options)
