"""`aggregator gaps`: what was lost at the sources and what was decided about it; no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
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
from aggregator.gaps.core import GapRecord
from aggregator.gaps.document import gap_status, newest_first
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
    records = _load(config, source, topic)
    kept = [record for record in newest_first(records) if not (only_open and record.resolved)]
    show(report_of_gaps(kept[:limit], records, config.checkpoint.path), output)


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
    if not gap and source is None and topic is None:
        raise typer.BadParameter("name gaps by their ids, or all open ones by --source or --topic")
    config = load_config(ctx, config_file, sets)
    found = {record.id: record for record in _load(config, source, topic) if not record.resolved}
    if unknown := sorted(set(gap or ()) - found.keys()):
        raise typer.BadParameter(
            f"no open gap {', '.join(unknown)}; `aggregator gaps --open` lists them"
        )
    now = datetime.now(UTC)
    chosen = [found[name] for name in dict.fromkeys(gap)] if gap else list(found.values())
    accepted = [record.accepted(now) for record in chosen]
    _table(config).append(accepted)
    show(report_of_accepted(accepted), output)


def report_of_gaps(shown: Sequence[GapRecord], records: Sequence[GapRecord], path: str) -> Report:
    """Gaps in the order given; `records` are all that there are."""
    still_open = sum(not record.resolved for record in records)
    data = {
        "total": len(records),
        "open": still_open,
        "gaps": [gap_status(record).model_dump(mode="json") for record in shown],
    }
    if not records:
        return Report(data, (f"No gap was ever found; there is none under {path}.",))
    head = f"{len(records)} gaps, {still_open} of them open"
    return Report(data, (head, _gaps_table(shown)) if shown else (head, "No such gaps."))


def report_of_accepted(accepted: Sequence[GapRecord]) -> Report:
    """What was accepted."""
    data = {"accepted": [gap_status(record).model_dump(mode="json") for record in accepted]}
    if not accepted:
        return Report(data, ("No such gap is open.",))
    count = len(accepted)
    said = (
        f"{count} gap{'s' if count > 1 else ''} accepted: their partitions go on at the running "
        "instance's next look, else at the next start"
    )
    return Report(data, (_gaps_table(accepted), said))


def _gaps_table(records: Sequence[GapRecord]) -> Table:
    rows = [
        (
            record.id,
            record.found_at,
            *record.gap.partition,
            record.gap.kind,
            record.gap.start,
            record.gap.end,
            record.gap.lost,
            record.decision,
            "resolved" if record.resolved else "open",
            record.resumes_at,
            record.note or record.gap.reason,
        )
        for record in records
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


def _load(config: Config, source: str | None, topic: str | None) -> list[GapRecord]:
    return [
        record
        for record in _table(config).load().values()
        if source in (None, record.gap.partition.cluster)
        and topic in (None, record.gap.partition.topic)
    ]
