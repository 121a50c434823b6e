"""Renders a report as tables for people or as JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from operator import attrgetter
from typing import Any

import typer
from pydantic import BaseModel
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

PIPED_WIDTH = 10_000
"""Wide enough for every row: what is piped is cut by no terminal."""

Cell = str | int | float | bool | datetime | None


class Output(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


Columns = Mapping[str, str | Callable[[Any], Cell]]
"""Heading -> the attribute that a column shows, or what makes its cell of an item."""


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. Columns of numbers stand at the right, and so do those in `right`."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    right: frozenset[str] = frozenset()


def named(*texts: str) -> dict[str, str]:
    """Columns in texts: `lag, why=reason` are one of the attribute of its name, one of another."""
    pairs = (one.strip().partition("=") for text in texts for one in text.split(","))
    return {heading: attribute or heading for heading, _, attribute in pairs}


def table(title: str, columns: Columns, items: Iterable[Any], right: Iterable[str] = ()) -> Table:
    """A table with a row for each item; an empty text is shown as nothing is."""
    makers = [attrgetter(it) if isinstance(it, str) else it for it in columns.values()]
    rows = [tuple(None if (found := make(it)) == "" else found for make in makers) for it in items]
    return Table(title, tuple(columns), rows, frozenset(right))


@dataclass(frozen=True, slots=True)
class Report:
    """A result in both forms: `data` is JSON-ready, `parts` are tables and lines of text.

    `exit_code` is how the command ends that shows it.
    """

    data: Any
    parts: tuple[Table | str, ...] = ()
    exit_code: int = 0

    def with_more(self, name: str, data: Any, *parts: Table | str) -> Report:
        """The same with more: `data` under a name, and parts behind the others."""
        return replace(self, data={**self.data, name: data}, parts=(*self.parts, *parts))


def report(found: BaseModel, *parts: Table | str, exit_code: int = 0) -> Report:
    """A document as a report; `exit_code` is how the command ends that shows it."""
    return Report(found.model_dump(mode="json"), parts, exit_code)


def show(report: Report, output: Output) -> None:
    """Print a report to stdout."""
    if output is Output.JSON:
        typer.echo(to_json(report.data))
    else:
        typer.echo(to_text(report, tty=sys.stdout.isatty()), nl=False)


def print_note(words: str) -> None:
    """Say on stderr what a command waits for."""
    typer.echo(words, err=True)


def to_json(data: Any) -> str:
    """The JSON text of JSON-ready data."""
    return json.dumps(data, indent=2, ensure_ascii=False)


def to_text(report: Report, *, tty: bool, width: int | None = None) -> str:
    """The tables and lines of a report; colours and the terminal's width only for a terminal."""
    out = StringIO()
    console = Console(
        file=out,
        force_terminal=tty,
        no_color=not tty,
        width=width or (None if tty else PIPED_WIDTH),
        highlight=False,
        emoji=False,
        markup=False,
    )
    for part in report.parts:
        if isinstance(part, str):
            console.print(Text(part), soft_wrap=True)
        elif part.rows:
            console.print(Text(part.title, style="bold"), soft_wrap=True)
            console.print(_rich(part))
    lines = (line.rstrip() for line in out.getvalue().splitlines())
    return "".join(f"{line}\n" for line in lines)


def cell(value: Cell) -> str:
    """A value as text: unknown is `-`, large numbers have separators, times are UTC."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case _:
            return str(value)


def moment_of(millis: int) -> datetime | str | None:
    """A record's time to read: None below 0, where it has none; as it is where no calendar has it.

    Producers write micro- and nanoseconds as well.
    """
    if millis < 0:
        return None
    try:
        return datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"


def since(at: datetime | None, by: str) -> str:
    """Since when something is so and, where that is known, by whom."""
    return f"since {cell(at)} UTC" + (f" by {by}" if by else "")


def _rich(table: Table) -> RichTable:
    rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for at, column in enumerate(table.columns):
        numbers = any(type(row[at]) in (int, float) for row in table.rows)
        justify: Any = "right" if numbers or column in table.right else "left"
        rich.add_column(Text(column), justify=justify, overflow="fold")
    for row in table.rows:
        rich.add_row(*(Text(cell(value)) for value in row))
    return rich
