"""`aggregator plan`: what a run would do, as a table or JSON; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import typer

from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config, warn
from aggregator.cli.render import Cell, Output, Report, Table, show
from aggregator.errors import EXIT_CONFIG
from aggregator.plan.pace import Limit
from aggregator.plan.plan import Plan

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

    Routes, hub topics, lanes, slots, what is not taken, warnings and refusals. Ends with 2 when
    the plan is refused, with 3 when the hub cannot be reached.
    """
    config = load_config(ctx, config_file, sets)
    warn(config, ctx)
    from aggregator.engine.prepare import prepare

    found = prepare(config).plan
    show(report_of_plan(found), output)
    if found.refusals:
        raise typer.Exit(EXIT_CONFIG)


def report_of_plan(plan: Plan) -> Report:
    """The plan as a report: the same facts in both forms."""
    data = plan.to_dict()
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
    actions = Table("At the hub", ("action",), [(str(action),) for action in plan.actions])
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
            *(() if plan.actions else ("Nothing to do at the hub.",)),
            lanes,
            f"Slots: {slots.required} needed, {known} given by {slots.master}",
            f"Tasks: {_tasks(plan)}",
            _skipped(plan),
            *(f"warning: {warning}" for warning in plan.warnings),
            *(f"refused: {refusal}" for refusal in plan.refusals),
        ),
    )


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
