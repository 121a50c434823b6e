"""`aggregator pause`, `resume`, `reload`: control a running instance."""

from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.options import Alias
from aggregator.cli.render import Report, report, since
from aggregator.model.values import Part
from aggregator.status.command_answers import ReloadReport, SourceControl

Topic = Annotated[str | None, typer.Option(metavar="NAME", help="Only this topic of it.")]
Partition = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Only this partition of the topic.")
]


@command(
    "aggregator pause eu -c aggregator.yaml",
    "aggregator pause eu --topic orders",
    "aggregator pause eu --topic orders --partition 3",
)
def pause(call: Call, alias: Alias, topic: Topic = None, partition: Partition = None) -> Report:
    """Pause a source, or a topic or partition of it: it is read no more, all else continues.

    Returns when its positions are committed. It stays paused over restarts, until it is resumed.
    When no instance runs, the next one begins with it paused; one that runs and cannot be asked is
    named, and nothing is changed.
    """
    return _pause(call, alias, topic, partition, paused=True)


@command("aggregator resume eu -c aggregator.yaml", "aggregator resume eu --topic orders")
def resume(call: Call, alias: Alias, topic: Topic = None, partition: Partition = None) -> Report:
    """Resume a paused source, topic or partition from where it is.

    A topic is resumed with all its partitions; a source without the topics of it that were paused
    by themselves.
    """
    return _pause(call, alias, topic, partition, paused=False)


@command("aggregator reload -c aggregator.yaml", "kill -HUP PID      (the same)")
def reload(call: Call) -> Report:
    """Have the running instance read its config again.

    It reads the file and the --set values that it was started with. Sources that were added or
    removed, topics and most other keys are applied while the other lanes continue. A key that waits
    for a restart is named, and delays none of them. If the config is wrong nothing changes, and all
    problems are listed.
    """
    return report_of_reload(call.aggregation.reload())


def _pause(
    call: Call, alias: str, topic: str | None, partition: int | None, *, paused: bool
) -> Report:
    aggregation = call.aggregation
    if topic is None and partition is not None:
        raise typer.BadParameter("--partition is of a topic: name it with --topic")
    part = None if topic is None else Part(alias, topic, partition)
    return report_of_source(aggregation.pause(alias, part, paused=paused))


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
    return report(source, f"{name} is {words}.", *more)


def report_of_reload(reload: ReloadReport) -> Report:
    """What a reload has changed."""
    keys = f"Taken over: {', '.join(reload.keys)}" if reload.keys else "Nothing has changed."
    sources = [
        f"{word}: {', '.join(names)}"
        for word in ("added", "removed", "reconnected")
        if (names := getattr(reload, word))
    ]
    return report(reload, keys, *sources, *(f"warning: {note}" for note in reload.notes))
