"""The command line is put together once for all tests of a process, not again by each `invoke`."""

from __future__ import annotations

from functools import cache

import typer.main
import typer.testing


def keep_commands() -> None:
    """Have typer's `CliRunner` keep what it makes of an app: 40 ms, several hundred times.

    A command keeps nothing of a call.
    """
    typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]
