"""`aggregator sources`: list the sources; add, change, restart and remove one while others flow."""

from typing import Annotated, Any

import typer

from aggregator.cli.command import Call, Group, command
from aggregator.cli.control import pause, report_of_reload, report_of_source, resume
from aggregator.cli.options import Alias
from aggregator.cli.render import Report, Table, cell
from aggregator.cli.tables import sources_table
from aggregator.features.connectors import config_keys as words
from aggregator.features.connectors.connector_table import Change
from aggregator.features.connectors.to_source import translate
from aggregator.model.errors import ConfigError
from aggregator.status.schema import Status


@command(name="list")
def list_sources(call: Call) -> Report:
    """List the sources, as without a subcommand."""
    aggregation = call.aggregation
    found = aggregation.ask("/api/status", Status, lambda absent: absent)
    changes = aggregation.changes().values()
    head: tuple[str, ...] = ()
    if isinstance(found, Status):
        shown = sources_table(found)
        data: dict[str, Any] = {
            "running": True,
            "sources": [it.model_dump(mode="json") for it in found.sources],
        }
    else:
        paused = aggregation.paused()
        states = [(it, "PAUSED" if it in paused else None) for it in call.config.sources]
        state = "cannot be asked" if found.is_there else "not running"
        head = (f"{call.config.name}: {state} ({found.reason})",)
        shown = Table("Sources", ("source", "state"), states)
        data = {"running": False, "reason": found.reason, "sources": [*call.config.sources]}
    # What they hold is no secret.
    data["changes"] = [
        {
            "source": it.name,
            "removed": it.config is None,
            "by": it.by,
            "at": it.at.isoformat(),
            "config": it.config,
        }
        for it in changes
    ]
    return Report(data, (*head, shown, *map(_words, changes)))


@command()
def add(
    call: Call,
    alias: Alias,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="More keys, as in docs/rest.md."),
    ] = None,
    servers: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Its address; several with commas.")
    ] = "",
    topics: Annotated[str, typer.Option(help="Regex of topics to take.")] = "",
    rename: Annotated[str, typer.Option(help="Hub topic name, e.g. ${topic}.replica.")] = "",
    start: Annotated[str, typer.Option(help="earliest, latest, or a time.")] = "",
) -> Report:
    """Add a source, or replace one as a whole.

    A running instance copies it at once; without one the next start does. Give a secret as
    ${env:NAME}, ${file:PATH} or ${file:PATH:KEY}.
    """
    given = {
        words.ADDRESS[0]: servers,
        "topics": topics,
        words.RENAME: rename,
        "aggregator.start": start,
        **_pairs(more or []),
    }
    connector = {key: value for key, value in given.items() if value}
    found = translate(alias, connector)
    if found.problems:
        raise ConfigError(found.problems)
    done = call.aggregation.put_source(alias, connector, lambda: call.load({alias: found.source}))
    for key, why in found.notes.items():
        call.say(f"warning: {key}: {why}")
    return report_of_reload(done)


@command()
def remove(call: Call, alias: Alias) -> Report:
    """Remove a source. Its positions are kept: if it is added again, it continues from there."""
    return report_of_reload(call.aggregation.remove_source(alias))


@command()
def reset(call: Call, alias: Alias) -> Report:
    """Undo what was added, changed or removed at run time: the config file applies again."""
    return report_of_reload(call.aggregation.reset_source(alias, call.load))


@command()
def restart(call: Call, alias: Alias) -> Report:
    """Restart the lanes of a source cleanly."""
    return report_of_source(call.aggregation.restart(alias))


def _pairs(given: list[str]) -> dict[str, str]:
    found = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"'{item}' is not KEY=VALUE")
        found[key] = value
    return found


def _words(change: Change) -> str:
    what = "removed" if change.config is None else "put"
    return f"{change.name} was {what} at {cell(change.at)} UTC by {change.by}"


GROUP = Group(
    "sources",
    "List the sources; add, change, restart and remove one while the others flow.",
    (list_sources, add, remove, reset, restart, pause, resume),
    (
        "aggregator sources",
        "aggregator sources add us --servers us:9092 --topics 'orders|payments[.].*'",
        "aggregator sources add us --servers us:9092 --topics orders aggregator.on_gap=skip",
        "aggregator sources pause us",
        "aggregator sources restart us",
        "aggregator sources remove us",
        "aggregator sources reset us",
    ),
    alone=list_sources,
)
