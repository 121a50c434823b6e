"""Declares commands: shared options, output and exit code, in one place.

A command is a function of a `Call` and its own arguments and options, which returns a `Report`.
`command` adds the config file, `--set` and `-o`; it shows the report as tables or as JSON, and ends
with the report's exit code.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from aggregator.cli.aggregation import Aggregation
from aggregator.cli.logs import event_log
from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    examples,
    load_config,
    masked,
    written_config,
)
from aggregator.cli.render import Output, Report, show
from aggregator.config.checks import warnings
from aggregator.config.load import NOTHING, Added
from aggregator.config.schema import Config
from aggregator.model.errors import ConfigError
from aggregator.model.events import Event

KIND = inspect.Parameter.KEYWORD_ONLY
CONTEXT = inspect.Parameter("ctx", KIND, annotation=typer.Context)
SHARED = (
    inspect.Parameter("config_file", KIND, default=None, annotation=ConfigFile),
    inspect.Parameter("sets", KIND, default=None, annotation=Sets),
    inspect.Parameter("output", KIND, default=Output.TABLE, annotation=OutputOption),
)


@dataclass
class Call:
    """One call of a command: what its shared options say, and what follows from them."""

    ctx: typer.Context
    config_file: Path | None = None
    sets: list[str] | None = None
    output: Output = Output.TABLE

    @cached_property
    def config(self) -> Config:
        """The config, read when it is first asked for. ConfigError with every problem."""
        return self.load(briefly=True)

    @cached_property
    def written(self) -> Config:
        """The config without what was changed of its sources at run time.

        That is in a table, whose store may be away while the instance runs; where this one answers
        is known without it. The whole config where no right one comes of what is written.
        """
        try:
            return written_config(self.ctx, self.config_file, self.sets)
        except ConfigError:
            return self.config

    def load(self, added: Added = NOTHING, *, briefly: bool = False) -> Config:
        """The config, read now, with the sources in `added` on top; as `load_effective`."""
        return load_config(self.ctx, self.config_file, self.sets, added, briefly=briefly)

    @cached_property
    def aggregation(self) -> Aggregation:
        """The aggregation of the config, whether it runs or not."""
        return Aggregation(self.written, lambda: self.config, self.emit)

    def masked(self, text: str) -> str:
        """The text without any secret of this call's config."""
        return masked(self.ctx, text)

    def say(self, text: str) -> None:
        """Write a line to stderr."""
        typer.echo(self.masked(text), err=True)

    def progress(self) -> Callable[[str], None]:
        """A function that writes progress to stderr; the same words once."""
        last = ""

        def progress_line(words: str) -> None:
            nonlocal last
            if words != last:
                self.say(words)
            last = words

        return progress_line

    def warn(self, config: Config) -> None:
        """Write what is allowed and yet likely to surprise to stderr, a line each."""
        for warning in warnings(config):
            self.say(f"warning: {warning}")

    @cached_property
    def log(self) -> Callable[..., None]:
        """What writes an event to stderr: `log(kind, message, **fields)`."""
        return event_log(self.masked)

    def emit(self, event: Event) -> None:
        """Write an event to stderr."""
        self.log(event.kind, event.message, **event.fields)


@dataclass(frozen=True, slots=True)
class Command:
    """A command as typer takes it; `loose` also takes options that it does not know, as words."""

    run: Callable[..., None]
    name: str
    examples: tuple[str, ...]
    loose: bool

    def add_to(self, app: typer.Typer) -> None:
        """Have an app offer it."""
        app.command(
            self.name,
            epilog=examples(*self.examples) if self.examples else None,
            context_settings={"ignore_unknown_options": True} if self.loose else None,
        )(self.run)


@dataclass(frozen=True, slots=True)
class Group:
    """Commands under one name; `alone` is what that name does by itself."""

    name: str
    help: str
    commands: tuple[Command, ...]
    examples: tuple[str, ...]
    alone: Command | None = None

    def add_to(self, app: typer.Typer) -> None:
        """Have an app offer them."""
        own = typer.Typer(
            help=self.help,
            invoke_without_command=self.alone is not None,
            no_args_is_help=self.alone is None,
            rich_markup_mode=None,
        )
        if self.alone is not None:
            own.callback()(self.alone.run)
        for it in self.commands:
            it.add_to(own)
        app.add_typer(own, name=self.name, epilog=examples(*self.examples))


def command(
    *examples: str, name: str = "", without: tuple[str, ...] = (), loose: bool = False
) -> Callable[[Callable[..., Report | None]], Command]:
    """Make a command of a function; `examples` end its help.

    `name` is its name where that is not the function's. `without` are the shared options that it
    does not have. A parameter whose type is a dataclass has its fields as options.
    """

    def declare(work: Callable[..., Report | None]) -> Command:
        _, *own = inspect.signature(work, eval_str=True).parameters.values()
        sets = {it.name: _options_of(it) for it in own}
        taken = [option for options in sets.values() for option in options]
        names = {it.name for it in taken}
        shared = [it for it in SHARED if it.name not in (*without, *names)]

        def run(ctx: typer.Context, **given: Any) -> None:
            if ctx.invoked_subcommand is not None:
                return
            call = Call(ctx, **{it.name: given.pop(it.name) for it in shared})
            for it in own:
                if _is_set(it.annotation):
                    fields = {option.name: given.pop(option.name) for option in sets[it.name]}
                    given[it.name] = it.annotation(**fields)
            report = work(call, **given)
            if report is not None:
                show(report, call.output)
                if report.exit_code:
                    raise typer.Exit(report.exit_code)

        # From these typer reads what the command takes, and what its help says.
        parameters = [CONTEXT, *shared, *taken]
        run.__doc__ = work.__doc__
        run.__annotations__ = {it.name: it.annotation for it in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return Command(run, name or work.__name__.strip("_"), examples, loose)

    return declare


def _is_set(annotation: Any) -> bool:
    return isinstance(annotation, type) and is_dataclass(annotation)


def _options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """What a parameter of a command's function is on the command line."""
    if not _is_set(parameter.annotation):
        return [parameter.replace(kind=KIND)]
    signature = inspect.signature(parameter.annotation, eval_str=True)
    return [it.replace(kind=KIND) for it in signature.parameters.values()]
