"""`aggregator pause`, `resume`, `reload`: what a running instance is to do from now on."""

from __future__ import annotations

from typing import Annotated

import typer

from aggregator.checkpoint.controls import Controls
from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config
from aggregator.cli.render import Output, Report, cell, show
from aggregator.cli.running import Absent, command_running
from aggregator.config.schema import Config
from aggregator.documents.controls import ReloadReport, SourceControl
from aggregator.errors import AggregatorError
from aggregator.writing.lock import refuse_if_held

PAUSE_EXAMPLES = ("aggregator pause eu -c aggregator.yaml",)
RESUME_EXAMPLES = ("aggregator resume eu -c aggregator.yaml",)
RELOAD_EXAMPLES = ("aggregator reload -c aggregator.yaml", "kill -HUP PID      (the same)")

Alias = Annotated[str, typer.Argument(metavar="ALIAS", help="The source.", show_default=False)]


def pause(
    ctx: typer.Context,
    alias: Alias,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let a source rest: its lanes end cleanly, the other sources go on.

    Returns when they have ended. It stays paused over restarts, until it is resumed. When no
    instance runs, the next one begins with it paused.
    """
    config = load_config(ctx, config_file, sets)
    show(report_of_source(_command(config, alias, paused=True)), output)


def resume(
    ctx: typer.Context,
    alias: Alias,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let a paused source go on from where it is."""
    config = load_config(ctx, config_file, sets)
    show(report_of_source(_command(config, alias, paused=False)), output)


def reload(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have the running instance read its config again.

    It reads the file and the --set values that it was started with. Sources that were added or
    removed, topics and most other keys are taken over while the other lanes run on. With a bad
    config, or a key that needs a restart, everything stays as it was, and all problems are told.
    """
    config = load_config(ctx, config_file, sets)
    answer = command_running(config, "POST", "/api/reload", ReloadReport)
    if isinstance(answer, Absent):
        raise AggregatorError(f"nothing to reload: {answer.reason}")
    show(report_of_reload(answer), output)


def report_of_source(source: SourceControl) -> Report:
    """A source that was paused or resumed."""
    since = f"since {cell(source.since)} UTC" if source.since is not None else ""
    words = f"paused {since}".strip() if source.paused else "not paused"
    return Report(source.model_dump(mode="json"), (f"Source {source.source} is {words}.",))


def report_of_reload(reload: ReloadReport) -> Report:
    """What a reload has changed."""
    sources = (
        ("added", reload.added),
        ("removed", reload.removed),
        ("reconnected", reload.reconnected),
    )
    lines = [f"{word}: {', '.join(names)}" for word, names in sources if names]
    keys = f"Taken over: {', '.join(reload.keys)}" if reload.keys else "Nothing has changed."
    notes = [f"warning: {note}" for note in reload.notes]
    return Report(reload.model_dump(mode="json"), (keys, *lines, *notes))


def check_alias(config: Config, alias: str) -> None:
    """BadParameter when the config has no such source."""
    if alias not in config.sources:
        known = ", ".join(config.sources)
        raise typer.BadParameter(f"there is no source {alias}; sources are {known}")


def _command(config: Config, alias: str, *, paused: bool) -> SourceControl:
    """Tell the running instance, else note it for the next one."""
    word = "pause" if paused else "resume"
    answer = command_running(config, "PUT", f"/api/sources/{alias}/{word}", SourceControl)
    if not isinstance(answer, Absent):
        return answer
    check_alias(config, alias)
    place = config.checkpoint
    # One that runs would not see it.
    refuse_if_held(place.path)
    controls = Controls(place.path, place.storage_options)
    if (alias in controls.paused()) != paused:
        controls.put(alias, paused=paused)
    since = controls.paused().get(alias)
    return SourceControl(name=config.name, source=alias, paused=paused, since=since)
