"""`aggregator wait`: until a hub topic is complete up to a moment; for schedulers. No Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config, masked, moment
from aggregator.cli.render import Output, Report, Table, show
from aggregator.cli.running import Absent, running_status
from aggregator.completeness.wait import complete_topic_of, wait_for
from aggregator.config.schema import Config
from aggregator.config.values import parse_duration
from aggregator.documents.completeness import CompleteTopic
from aggregator.errors import EXIT_DATA

EXAMPLES = (
    "aggregator wait --topic orders --until 2026-11-24T08:00Z",
    "aggregator wait --topic orders --until 2026-11-24T08:00Z --source eu --timeout 30m",
    "aggregator wait --topic orders --until 0s --strict -o json",
)


def wait(
    ctx: typer.Context,
    topic: Annotated[str, typer.Option(metavar="NAME", help="The hub topic.")],
    until: Annotated[
        str,
        typer.Option(metavar="TIME", help="Complete up to then: 2026-01-31T12:00Z, or 1h ago."),
    ],
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: Annotated[
        str | None, typer.Option(metavar="ALIAS", help="Only what comes of this source.")
    ] = None,
    timeout: Annotated[
        str, typer.Option(metavar="30m", help="How long to wait; 0s looks once.")
    ] = "1h",
    strict: Annotated[
        bool,
        typer.Option("--strict", help="End with 4 when anything of it was lost at its source."),
    ] = False,
) -> None:
    """Wait until a hub topic is complete: all that its sources acknowledged up to then is there.

    Ends with 0 then, and with 5 when the time is over before, with who holds it up and why. The
    running instance is asked, or the table of completeness where none answers. What was lost at a
    source is said, and not waited for.
    """
    moment_until = moment("--until", until)
    try:
        seconds = float(parse_duration(timeout))
    except ValueError as error:
        raise typer.BadParameter(f"--timeout: {error}") from error
    config = load_config(ctx, config_file, sets)
    if source is not None:
        config.chosen(source)
    found = wait_for(
        lambda: newest(config, topic, source),
        topic,
        moment_until,
        seconds,
        lambda words: typer.echo(f"waiting: {masked(ctx, words)}", err=True),
    )
    show(report_of_topic(found), output)
    if strict and found.gaps:
        raise typer.Exit(EXIT_DATA)


def newest(config: Config, topic: str, source: str | None) -> CompleteTopic | None:
    """What the running instance claims of a hub topic, else what its table tells."""
    status = running_status(config)
    if not isinstance(status, Absent) and status.completeness is not None:
        for it in status.completeness.topics:
            if (it.topic, it.source) == (topic, source):
                return it
    return complete_topic_of(config, topic, source)


def report_of_topic(found: CompleteTopic) -> Report:
    """How far it is, and what was lost."""
    table = Table(
        "Complete",
        ("hub topic", "source", "up to (UTC)", "lost offsets", "gaps"),
        [(found.topic, found.source or "all", found.up_to, found.lost, found.gaps)],
        frozenset({"lost offsets", "gaps"}),
    )
    return Report(found.model_dump(mode="json"), (table,))
