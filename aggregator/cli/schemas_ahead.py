"""The part of `aggregator plan` about schemas that do not fit together."""

from __future__ import annotations

from aggregator.cli.render import Report
from aggregator.config.schema import Config
from aggregator.plan.plan import Plan


def with_schemas(shown: Report, config: Config, plan: Plan) -> Report:
    """The same with the conflicts of schemas, where ids are translated."""
    from aggregator.schemas.ask import look_at_schemas, translated

    if not translated(plan.routes):
        return shown
    ahead = look_at_schemas(config, plan.routes)
    told = {
        "conflicts": [it.to_dict() for it in ahead.conflicts],
        "unknown": dict(ahead.unknown),
    }
    lines = [f"warning: schemas: {it}" for it in ahead.conflicts]
    lines += [f"warning: schemas of {it} are not known: {why}" for it, why in ahead.unknown.items()]
    if not lines:
        lines = ["All schemas that the registries tell by topic fit together."]
    return Report({**shown.data, "schemas": told}, (*shown.parts, *lines))
