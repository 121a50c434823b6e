"""The groups of the sources, in a list."""

from __future__ import annotations

from collections.abc import Callable

from aggregator.config.schema import Config
from aggregator.discover import HUB, open_admin
from aggregator.discover.discover import LATE_SECONDS
from aggregator.discover.parallel import ask_all
from aggregator.errors import RefusedError
from aggregator.groups.ask import group_states
from aggregator.groups.core import matching
from aggregator.groups.document import GroupRow, GroupsReport


def list_groups(config: Config, source: str | None) -> GroupsReport:
    """The groups of all sources, or of one. A cluster that does not answer is in `failed`."""
    if source is not None and source not in config.sources:
        known = ", ".join(config.sources)
        raise RefusedError([f"there is no source {source}; sources are {known}"])
    aliases = [source] if source is not None else [*config.sources]
    timeout = config.supervision.connect_timeout

    def ask(alias: str) -> Callable[[], dict[str, str]]:
        def call() -> dict[str, str]:
            with open_admin(config, alias) as admin:
                return group_states(admin, timeout)

        return call

    answers = ask_all({it: ask(it) for it in (HUB, *aliases)}, timeout + LATE_SECONDS)
    found = {it: told for it, told in answers.items() if not isinstance(told, Exception)}
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
        failed={
            alias.strip("()"): str(told)
            for alias, told in answers.items()
            if isinstance(told, Exception)
        },
    )
