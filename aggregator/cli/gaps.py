"""`aggregator gaps`: what was lost at the sources and what was decided about it; no Spark."""

from collections.abc import Sequence
from typing import Annotated

import typer

from aggregator.cli.command import Call, Group, command
from aggregator.cli.options import SourceOption, TopicOption
from aggregator.cli.render import Columns, Report, named, report, table
from aggregator.config.schema import Config
from aggregator.model.errors import RefusedError
from aggregator.plan.positions.gaps import GapRecord
from aggregator.status.gaps import GapsReport, gap_status, gaps_report
from aggregator.status.schema import GapStatus
from aggregator.store.gaps import GapTable
from aggregator.store.state_store import StateStore

TITLE = "Gaps (offsets from, up to and without to)"
COLUMNS: Columns = {
    **named(
        "gap=id, found (UTC)=found_at, source=cluster, topic, partition, cause",
        "from=from_offset, to=to_offset, lost, decision",
    ),
    "state": lambda it: "resolved" if it.resolved else "open",
    "continues at": "resumes_at",
    "why": lambda it: it.note or it.reason,
}
NUMBERS = ("to", "lost", "continues at")


@command()
def gaps(
    call: Call,
    source: SourceOption = None,
    topic: TopicOption = None,
    only_open: Annotated[
        bool, typer.Option("--open", help="Only those that hold their partition back.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many; open ones come first.")] = 50,
) -> Report:
    """Show the gaps: records lost at the sources, topics and clusters that changed.

    Read from the table of gaps beside the checkpoint, whether an instance runs or not.
    """
    records = _kept(call.config).select(source, topic)
    found = gaps_report(records, only_open=only_open, limit=limit)
    return report_of_gaps(found, call.config.checkpoint.path)


@command()
def accept(
    call: Call,
    gap: Annotated[
        list[str] | None, typer.Argument(metavar="[GAP]...", help="Ids of open gaps.")
    ] = None,
    source: SourceOption = None,
    topic: TopicOption = None,
) -> Report:
    """Let partitions continue without what they lost, as `on_gap: skip` would.

    A running instance does so at its next discovery (topics.refresh_interval), else the next start
    does.
    """
    try:
        accepted = _kept(call.config).accept(gap or (), source, topic)
    except RefusedError as error:
        raise typer.BadParameter("; ".join(error.refusals)) from error
    return report_of_accepted(accepted)


def report_of_gaps(found: GapsReport, path: str) -> Report:
    """Gaps in the order given."""
    if not found.total:
        return report(found, f"No gap was ever found; there is none under {path}.")
    head = f"{found.total} gaps, {found.open} of them open"
    shown = table(TITLE, COLUMNS, found.gaps, NUMBERS) if found.gaps else "No such gaps."
    return report(found, head, shown)


def report_of_accepted(accepted: Sequence[GapRecord]) -> Report:
    """What was accepted."""
    shown: list[GapStatus] = [gap_status(record) for record in accepted]
    data = {"accepted": [it.model_dump(mode="json") for it in shown]}
    if not accepted:
        return Report(data, ("No such gap is open.",))
    count = len(accepted)
    said = (
        f"{count} gap{'s' if count > 1 else ''} accepted: their partitions continue at the running "
        "instance's next look, else at the next start"
    )
    return Report(data, (table(TITLE, COLUMNS, shown, NUMBERS), said))


def _kept(config: Config) -> GapTable:
    return GapTable(StateStore.of(config.checkpoint))


GROUP = Group(
    "gaps",
    "Show the gaps: records lost at the sources, topics and clusters that changed.",
    (accept,),
    (
        "aggregator gaps --open",
        "aggregator gaps --source eu --topic orders -o json",
        "aggregator gaps accept 1f0c4e5ab27d9c31",
        "aggregator gaps accept --source eu",
    ),
    alone=gaps,
)
