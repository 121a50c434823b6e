"""`aggregator failover` and `failback`: from a source to the hub, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.groups import report_of_group
from aggregator.cli.options import Alias, DryRun, Timeout, duration
from aggregator.cli.options import config_file as file_of
from aggregator.cli.render import Report, Table, named, table
from aggregator.cli.set_positions import report_of_moves
from aggregator.config.java_regex import RegexError, compiled
from aggregator.config.values import patterns
from aggregator.config.yaml_text import parse_yaml
from aggregator.features.failover.failover_report import FailbackReport, FailoverReport, StepRow
from aggregator.model.errors import EXIT_DATA, EXIT_DONE

if TYPE_CHECKING:
    from aggregator.features.failover.failover import FailoverRules


@dataclass(frozen=True, slots=True)
class FailoverOptions:
    """Whether it is done, and for how long it is tried."""

    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Continue although not all of the source is copied."),
    ] = False
    dry_run: DryRun = False
    timeout: Timeout = "10m"

    def rules(self, groups: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> FailoverRules:
        """The same with the groups that come along."""
        from aggregator.features.failover.failover import FailoverRules

        return FailoverRules(
            dry_run=self.dry_run,
            wait=not self.no_wait,
            seconds=duration("--timeout", self.timeout),
            groups=groups,
            exclude=exclude,
        )


@command(
    "aggregator failover eu -c aggregator.yaml --dry-run   (what is behind, who goes where)",
    "aggregator failover eu -c aggregator.yaml",
)
def failover(
    call: Call,
    alias: Alias,
    pace: FailoverOptions,
    groups: Annotated[
        str, typer.Option(metavar="REGEX", help="Move only these groups (whole names).")
    ] = ".*",
    exclude: Annotated[
        str, typer.Option(metavar="REGEX", help="Do not move these; wins over --groups.")
    ] = "",
) -> Report:
    """Move the applications of a source to the hub: its groups, and then its producers.

    If the source answers, waits until all that it holds is copied and its groups are inactive, and
    writes their offsets at the hub. If it does not, shows what of it is not at the hub, and which
    groups the hub has. Then pauses the source, and records the hub's ends for the way back. Prints
    which applications to start where. Run again, it only retries groups that were not moved. Ends
    with 4 when not all of them are at the hub.
    """
    from aggregator.features.failover.failover import fail_over

    config = call.config
    rules = pace.rules(_patterns("--groups", groups), _patterns("--exclude", exclude))
    return report_of_failover(fail_over(config, alias, rules, _pauser(call), call.progress()))


@command(
    "aggregator failback eu -c aggregator.yaml --write back.yaml --dry-run",
    "aggregator failback eu -c aggregator.yaml --write back.yaml",
    "aggregator run -c back.yaml",
)
def failback(
    call: Call,
    alias: Alias,
    pace: FailoverOptions,
    write: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the config of the way back."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> Report:
    """Prepare the way back to a source that has failed over: hub -> old cluster.

    Resumes the source and waits until the hub has what it still held. Makes a config that copies
    back what was written at the hub itself, and nothing that came from a source; checks it at both
    clusters, and sets its start to where the hub ended at the failover. Without --write it prints
    the config and sets nothing. Run again, it changes nothing.
    """
    from aggregator.features.failover.failback import FailbackFile, fail_back

    config = call.config
    file = file_of(call.config_file)
    raw, _ = parse_yaml(file.read_text("utf-8-sig")) if file is not None else ({}, [])
    folder = (write if write is not None else file or Path("x")).parent
    done = fail_back(
        config,
        raw or {},
        alias,
        FailbackFile(write, folder, force),
        pace.rules(),
        _pauser(call),
        call.emit,
        call.progress(),
    )
    return report_of_failback(done, call.masked)


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


def _pauser(call: Call) -> Callable[[str, bool], object]:
    return lambda alias, paused: call.aggregation.pause(alias, None, paused=paused)


def report_of_failover(done: FailoverReport) -> Report:
    """What a failover has done, or would do; and what to start where."""
    behind = named("topic, partition, position, log end=log_end, behind")
    groups = named("group, state at the hub=state, partitions, kept up=synced")
    parts: list[Table | str] = ["All that is known is at the hub."]
    if done.behind:
        title = f"Not at the hub of {done.source}"
        parts = [table(title, behind, done.behind, ("position", "log end", "behind"))]
    for group in done.groups:
        parts += report_of_group(group).parts
    if done.hub_groups:
        parts.append(table("Groups that the hub has", groups, done.hub_groups))
    parts.append(_steps(done.steps))
    parts += [f"group {group} is not taken over: {why}" for group, why in done.failed.items()]
    if done.unlisted:
        parts.append(f"{done.source} may have groups that are left out: {done.unlisted}.")
    parts += [f"note: {it}" for it in done.notes]
    if done.done and not done.dry_run:
        parts.append(
            f"Start consumers and producers with bootstrap.servers={done.bootstrap_servers}, "
            f"topics {', '.join(done.topics)}."
        )
    data = {**done.model_dump(mode="json"), "done": done.done}
    return Report(data, tuple(parts), EXIT_DONE if done.done else EXIT_DATA)


def report_of_failback(done: FailbackReport, mask: Callable[[str], str]) -> Report:
    """The steps of the failback, and how to continue."""
    parts: list[Table | str] = [] if done.file else [mask(done.config)]
    if done.positions is not None:
        parts += report_of_moves(done.positions, more=False).parts
    parts.append(_steps(done.steps))
    parts += [f"note: {it}" for it in done.notes]
    if done.file and not done.dry_run:
        parts.append(f"Continue with: aggregator run -c {done.file}")
    data = done.model_dump(mode="json") | {"config": mask(done.config)}
    return Report(data, tuple(parts))


def _steps(steps: tuple[StepRow, ...]) -> Table:
    return table("Steps", {"step": "step", "": "state", "what": "detail"}, steps)
