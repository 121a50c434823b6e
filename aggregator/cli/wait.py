"""`aggregator wait`: until a hub topic is complete up to a moment; for schedulers. No Spark."""

from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.options import duration, moment
from aggregator.cli.render import Columns, Report, named, report, table
from aggregator.features.completeness.wait import wait_for
from aggregator.model.errors import EXIT_DATA, EXIT_DONE
from aggregator.status.completeness import CompleteTopic


@command(
    "aggregator wait --topic orders --until 2026-11-24T08:00Z",
    "aggregator wait --topic orders --until 2026-11-24T08:00Z --source eu --timeout 30m",
    "aggregator wait --topic orders --until 0s --strict -o json",
)
def wait(
    call: Call,
    topic: Annotated[str, typer.Option(metavar="NAME", help="The hub topic.")],
    until: Annotated[
        str,
        typer.Option(metavar="TIME", help="Complete up to then: 2026-01-31T12:00Z, or 1h ago."),
    ],
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
) -> Report:
    """Wait until a hub topic is complete: all that its sources acknowledged up to then is there.

    Ends with 0 when it is, and with 5 after --timeout; then it names what delays it, and why. It
    asks the running instance, or reads the table of completeness if none answers. What was lost at
    a source is reported, and not waited for.
    """
    end, seconds = moment("--until", until), duration("--timeout", timeout)
    if source is not None:
        call.config.chosen(source)
    found = wait_for(
        lambda: call.aggregation.complete(topic, source),
        topic,
        end,
        seconds,
        lambda words: call.say(f"waiting: {words}"),
    )
    return report_of_topic(found, EXIT_DATA if strict and found.gaps else EXIT_DONE)


def report_of_topic(found: CompleteTopic, exit_code: int) -> Report:
    """How far it is, and what was lost."""
    columns: Columns = {
        "hub topic": "topic",
        "source": lambda it: it.source or "all",
        **named("up to (UTC)=up_to, lost offsets=lost, gaps"),
    }
    return report(found, table("Complete", columns, [found]), exit_code=exit_code)
