"""`aggregator failover` and `failback`: from a source to the hub, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.control import Alias, command_part
from aggregator.cli.groups import DryRun, GroupTeller, Timeout, report_of_group, seconds_of
from aggregator.cli.logs import event_log
from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    load_config,
    masked,
)
from aggregator.cli.options import config_file as file_of
from aggregator.cli.render import Output, Report, Table, show
from aggregator.cli.set_positions import report_of_moves
from aggregator.config.java_regex import RegexError, compiled
from aggregator.config.schema import Config
from aggregator.config.values import patterns
from aggregator.config.yaml_text import parse_yaml
from aggregator.errors import EXIT_DATA
from aggregator.failover.document import FailbackReport, FailoverReport, StepRow

FAILOVER_EXAMPLES = (
    "aggregator failover eu -c aggregator.yaml --dry-run   (what is behind, who goes where)",
    "aggregator failover eu -c aggregator.yaml",
)
FAILBACK_EXAMPLES = (
    "aggregator failback eu -c aggregator.yaml --write back.yaml --dry-run",
    "aggregator failback eu -c aggregator.yaml --write back.yaml",
    "aggregator run -c back.yaml",
)
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Go on although not all is copied that the source has.")
]


def failover(
    ctx: typer.Context,
    alias: Alias,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    no_wait: NoWait = False,
    groups: Annotated[
        str, typer.Option(metavar="REGEX", help="Only these groups come along (whole names).")
    ] = ".*",
    exclude: Annotated[
        str, typer.Option(metavar="REGEX", help="These groups do not; wins over --groups.")
    ] = "",
    dry_run: DryRun = False,
    timeout: Timeout = "10m",
) -> None:
    """Take what uses a source over to the hub: its groups, and then its producers.

    A source that answers: waits until all is copied that it holds, and until its groups are at
    rest, and writes their offsets at the hub. One that does not: says what of it is not at the hub,
    and which groups the hub has. Then the source is paused, and the hub's ends are noted for the
    way back. Prints what to start where. Done again, it tries those groups alone that were not
    taken over, and changes nothing else; ends with 4 when not all are at the hub.
    """
    from aggregator.failover.out import FailoverRules, fail_over

    config = load_config(ctx, config_file, sets)
    rules = FailoverRules(
        dry_run=dry_run,
        wait=not no_wait,
        seconds=seconds_of(timeout),
        groups=_patterns("--groups", groups),
        exclude=_patterns("--exclude", exclude),
    )
    report = fail_over(config, alias, rules, _pauser(config), GroupTeller(ctx))
    show(report_of_failover(report), output)
    if not report.done:
        raise typer.Exit(EXIT_DATA)


def failback(
    ctx: typer.Context,
    alias: Alias,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the config of the way back there."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also over a file that exists.")] = False,
    no_wait: NoWait = False,
    dry_run: DryRun = False,
    timeout: Timeout = "10m",
) -> None:
    """Prepare the way back to a source that has failed over: hub -> old cluster.

    Resumes the source and waits until the hub has what it still held. Makes the config that copies
    back what was written at the hub itself, and nothing that came from a source; checks it at both
    clusters, and has it begin where the hub ended at the failover. Without --write it prints the
    config and sets nothing. Done twice, it changes nothing.
    """
    from aggregator.failover.back import BackFile, fail_back
    from aggregator.failover.out import FailoverRules

    config = load_config(ctx, config_file, sets)
    file = file_of(config_file)
    raw, _ = parse_yaml(file.read_text("utf-8-sig")) if file is not None else ({}, [])
    folder = (write if write is not None else file or Path("x")).parent
    log = event_log(lambda text: masked(ctx, text))
    report = fail_back(
        config,
        raw or {},
        alias,
        BackFile(write, folder, force),
        FailoverRules(dry_run=dry_run, wait=not no_wait, seconds=seconds_of(timeout)),
        _pauser(config),
        lambda event: log(event.kind, event.message, **event.fields),
        GroupTeller(ctx),
    )
    show(report_of_failback(ctx, report), output)


def _patterns(option: str, text: str) -> tuple[str, ...]:
    """The patterns of an option, as groups.sync has them; a usage error for what is no regex."""
    for pattern in (found := tuple(patterns(text))):
        try:
            compiled(pattern)
        except RegexError as error:
            raise typer.BadParameter(
                f"{option}: '{pattern}' is not a regex: {error.where}"
            ) from error
    return found


def _pauser(config: Config) -> Callable[[str, bool], object]:
    return lambda alias, paused: command_part(config, alias, None, paused=paused)


def report_of_failover(report: FailoverReport) -> Report:
    """What a failover has done, or would do; and what to start where."""
    behind = Table(
        f"Not at the hub of {report.source}",
        ("topic", "partition", "position", "log end", "behind"),
        [(it.topic, it.partition, it.position, it.log_end, it.behind) for it in report.behind],
        frozenset({"partition", "position", "log end", "behind"}),
    )
    parts: list[Table | str] = [behind if report.behind else "All that is known is at the hub."]
    for group in report.groups:
        parts += report_of_group(group).parts
    if report.hub_groups:
        rows = [(it.group, it.state, it.partitions, it.synced) for it in report.hub_groups]
        columns = ("group", "state at the hub", "partitions", "kept up")
        parts.append(Table("Groups that the hub has", columns, rows, frozenset({"partitions"})))
    parts.append(_steps(report.steps))
    parts += [f"group {group} is not taken over: {why}" for group, why in report.failed.items()]
    parts += [f"note: {it}" for it in report.notes]
    if report.done and not report.dry_run:
        parts.append(
            f"Start consumers and producers with bootstrap.servers={report.bootstrap_servers}, "
            f"topics {', '.join(report.topics)}."
        )
    data = {**report.model_dump(mode="json"), "done": report.done}
    return Report(data, tuple(parts))


def report_of_failback(ctx: typer.Context, report: FailbackReport) -> Report:
    """What was done for the way back, and how to go on."""
    parts: list[Table | str] = [] if report.file else [masked(ctx, report.config)]
    if report.positions is not None:
        parts += report_of_moves(report.positions, more=False).parts
    parts.append(_steps(report.steps))
    parts += [f"note: {it}" for it in report.notes]
    if report.file and not report.dry_run:
        parts.append(f"Go on with: aggregator run -c {report.file}")
    data = report.model_dump(mode="json") | {"config": masked(ctx, report.config)}
    return Report(data, tuple(parts))


def _steps(steps: tuple[StepRow, ...]) -> Table:
    rows = [(it.step, str(it.state), it.detail or None) for it in steps]
    return Table("Steps", ("step", "", "what"), rows)
