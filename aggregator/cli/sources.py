"""`aggregator sources`: list the sources; add, change, restart and remove one while others flow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import typer

from aggregator.checkpoint.controls import Controls
from aggregator.cli.control import (
    Alias,
    check_alias,
    pause,
    report_of_reload,
    report_of_source,
    resume,
)
from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config
from aggregator.cli.render import Output, Report, Table, cell, show, tell
from aggregator.cli.running import Absent, command_running, running_status
from aggregator.cli.tables import sources_table
from aggregator.config.load import AS_WRITTEN
from aggregator.config.schema import Config
from aggregator.connect import core_words as words
from aggregator.connect.core import translate
from aggregator.connect.table import Change, ConnectorTable
from aggregator.documents.controls import ReloadReport, SourceControl
from aggregator.errors import AggregatorError, ConfigError
from aggregator.writing.lock import for_the_next, refuse_if_held

EXAMPLES = (
    "aggregator sources",
    "aggregator sources add us --servers us:9092 --topics 'orders|payments[.].*'",
    "aggregator sources add us --servers us:9092 --topics orders aggregator.on_gap=skip",
    "aggregator sources pause us",
    "aggregator sources restart us",
    "aggregator sources remove us",
    "aggregator sources reset us",
)
BY = "command line"

app = typer.Typer(
    help="List the sources; add, change, restart and remove one while the others flow.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def sources(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the sources; add, change, restart and remove one while the others flow.

    What is added or removed is kept beside the checkpoint, and holds over restarts.
    """
    if ctx.invoked_subcommand is None:
        _show(load_config(ctx, config_file, sets), output)


@app.command("list")
def list_sources(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the sources, as without a subcommand."""
    _show(load_config(ctx, config_file, sets), output)


def _show(config: Config, output: Output) -> None:
    found = running_status(config)
    changes = _table(config).changes()
    if isinstance(found, Absent):
        paused = Controls(config.checkpoint.path, config.checkpoint.storage_options).read().sources
        table = Table("Sources", ("source", "state"), [
            (alias, "PAUSED" if alias in paused else None) for alias in config.sources
        ])  # fmt: skip
        data = {"running": False, "reason": found.reason, "sources": [*config.sources]}
        head: tuple[str, ...] = (f"{config.name}: not running ({found.reason})",)
    else:
        table, head = sources_table(found), ()
        data = {"running": True, "sources": [it.model_dump(mode="json") for it in found.sources]}
    data["changes"] = [_change(it) for it in changes.values()]
    show(Report(data, (*head, table, *(_words(it) for it in changes.values()))), output)


@app.command()
def add(
    ctx: typer.Context,
    alias: Alias,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="More, in the words of docs/rest.md."),
    ] = None,
    servers: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Its address; several with commas.")
    ] = "",
    topics: Annotated[str, typer.Option(help="Regex of topics to take.")] = "",
    rename: Annotated[str, typer.Option(help="Hub topic name, e.g. ${topic}.replica.")] = "",
    start: Annotated[str, typer.Option(help="earliest, latest, or a time.")] = "",
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add a source, or change the whole of one.

    A running instance takes it up at once; without one the next start does. Give a secret as
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
    config = load_config(ctx, config_file, sets)
    body = {"config": connector}
    answer = command_running(config, "PUT", f"/api/sources/{alias}", ReloadReport, body)
    if isinstance(answer, Absent):
        # As a whole it has to be right, as for an instance that runs.
        load_config(ctx, config_file, sets, {alias: found.source})
        with for_the_next(config.checkpoint, tell):
            answer = _noted(config, alias, connector, stays=True)
    show(report_of_reload(answer), output)
    for key, why in found.notes.items():
        typer.echo(f"warning: {key}: {why}", err=True)


@app.command()
def remove(
    ctx: typer.Context,
    alias: Alias,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take a source out. Its positions stay: added again, it goes on from where it was."""
    config = load_config(ctx, config_file, sets)
    answer = command_running(config, "DELETE", f"/api/sources/{alias}", ReloadReport)
    if isinstance(answer, Absent):
        check_alias(config, alias)
        with for_the_next(config.checkpoint, tell):
            answer = _noted(config, alias, None, stays=False)
    show(report_of_reload(answer), output)


@app.command()
def reset(
    ctx: typer.Context,
    alias: Alias,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take back what was added, changed or removed at run time: the config file holds again."""
    config = load_config(ctx, config_file, sets)
    answer = command_running(config, "PUT", f"/api/sources/{alias}/reset", ReloadReport)
    if isinstance(answer, Absent):
        with for_the_next(config.checkpoint, tell):
            if alias not in _table(config).changes():
                raise typer.BadParameter(f"source {alias} is as the config file has it")
            # As a whole it has to be right without it.
            after = load_config(ctx, config_file, sets, {alias: AS_WRITTEN})
            answer = _noted(config, alias, AS_WRITTEN, stays=alias in after.sources)
    show(report_of_reload(answer), output)


@app.command()
def restart(
    ctx: typer.Context,
    alias: Alias,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let the lanes of a source end cleanly, and start anew."""
    config = load_config(ctx, config_file, sets)
    answer = command_running(config, "PUT", f"/api/sources/{alias}/restart", SourceControl)
    if isinstance(answer, Absent):
        refuse_if_held(config.checkpoint, tell)
        raise AggregatorError(f"nothing to restart: {answer.reason}")
    show(report_of_source(answer), output)


def _noted(
    config: Config, alias: str, connector: Mapping[str, str] | None, *, stays: bool
) -> ReloadReport:
    """Keep a change for the next start."""
    if connector is AS_WRITTEN:
        _table(config).take_back(alias, BY)
    else:
        _table(config).put(alias, connector, BY)
    was = alias in config.sources
    return ReloadReport(
        name=config.name,
        keys=(f"sources.{alias}",),
        added=(alias,) if stays and not was else (),
        removed=(alias,) if was and not stays else (),
        notes=("nothing runs: it holds from the next start on",),
    )


def _pairs(given: list[str]) -> dict[str, str]:
    found = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"'{item}' is not KEY=VALUE")
        found[key] = value
    return found


def _change(change: Change) -> dict[str, object]:
    """A change for programs; what it holds is no secret."""
    return {
        "source": change.name,
        "removed": change.config is None,
        "by": change.by,
        "at": change.at.isoformat(),
        "config": change.config,
    }


def _words(change: Change) -> str:
    what = "removed" if change.config is None else "put"
    return f"{change.name} was {what} at {cell(change.at)} UTC by {change.by}"


def _table(config: Config) -> ConnectorTable:
    return ConnectorTable(config.checkpoint.path, config.checkpoint.storage_options)


app.command("pause")(pause)
app.command("resume")(resume)
