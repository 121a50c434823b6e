"""`aggregator pause`, `resume`, `reload`: what a running instance is to do from now on."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from aggregator.checkpoint.controls import Controls, to_resume
from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config
from aggregator.cli.render import Output, Report, show, since, tell
from aggregator.cli.running import Absent, command_running
from aggregator.config.schema import Config
from aggregator.documents.controls import ReloadReport, SourceControl, source_control
from aggregator.errors import AggregatorError
from aggregator.model import Part
from aggregator.writing.lock import for_the_next, refuse_if_held

PAUSE_EXAMPLES = (
    "aggregator pause eu -c aggregator.yaml",
    "aggregator pause eu --topic orders",
    "aggregator pause eu --topic orders --partition 3",
)
RESUME_EXAMPLES = (
    "aggregator resume eu -c aggregator.yaml",
    "aggregator resume eu --topic orders",
)
RELOAD_EXAMPLES = ("aggregator reload -c aggregator.yaml", "kill -HUP PID      (the same)")

Alias = Annotated[str, typer.Argument(metavar="ALIAS", help="The source.", show_default=False)]

Topic = Annotated[str | None, typer.Option(metavar="NAME", help="Only this topic of it.")]
Partition = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Only this partition of the topic.")
]
BY = "command line"


def pause(
    ctx: typer.Context,
    alias: Alias,
    topic: Topic = None,
    partition: Partition = None,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let a source rest, or a topic or a partition of it: its lanes end cleanly, all else goes on.

    Returns when they have ended. It stays paused over restarts, until it is resumed. When no
    instance runs, the next one begins with it paused; one that runs and cannot be asked is named,
    and nothing is changed.
    """
    config = load_config(ctx, config_file, sets)
    part = _part(alias, topic, partition)
    show(report_of_source(command_part(config, alias, part, paused=True)), output)


def resume(
    ctx: typer.Context,
    alias: Alias,
    topic: Topic = None,
    partition: Partition = None,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let what is paused go on from where it is: a source, a topic, or a partition.

    A topic is resumed with all its partitions; a source without the topics of it that were paused
    by themselves.
    """
    config = load_config(ctx, config_file, sets)
    part = _part(alias, topic, partition)
    show(report_of_source(command_part(config, alias, part, paused=False)), output)


def reload(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have the running instance read its config again.

    It reads the file and the --set values that it was started with. Sources that were added or
    removed, topics and most other keys are taken over while the other lanes run on; a key that
    waits for a restart is named, and holds up none of them. With a bad config everything stays as
    it was, and all problems are listed.
    """
    config = load_config(ctx, config_file, sets)
    answer = command_running(config, "POST", "/api/reload", ReloadReport)
    if isinstance(answer, Absent):
        refuse_if_held(config.checkpoint, tell)
        raise AggregatorError(f"nothing to reload: {answer.reason}")
    show(report_of_reload(answer), output)


def report_of_source(source: SourceControl) -> Report:
    """A source, or a part of one, that was paused or resumed."""
    words = f"paused {since(source.since, source.by)}" if source.paused else "not paused"
    name = f"Source {source.source}"
    if source.topic:
        name = f"Topic {source.topic} of {source.source}"
        if source.partition is not None:
            name = f"Partition {source.partition} of {source.source}/{source.topic}"
    parts = ", ".join(source.parts)
    more = (f"Paused by themselves: {parts}.",) if parts and not source.topic else ()
    return Report(source.model_dump(mode="json"), (f"{name} is {words}.", *more))


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


def _part(alias: str, topic: str | None, partition: int | None) -> Part | None:
    if topic is None:
        if partition is not None:
            raise typer.BadParameter("--partition is of a topic: name it with --topic")
        return None
    return Part(alias, topic, partition)


def command_part(config: Config, alias: str, part: Part | None, *, paused: bool) -> SourceControl:
    """Tell the running instance; where there is none, note it for the next one.

    Raises CommandError and HeldError when there is one that has not done it.
    """
    word = "pause" if paused else "resume"
    path = f"/api/sources/{alias}"
    if part is not None:
        path += f"/topics/{quote(part.topic, safe='')}"
    path += f"/{word}"
    if part is not None and part.partition is not None:
        path += f"?partition={part.partition}"
    answer = command_running(config, "PUT", path, SourceControl)
    if not isinstance(answer, Absent):
        return answer
    check_alias(config, alias)
    place = config.checkpoint
    controls = Controls(place.path, place.storage_options)
    with for_the_next(place, tell):
        before = controls.read()
        if part is None and (alias in before.sources) != paused:
            controls.put(alias, paused=paused, by=BY)
        elif part is not None and paused and part not in before.parts:
            controls.put_parts([part], paused=True, by=BY)
        elif part is not None and not paused and (again := to_resume(part, before.parts)):
            controls.put_parts(again, paused=False, by=BY)
        now = controls.read()
    return source_control(config.name, alias, part, now.sources, now.parts)
