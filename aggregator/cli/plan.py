"""`aggregator plan`: what a run would do, as a table or JSON; changes nothing."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from aggregator.cli.command import Call, command
from aggregator.cli.render import Cell, Columns, Report, Table, named, table
from aggregator.config.schema import Config
from aggregator.engine.dry_run.first_step import Preview
from aggregator.model.errors import EXIT_CONFIG, EXIT_DONE, CheckpointError, ClusterError
from aggregator.plan.lanes.rate_limits import Limit
from aggregator.plan.lifecycle.commands import Move, RecordGaps, Recover, Start
from aggregator.plan.plan import Plan

OLD_IDS = (
    "records there may keep the ids of their sources, which the hub's registry does not know or "
    "knows as others: translate into another hub topic (rename)"
)


def with_schemas(shown: Report, config: Config, plan: Plan) -> Report:
    """The same with the conflicts of schemas, where ids are translated.

    And with hub topics that hold records already, while the hub's registry has no subject of theirs
    yet: so they were copied when ids were not translated.
    """
    from aggregator.features.schemas.check_ahead import look_at_schemas, translated

    if not translated(plan.routes):
        return shown
    ahead = look_at_schemas(config, plan.routes)
    subjects = {it.hub_topic: it.hub_subject for it in ahead.new if it.hub_topic in plan.hub.topics}
    filled, why = _filled(config, subjects)
    data = {
        "conflicts": [it.to_dict() for it in ahead.conflicts],
        "unknown": dict(ahead.unknown),
        "old_ids": filled,
    }
    lines = [f"warning: schemas: {it}" for it in ahead.conflicts]
    lines += [f"warning: schemas of {it} are not known: {why}" for it, why in ahead.unknown.items()]
    lines += [
        f"warning: schemas: {it} holds records, and the hub's registry no {subjects[it]}: {OLD_IDS}"
        for it in filled
    ]
    lines += [f"warning: schemas: whether hub topics hold records is not known: {why}"] * bool(why)
    if not lines:
        lines = ["All schemas that the registries have by topic fit together."]
    return shown.with_more("schemas", data, *lines)


def _filled(config: Config, topics: Collection[str]) -> tuple[list[str], str]:
    """Those of these hub topics that hold records; or why that is not known."""
    from aggregator.kafka.admin import HUB, open_admin
    from aggregator.kafka.discovery.hub_logs import read_logs

    if not topics:
        return [], ""
    try:
        with open_admin(config, HUB) as admin:
            logs = read_logs(admin, topics, config.supervision.connect_timeout)
    except ClusterError as error:
        return [], str(error)
    return sorted({tp.topic for tp, log in logs.items() if log.earliest < log.latest}), ""


MOST_NAMES = 5
ROUTES = named(
    "source=cluster, topic, partitions, hub topic=hub_topic, hub partitions=hub_partitions",
    "by=partition_by, transform",
)


@command(
    "aggregator plan -c aggregator.yaml",
    "aggregator plan -c aggregator.yaml --set topics.partitions=12 -o json",
)
def plan(call: Call) -> Report:
    """Show what a run would do; change nothing.

    Routes, hub topics, lanes, what is recovered and started first, slots, what is not taken,
    schemas that do not fit together, warnings and refusals. Ends with 2 when the plan is refused,
    with 3 when the hub cannot be reached.
    """
    config = call.config
    call.warn(config)
    from aggregator.engine.dry_run.dry_run_inputs import preview_of
    from aggregator.kafka.discovery.prepare import ahead, prepare

    prepared = prepare(config)
    prepared = replace(prepared, plan=ahead(config, prepared))
    found, first, unknown = prepared.plan, Preview(), ""
    if found.sources and not found.refusals:
        try:
            first = preview_of(config, prepared)
        except (CheckpointError, ClusterError) as error:
            unknown = f"what starts first is not known: {error}"
    shown = report_of_plan(found, first, unknown)
    return with_schemas(_with_acls(shown, config, found), config, found)


def _with_acls(shown: Report, config: Config, plan: Plan) -> Report:
    """The same with the ACLs that would be added at the hub, where a source has acls.sync."""
    if not any(it.acls.sync for it in config.sources.values()):
        return shown
    from aggregator.features.acls.acl_admin import look_at_acls

    try:
        found, failed = look_at_acls(config, plan)
    except ClusterError as error:
        return shown.with_more("acls", {"error": str(error)}, f"warning: ACLs: {error}")
    rows = [("add", str(it)) for it in found.add]
    rows += [("not granted by any source; left alone", str(it)) for it in found.superfluous]
    data = {
        "add": [str(it) for it in found.add],
        "superfluous": [str(it) for it in found.superfluous],
        "notes": list(found.notes),
        "failed": {alias.strip("()"): why for alias, why in failed.items()},
    }
    acls = Table("ACLs at the hub", ("what", "ACL"), rows)
    lines = [f"ACLs: {it}" for it in found.notes]
    lines += [f"warning: ACLs: {it}" for it in failed.values()]
    return shown.with_more("acls", data, acls if rows else "No ACLs to add at the hub.", *lines)


def report_of_plan(plan: Plan, first: Preview | None = None, unknown: str = "") -> Report:
    """The plan as a report, with what is done first: the same facts in both forms.

    `unknown` says why that is not known.
    """
    first = first or Preview()
    data = {**plan.to_dict(), "first": _first(first), "first_unknown": unknown}
    at_hub = (*plan.actions, *plan.beside)
    lanes: Columns = {
        "lane": "name",
        "sources": lambda it: ", ".join(it.clusters),
        "partitions": lambda it: len(it.partitions),
        "at most": lambda it: _limits(it.clusters, plan.pace.limits),
    }
    parts: list[Table | str] = [_clusters(plan), table("Routes", ROUTES, plan.routes)]
    if not plan.routes:
        parts.append("No routes: no topic is taken now.")
    if names := [f"{it.cluster}/{it.topic}" for it in plan.routes if it.batch_bytes]:
        parts.append(f"Batches as they are: {_some(names)}")
    parts.append(table("At the hub", {"action": str}, at_hub))
    if not at_hub:
        parts.append("Nothing to do at the hub.")
    parts += [table("Lanes", lanes, plan.lanes), _first_table(first)]
    if unknown:
        parts.append(f"warning: {unknown}")
    slots = plan.slots
    known = "unknown" if slots.slots is None else f"{slots.slots:,}"
    parts.append(f"Slots: {slots.required} needed, {known} given by {slots.master}")
    parts += [f"Tasks: {_tasks(plan)}", _skipped(plan)]
    parts += [f"warning: {warning}" for warning in plan.warnings]
    parts += [f"not taken: {topic}" for topic in plan.refused]
    parts += [f"refused: {refusal}" for refusal in plan.refusals]
    return Report(data, tuple(parts), EXIT_CONFIG if plan.refusals else EXIT_DONE)


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
    for step in first.commands:
        match step:
            case RecordGaps(records):
                rows.append(("record gaps", len(records), None))
            case Move(positions):
                rows.append(("continue after gaps", len(positions), None))
            case Recover(partitions):
                rows.append(("recover", len(partitions), "they start when the hub has been read"))
            case Start(lane):
                rows.append(("start", len(lane.partitions), f"lane {lane.name}"))
    waiting = Counter(first.waiting.values())
    rows += [("wait", count, why) for why, count in waiting.items()]
    return Table("First", ("what", "partitions", "why"), rows)


def _tasks(plan: Plan) -> str:
    own = [f"{alias} {tasks}" for alias, tasks in sorted(plan.own_tasks.items())]
    return ", ".join([f"{plan.tasks} for each source at most", *own])


def _limits(aliases: Iterable[str], limits: Mapping[str, Limit]) -> str:
    said = []
    for alias in aliases:
        limit = limits.get(alias, Limit())
        both = ((limit.records, "records/s"), (limit.bytes_, "bytes/s"))
        said += [f"{alias} {number:,.0f} {unit}" for number, unit in both if number is not None]
    return ", ".join(said)


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
    return Table("Clusters", columns, rows)


def _skipped(plan: Plan) -> Table:
    """Skipped topics, those with the same reason in one row: a cluster may have thousands."""
    groups: dict[tuple[str, str], list[str]] = {}
    for skipped in plan.skipped:
        groups.setdefault((skipped.cluster, skipped.reason), []).append(skipped.topic)
    rows = [
        (cluster, len(topics), reason, _some(topics))
        for (cluster, reason), topics in groups.items()
    ]
    return Table("Not taken", ("source", "topics", "why", "names"), rows)


def _some(names: list[str]) -> str:
    more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
