"""Two renderers over the same report: tables for the eyes, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from typing import Any

import typer
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


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; columns whose name is in `right` stand at the right."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    right: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Report:
    """A result in both forms: `data` is JSON-ready, `parts` are tables and lines of text."""

    data: Any
    parts: tuple[Table | str, ...] = field(default=())


def show(report: Report, output: Output) -> None:
    """Print a report to stdout."""
    if output is Output.JSON:
        typer.echo(to_json(report.data))
    else:
        typer.echo(to_text(report, tty=sys.stdout.isatty()), nl=False)


def tell(words: str) -> None:
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
    for column in table.columns:
        justify: Any = "right" if column in table.right else "left"
        rich.add_column(Text(column), justify=justify, overflow="fold")
    for row in table.rows:
        rich.add_row(*(Text(cell(value)) for value in row))
    return rich
