"""`aggregator groups`: consumer groups of the sources, and where they go on at the hub."""

from __future__ import annotations

from typing import Annotated

import typer

from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SourceOption,
    load_config,
    masked,
)
from aggregator.cli.render import Output, Report, Table, show
from aggregator.config.values import parse_duration
from aggregator.errors import EXIT_CLUSTER, EXIT_DATA
from aggregator.groups.core import ApplyRules
from aggregator.groups.cutover import cut_over, translate_group
from aggregator.groups.document import GroupReport, GroupsReport
from aggregator.groups.overview import list_groups

EXAMPLES = (
    "aggregator groups list -c aggregator.yaml",
    "aggregator groups translate billing             (shows where it goes on at the hub)",
    "aggregator groups apply billing                 (writes that at the hub)",
    "aggregator groups cutover billing --timeout 10m (waits until all of it is copied)",
)

app = typer.Typer(
    help="Consumer groups: translate their committed offsets to the hub, exactly.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
Timeout = Annotated[
    str, typer.Option(metavar="10m", help="How long all of it may take.", show_default=True)
]
Backwards = Annotated[
    bool,
    typer.Option("--allow-backwards", help="Also where the hub has a later offset of the group."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show it, and write nothing.")]


def list_(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
) -> None:
    """List the consumer groups of the sources, their states, and which are kept up (groups.sync).

    A source that does not answer is named, and the command ends with 3.
    """
    config = load_config(ctx, config_file, sets)
    found = list_groups(config, source)
    show(report_of_groups(found), output)
    if found.failed:
        raise typer.Exit(EXIT_CLUSTER)


def translate(
    ctx: typer.Context,
    group: Group,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    allow_backwards: Backwards = False,
    timeout: Timeout = "10m",
) -> None:
    """Show where a group goes on at the hub, and how many records it reads again; writes nothing.

    A consumer that goes on there misses nothing. It is the plan of `groups apply`: with the same
    exit code, 4 when not all of it would be written.
    """
    rules = ApplyRules(dry_run=True, allow_backwards=allow_backwards)
    config = load_config(ctx, config_file, sets)
    tell = GroupTeller(ctx)
    _end(translate_group(config, group, source, rules, seconds_of(timeout), tell), output)


def apply(
    ctx: typer.Context,
    group: Group,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    allow_backwards: Backwards = False,
    dry_run: DryRun = False,
    timeout: Timeout = "10m",
) -> None:
    """Write where a group goes on at the hub, as its committed offsets there.

    Not while it has active members at the hub, and never back, unless --allow-backwards is given.
    What is not written is shown with the reason, and the command ends with 4.
    """
    rules = ApplyRules(dry_run=dry_run, allow_backwards=allow_backwards)
    config = load_config(ctx, config_file, sets)
    tell = GroupTeller(ctx)
    _end(translate_group(config, group, source, rules, seconds_of(timeout), tell), output)


def cutover(
    ctx: typer.Context,
    group: Group,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    allow_backwards: Backwards = False,
    dry_run: DryRun = False,
    timeout: Timeout = "10m",
) -> None:
    """Take a group over to the hub: wait until it is at rest and copied, and write its offsets.

    Stop its consumers at the sources. It waits until the group has no active member there, and
    until all is copied that the logs held then. Then it does what `groups apply` does, and shows
    what to start where. The aggregation has to run. Done twice, it changes nothing.
    """
    rules = ApplyRules(dry_run=dry_run, allow_backwards=allow_backwards)
    config = load_config(ctx, config_file, sets)
    tell = GroupTeller(ctx)
    _end(cut_over(config, group, source, rules, seconds_of(timeout), tell), output)


class GroupTeller:
    """Progress on stderr; the same words once."""

    def __init__(self, ctx: typer.Context) -> None:
        self._ctx = ctx
        self._last = ""

    def __call__(self, words: str) -> None:
        """Tell these words."""
        if words != self._last:
            typer.echo(masked(self._ctx, words), err=True)
        self._last = words


def seconds_of(timeout: str) -> float:
    """The value of --timeout; a usage error when it is none."""
    try:
        return float(parse_duration(timeout))
    except ValueError as error:
        raise typer.BadParameter(f"--timeout {error}") from error


def _end(report: GroupReport, output: Output) -> None:
    show(report_of_group(report), output)
    if not report.done:
        raise typer.Exit(EXIT_DATA)


def report_of_groups(found: GroupsReport) -> Report:
    """The groups of all sources."""
    rows = [(it.group, it.source, it.state, it.hub_state, it.synced) for it in found.groups]
    table = Table("Groups", ("group", "source", "state", "state at the hub", "kept up"), rows)
    failed = [f"{alias} cannot be asked: {why}" for alias, why in found.failed.items()]
    none = () if rows else ("No groups.",)
    return Report(found.model_dump(mode="json"), (table, *none, *failed))


def report_of_group(report: GroupReport) -> Report:
    """Where a group goes on, and what was written of that."""
    sources = Table(
        f"Group {report.group} at its sources",
        ("source", "state", "partitions", "read, not copied yet"),
        [(it.source, it.state or None, it.partitions, it.waiting) for it in report.sources],
        frozenset({"partitions", "read, not copied yet"}),
    )
    done = "would be written" if report.dry_run else "written"
    partitions = Table(
        f"At the hub, {report.bootstrap_servers}",
        ("topic", "partition", "goes on at", "reads again", "was at", "", "why"),
        [
            (
                it.topic,
                it.partition,
                it.offset,
                it.again,
                it.before,
                done if it.verdict == "write" else str(it.verdict),
                it.reason or None,
            )
            for it in report.partitions
        ],
        frozenset({"partition", "goes on at", "reads again", "was at"}),
    )
    refused = [f"not translated: {it.topic}: {it.reason}" for it in report.refused]
    notes = [f"note: {it}" for it in report.notes]
    data = {**report.model_dump(mode="json"), "again": report.again, "done": report.done}
    return Report(data, (sources, partitions, *refused, *notes, *_start(report)))


def _start(report: GroupReport) -> list[str]:
    """What to start, where."""
    if not report.done:
        return ["Not all of the group is at the hub."] if not report.dry_run else []
    again = "not counted" if report.again is None else f"{report.again:,} records"
    return [
        f"Start its consumers with bootstrap.servers={report.bootstrap_servers}, "
        f"group.id={report.group}, topics {', '.join(report.topics)}.",
        f"They miss nothing. Read again: {again}.",
    ]


app.command("list")(list_)
app.command("translate")(translate)
app.command("apply")(apply)
app.command("cutover")(cutover)
