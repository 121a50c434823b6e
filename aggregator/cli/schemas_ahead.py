"""The schemas part of `aggregator plan`: conflicts, and records with old ids."""

from __future__ import annotations

from collections.abc import Collection

from aggregator.cli.render import Report
from aggregator.config.schema import Config
from aggregator.model.errors import ClusterError
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
