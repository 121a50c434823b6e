"""The options that commands share, and how the config is found and loaded."""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.failures import Invocation
from aggregator.cli.render import Output
from aggregator.config.load import Added, load
from aggregator.config.schema import Config
from aggregator.config.values import parse_duration
from aggregator.features.connectors.connector_table import load_effective
from aggregator.features.timeline.minutes import moment_of
from aggregator.model.errors import ConfigError, Problem
from aggregator.store.checkpoint.rows import to_millis

DEFAULT_FILE = Path("aggregator.yaml")
FILE_VARIABLE = "AGGREGATOR_CONFIG"

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "-c",
        "--config",
        metavar="FILE",
        help=f"The config file; else ./{DEFAULT_FILE}, else the one in ${FILE_VARIABLE}.",
        show_default=False,
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B=C",
        help="Set a value of the config; may be repeated.",
        show_default=False,
    ),
]
OutputOption = Annotated[
    Output, typer.Option("-o", "--output", help="A table to read, or JSON for programs.")
]

Alias = Annotated[str, typer.Argument(metavar="ALIAS", help="The source.", show_default=False)]
SourceOption = Annotated[str | None, typer.Option(metavar="ALIAS", help="Only of this source.")]
TopicOption = Annotated[str | None, typer.Option(metavar="NAME", help="Only of this source topic.")]
PartitionOption = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Only of this partition.")
]
SinceOption = Annotated[
    str,
    typer.Option(metavar="TIME", help="From then on: 1h or 7d ago, or 2026-01-31T12:00:00Z."),
]
UntilOption = Annotated[str, typer.Option(metavar="TIME", help="Up to then; 0s is now.")]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Follow new entries, until Ctrl-C.")]
Newest = Annotated[int, typer.Option(min=1, help="How many, the newest.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show it, and write nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without it, it is only shown.")]
Timeout = Annotated[
    str, typer.Option(metavar="10m", help="How long all of it may take.", show_default=True)
]


def moment(option: str, text: str) -> datetime:
    """The moment of an option: a time, or a duration ago; otherwise a usage error."""
    try:
        return moment_of(text, datetime.now(UTC))
    except ValueError as error:
        raise typer.BadParameter(f"{option} {text}: {error}") from error


def moment_ms(option: str, text: str | None) -> int | None:
    """The same in milliseconds since 1970; None where nothing is given."""
    return None if text is None else to_millis(moment(option, text))


def duration(option: str, text: str) -> float:
    """The seconds of an option such as `10m`; a usage error when it is none."""
    try:
        return float(parse_duration(text))
    except ValueError as error:
        raise typer.BadParameter(f"{option} {error}") from error


def check_source(config: Config, alias: str | None, option: str = "") -> None:
    """A usage error when a source is named that the config does not have."""
    if alias is not None and alias not in config.sources:
        known = ", ".join(config.sources)
        wrong = f"{option} {alias}:" if option else f"there is no source {alias};"
        raise typer.BadParameter(f"{wrong} sources are {known}")


def config_file(given: Path | None, env: Mapping[str, str] = os.environ) -> Path | None:
    """The config file to use, None when there is none; a file that was named is never passed over.

    A file that is named and does not exist is found out when it is read.
    """
    if given is not None:
        return given
    if DEFAULT_FILE.is_file():
        return DEFAULT_FILE
    named = env.get(FILE_VARIABLE, "")
    return Path(named) if named else None


def load_config(
    ctx: typer.Context,
    given: Path | None,
    sets: Sequence[str] | None,
    added: Added,
    *,
    briefly: bool = False,
) -> Config:
    """The config of this call. ConfigError with every problem, also when there is no file.

    With the sources that were added over REST, and those in `added` on top; `briefly` as for
    `load_effective`. `--set` values alone make a config too, when they hold all that is required.
    """
    path = config_file(given)
    try:
        config = load_effective(path, sets or (), added=added, briefly=briefly)
    except ConfigError as error:
        if path is not None:
            raise
        hint = f"name one with -c FILE or ${FILE_VARIABLE}, or write ./{DEFAULT_FILE}"
        missing = Problem("", "there is no config file", hint)
        raise ConfigError([missing, *(error.problems if sets else ())]) from error
    return _noted(ctx, config)


def written_config(ctx: typer.Context, given: Path | None, sets: Sequence[str] | None) -> Config:
    """The same without what was changed of its sources over REST, so no table is read."""
    return _noted(ctx, load(config_file(given), sets or ()))


def _noted(ctx: typer.Context, config: Config) -> Config:
    """The config, whose secrets are masked from now on in what this call says."""
    invocation = ctx.find_object(Invocation)
    if invocation is not None:
        invocation.loaded(config)
    return config


def masked(ctx: typer.Context, text: str) -> str:
    """The text without any secret of this call's config."""
    invocation = ctx.find_object(Invocation)
    return text if invocation is None else invocation.masked(text)


def examples(*lines: str) -> str:
    """The end of a command's help: its examples, each on a line of its own."""
    # A backspace keeps the help from wrapping the lines that follow.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
