"""`aggregator groups`: consumer groups of the sources, and where they continue at the hub."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from aggregator.cli.command import Call, Group, command
from aggregator.cli.options import DryRun, SourceOption, Timeout, duration
from aggregator.cli.render import Report, Table, named, report, table
from aggregator.features.groups.cutover import Outcome, translate_groups
from aggregator.features.groups.group_report import GroupReport, GroupsReport, list_groups
from aggregator.features.groups.hub_offsets import ApplyRules
from aggregator.model.errors import EXIT_CLUSTER, EXIT_DATA, EXIT_DONE

GroupNames = Annotated[
    list[str], typer.Argument(metavar="GROUP...", help="The consumer groups, together.")
]


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Which offsets of a group are translated, and for how long it is tried."""

    source: SourceOption = None
    allow_backwards: Annotated[
        bool,
        typer.Option(
            "--allow-backwards", help="Also where the hub has a later offset of the group."
        ),
    ] = False
    timeout: Timeout = "10m"


@command(name="list")
def list_(call: Call, source: SourceOption = None) -> Report:
    """List the consumer groups of the sources, their states, and which are kept up (groups.sync).

    A source that does not answer is named, and the command ends with 3.
    """
    return report_of_groups(list_groups(call.config, source))


@command()
def translate(call: Call, groups: GroupNames, how: GroupOptions) -> Report:
    """Show where groups continue at the hub, and how many records each reads again; writes nothing.

    A consumer that continues there misses nothing. It is the plan of `groups apply`: with the same
    exit code, 4 when not all of it would be written.
    """
    return _done(call, groups, how, dry_run=True)


@command()
def apply(call: Call, groups: GroupNames, how: GroupOptions, dry_run: DryRun = False) -> Report:
    """Write where groups continue at the hub, as their committed offsets there.

    Not while one has active members at the hub, and never back, unless --allow-backwards is given.
    What is not written is shown with the reason, and the command ends with 4.
    """
    return _done(call, groups, how, dry_run=dry_run)


@command()
def cutover(call: Call, groups: GroupNames, how: GroupOptions, dry_run: DryRun = False) -> Report:
    """Move groups to the hub: wait until they are inactive and all is copied, and write offsets.

    Stop their consumers at the sources first. It waits until no group has an active member there,
    and until everything is copied that the logs held then. Then it does what `groups apply` does,
    and shows what to start where. The aggregation must be running. Run again, it changes nothing.
    """
    return _done(call, groups, how, dry_run=dry_run, cut_over=True)


def _done(
    call: Call, groups: Sequence[str], how: GroupOptions, *, dry_run: bool, cut_over: bool = False
) -> Report:
    rules = ApplyRules(dry_run=dry_run, allow_backwards=how.allow_backwards)
    config, seconds = call.config, duration("--timeout", how.timeout)
    outcomes = translate_groups(
        config, groups, how.source, rules, seconds, call.progress(), cut_over=cut_over
    )
    return report_of_outcomes(outcomes)


def report_of_outcomes(outcomes: Mapping[str, Outcome]) -> Report:
    """What became of each group; of one alone as `report_of_group` says it.

    Raises the reason why the only one failed. Of several, the worst exit code counts.
    """
    parts: list[Table | str] = []
    data: list[Any] = []
    codes: list[int] = []
    for group, outcome in outcomes.items():
        if isinstance(outcome, GroupReport):
            own = report_of_group(outcome)
            if len(outcomes) == 1:
                return own
            data.append(own.data)
            parts += own.parts
            codes.append(own.exit_code)
        elif len(outcomes) == 1:
            raise outcome
        else:
            data.append({"group": group, "done": False, "error": str(outcome)})
            parts.append(f"group {group}: {outcome}")
            codes.append(outcome.exit_code)
    done = sum(it == EXIT_DONE for it in codes)
    parts.append(f"{done} of {len(codes)} groups are done.")
    return Report({"groups": data, "done": done == len(codes)}, tuple(parts), max(codes))


def report_of_groups(found: GroupsReport) -> Report:
    """The groups of all sources."""
    columns = named("group, source, state, state at the hub=hub_state, kept up=synced")
    failed = [f"not all groups of {alias} are known: {why}" for alias, why in found.failed.items()]
    none = () if found.groups else ("No groups.",)
    code = EXIT_CLUSTER if found.failed else EXIT_DONE
    return report(found, table("Groups", columns, found.groups), *none, *failed, exit_code=code)


def report_of_group(report: GroupReport) -> Report:
    """Where a group continues, and what was written of that."""
    waiting = "read, not copied yet"
    sources = table(
        f"Group {report.group} at its sources",
        {"source": "source", "state": "state", "partitions": "partitions", waiting: "waiting"},
        report.sources,
        (waiting,),
    )
    done = "would be written" if report.dry_run else "written"
    partitions = table(
        f"At the hub, {report.bootstrap_servers}",
        {
            "topic": "topic",
            "partition": "partition",
            "continues at": "offset",
            "reads again": "again",
            "was at": "before",
            "": lambda it: done if it.verdict == "write" else str(it.verdict),
            "why": "reason",
        },
        report.partitions,
        ("continues at", "reads again", "was at"),
    )
    refused = [f"not translated: {it.topic}: {it.reason}" for it in report.refused]
    notes = [f"note: {it}" for it in report.notes]
    data = {**report.model_dump(mode="json"), "again": report.again, "done": report.done}
    parts: tuple[Table | str, ...] = (sources, partitions, *refused, *notes, *_start(report))
    return Report(data, parts, EXIT_DONE if report.done else EXIT_DATA)


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


GROUP = Group(
    "groups",
    "Consumer groups: translate their committed offsets to the hub, exactly.",
    (list_, translate, apply, cutover),
    (
        "aggregator groups list -c aggregator.yaml",
        "aggregator groups translate billing             (shows where it continues at the hub)",
        "aggregator groups apply billing                 (writes that at the hub)",
        "aggregator groups cutover billing --timeout 10m (waits until all of it is copied)",
        "aggregator groups cutover billing audit shop    (several, with one wait)",
    ),
)
