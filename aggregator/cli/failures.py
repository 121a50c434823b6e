"""How a command ends when something is wrong: a plain sentence on stderr and an exit code."""

import select
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import typer
from typer.core import TyperGroup

from aggregator.config.mask import Mask, hide_passwords
from aggregator.config.schema import Config
from aggregator.datapath.jars import spark_home
from aggregator.model.errors import EXIT_OTHER, AggregatorError, JarsError


@dataclass(slots=True)
class Invocation:
    """What is known about this call of the command line; `config` as soon as it is loaded."""

    debug: bool = False
    config: Config | None = None
    masks: list[Mask] = field(default_factory=list)
    """Those of the configs so far."""

    def loaded(self, config: Config) -> None:
        """Note a config; secrets of the ones before it stay masked."""
        if config != self.config:
            self.masks.append(Mask(config))
        self.config = config

    def masked(self, text: str) -> str:
        """The text without any secret of a config."""
        for mask in self.masks:
            text = mask(text)
        return hide_passwords(text)


class Commands(TyperGroup):
    """The group of all commands: no error leaves it as a traceback, unless `--debug` is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """A group that accepts `--debug` at any place."""
        if "--debug" in args:
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; one of our errors ends it with its own exit code."""
        invocation = Invocation(debug=bool(ctx.params.get("_debug")))
        ctx.obj = invocation
        try:
            return super().invoke(ctx)
        except AggregatorError as error:
            complain(invocation, str(error), error)
            raise typer.Exit(error.exit_code) from error
        except (typer.TyperException, typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if isinstance(error, BrokenPipeError) and _is_unread():
                # As by `| head`, which has enough: nothing is wrong.
                raise typer.Exit(EXIT_OTHER) from error
            complain(invocation, _sentence(error), error)
            raise typer.Exit(EXIT_OTHER) from error


def _sentence(error: Exception) -> str:
    """The message for an error that is not our own."""
    if isinstance(error, ImportError) and (error.name or "").startswith("pyspark"):
        try:
            spark_home()
        except JarsError as found:
            return str(found)
    return f"unexpected {type(error).__name__}: {error}"


def _is_unread() -> bool:
    """Whether the reader of our output has ended: a pipe whose other end is closed says so."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))


def complain(invocation: Invocation, text: str, error: BaseException | None) -> None:
    """Write an error to stderr, secrets masked; with `--debug` its traceback before it."""
    # Without a reader there the exit code says what is wrong.
    with suppress(OSError):
        if invocation.debug and error is not None:
            trace = "".join(traceback.format_exception(error))
            typer.echo(invocation.masked(trace), err=True, nl=False)
        typer.echo(f"error: {invocation.masked(text)}", err=True)
