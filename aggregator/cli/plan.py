"""`aggregator plan`: what a run would do, as a table or JSON; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import typer

from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config, warn
from aggregator.cli.render import Cell, Output, Report, Table, show
from aggregator.cli.schemas_ahead import with_schemas
from aggregator.config.schema import Config
from aggregator.errors import EXIT_CONFIG, CheckpointError, ClusterError
from aggregator.flow.commands import Move, RecordGaps, Recover, Start
from aggregator.plan.pace import Limit
from aggregator.plan.plan import Plan
from aggregator.preview.first import Preview

EXAMPLES = (
    "aggregator plan -c aggregator.yaml",
    "aggregator plan -c aggregator.yaml --set topics.partitions=12 -o json",
)


def plan(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a run would do; change nothing.

    Routes, hub topics, lanes, what is recovered and started first, slots, what is not taken,
    schemas that do not fit together, warnings and refusals. Ends with 2 when the plan is refused,
    with 3 when the hub cannot be reached.
    """
    config = load_config(ctx, config_file, sets)
    warn(config, ctx)
    from aggregator.clusters.prepare import ahead, prepare
    from aggregator.preview.ask import preview_of

    prepared = prepare(config)
    prepared = replace(prepared, plan=ahead(config, prepared))
    found, first, unknown = prepared.plan, Preview(), ""
    if found.sources and not found.refusals:
        try:
            first = preview_of(config, prepared)
        except (CheckpointError, ClusterError) as error:
            unknown = f"what starts first is not known: {error}"
    shown = report_of_plan(found, first, unknown)
    show(with_schemas(_with_acls(shown, config, found), config, found), output)
    if found.refusals:
        raise typer.Exit(EXIT_CONFIG)


def _with_acls(shown: Report, config: Config, plan: Plan) -> Report:
    """The same with the ACLs that would be added at the hub, where a source has acls.sync."""
    if not any(it.acls.sync for it in config.sources.values()):
        return shown
    from aggregator.acls.ask import look_at_acls

    try:
        found, failed = look_at_acls(config, plan)
    except ClusterError as error:
        told = {"error": str(error)}
        return Report({**shown.data, "acls": told}, (*shown.parts, f"warning: ACLs: {error}"))
    rows = [("add", str(it)) for it in found.add]
    rows += [("not granted by any source; left alone", str(it)) for it in found.superfluous]
    table = Table("ACLs at the hub", ("what", "ACL"), rows)
    data = {
        "add": [str(it) for it in found.add],
        "superfluous": [str(it) for it in found.superfluous],
        "notes": list(found.notes),
        "failed": {alias.strip("()"): why for alias, why in failed.items()},
    }
    lines = [f"ACLs: {it}" for it in found.notes]
    lines += [f"warning: ACLs: {it}" for it in failed.values()]
    parts = (*shown.parts, table if rows else "No ACLs to add at the hub.", *lines)
    return Report({**shown.data, "acls": data}, parts)


def report_of_plan(plan: Plan, first: Preview | None = None, unknown: str = "") -> Report:
    """The plan as a report, with what is done first: the same facts in both forms.

    `unknown` says why that is not known.
    """
    first = first or Preview()
    data = {**plan.to_dict(), "first": _first(first), "first_unknown": unknown}
    routes = Table(
        "Routes",
        ("source", "topic", "partitions", "hub topic", "hub partitions", "by", "transform"),
        [
            (
                route.cluster,
                route.topic,
                route.partitions,
                route.hub_topic,
                route.hub_partitions,
                route.partition_by,
                route.transform or None,
            )
            for route in plan.routes
        ],
        frozenset({"partitions", "hub partitions"}),
    )
    at_hub = (*plan.actions, *plan.beside)
    actions = Table("At the hub", ("action",), [(str(action),) for action in at_hub])
    lanes = Table(
        "Lanes",
        ("lane", "sources", "partitions", "at most"),
        [
            (
                lane.name,
                ", ".join(lane.clusters),
                len(lane.partitions),
                _limits(
                    {it: plan.pace.limits[it] for it in lane.clusters if it in plan.pace.limits}
                ),
            )
            for lane in plan.lanes
        ],
        frozenset({"partitions"}),
    )
    slots = plan.slots
    known = "unknown" if slots.slots is None else f"{slots.slots:,}"
    return Report(
        data,
        (
            _clusters(plan),
            routes,
            *(() if plan.routes else ("No routes: no topic is taken now.",)),
            actions,
            *(() if at_hub else ("Nothing to do at the hub.",)),
            lanes,
            _first_table(first),
            *((f"warning: {unknown}",) if unknown else ()),
            f"Slots: {slots.required} needed, {known} given by {slots.master}",
            f"Tasks: {_tasks(plan)}",
            _skipped(plan),
            *(f"warning: {warning}" for warning in plan.warnings),
            *(f"not taken: {topic}" for topic in plan.refused),
            *(f"refused: {refusal}" for refusal in plan.refusals),
        ),
    )


