"""Lists the consumer groups of the sources."""

from __future__ import annotations

from aggregator.config.schema import Config
from aggregator.features.groups.group_admin import ask_states
from aggregator.features.groups.group_report import GroupRow, GroupsReport
from aggregator.features.groups.hub_offsets import matching
from aggregator.kafka.admin import HUB


def list_groups(config: Config, source: str | None) -> GroupsReport:
    """The groups of all sources, or of one. A cluster that does not answer is in `failed`."""
    aliases = config.chosen(source)
    replies = ask_states(config, (HUB, *aliases))
    found = replies.ok
    rows = []
    for alias in aliases:
        names, groups = found.get(alias, {}), config.sources[alias].groups
        synced = set(matching(names, groups.wanted, groups.unwanted))
        for name, state in names.items():
            at_hub = found.get(HUB, {}).get(name)
            rows.append(
                GroupRow(
                    source=alias,
                    group=name,
                    state=state,
                    synced=name in synced,
                    hub_state=at_hub,
                )
            )
    return GroupsReport(
        name=config.name,
        groups=tuple(sorted(rows, key=lambda row: (row.group, row.source))),
        failed={alias.strip("()"): str(error) for alias, error in replies.failed.items()},
    )