def _first(first: Preview) -> dict[str, Any]:
    """The first commands of a run as JSON-ready data."""
    commands = first.commands
    return {
        "gaps": [
            {"partition": str(record.gap.partition), "decision": str(record.decision)}
            for it in commands
            if isinstance(it, RecordGaps)
            for record in it.records
        ],
        "moved": {
            str(sp): at
            for it in commands
            if isinstance(it, Move)
            for sp, at in it.positions.items()
        },
        "recovered": sorted(
            str(sp) for it in commands if isinstance(it, Recover) for sp in it.partitions
        ),
        "started": [
            {
                "lane": it.lane.name,
                "positions": {str(sp): at for sp, at in it.positions.items()},
            }
            for it in commands
            if isinstance(it, Start)
        ],
        "waiting": {str(sp): why for sp, why in first.waiting.items()},
    }


def _first_table(first: Preview) -> Table:
    """What is done first, in its order; a row for each thing that is done, or waits."""
    rows: list[tuple[Cell, ...]] = []
    for command in first.commands:
        match command:
            case RecordGaps(records):
                rows.append(("record gaps", len(records), None))
            case Move(positions):
                rows.append(("go on behind gaps", len(positions), None))
            case Recover(partitions):
                rows.append(("recover", len(partitions), "they start when the hub has been read"))
            case Start(lane):
                rows.append(("start", len(lane.partitions), f"lane {lane.name}"))
    waiting = Counter(first.waiting.values())
    rows += [("wait", count, why) for why, count in waiting.items()]
    return Table("First", ("what", "partitions", "why"), rows, frozenset({"partitions"}))


def _tasks(plan: Plan) -> str:
    own = [f"{alias} {tasks}" for alias, tasks in sorted(plan.own_tasks.items())]
    return ", ".join([f"{plan.tasks} for each source at most", *own])


def _limits(limits: Mapping[str, Limit]) -> str | None:
    said = []
    for alias, limit in limits.items():
        both = ((limit.records, "records/s"), (limit.bytes_, "bytes/s"))
        said += [f"{alias} {number:,.0f} {unit}" for number, unit in both if number is not None]
    return ", ".join(said) or None


def _clusters(plan: Plan) -> Table:
    rows: list[tuple[Cell, ...]] = [("(hub)", plan.hub.cluster_id, plan.hub.brokers, None, "ok")]
    taken = Counter(route.cluster for route in plan.routes)
    rows += [
        (alias, facts.cluster_id, facts.brokers, taken[alias], "ok")
        for alias, facts in plan.sources.items()
    ]
    rows += [
        (alias, None, None, None, f"{failure.kind}: {failure.reason}")
        for alias, failure in plan.failed.items()
    ]
    columns = ("cluster", "cluster id", "brokers", "topics taken", "state")
    return Table("Clusters", columns, rows, frozenset({"brokers", "topics taken"}))


def _skipped(plan: Plan) -> Table:
    """Skipped topics, those with the same reason in one row: a cluster may have thousands."""
    groups: dict[tuple[str, str], list[str]] = {}
    for skipped in plan.skipped:
        groups.setdefault((skipped.cluster, skipped.reason), []).append(skipped.topic)
    rows = [
        (cluster, len(topics), reason, _some(topics))
        for (cluster, reason), topics in groups.items()
    ]
    return Table("Not taken", ("source", "topics", "why", "names"), rows, frozenset({"topics"}))


def _some(names: list[str], most: int = 5) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
