"""Walks a page of the docs: its commands are run in their order, as they stand there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from typer.testing import CliRunner

from aggregator.cli.main import app
from support.application import Running
from support.forked import ForkedProcess
from support.reading import wait_for

DOCS = Path(__file__).parents[2] / "docs"


def commands_of(page: str) -> list[str]:
    """Every `aggregator ...` line in the shell blocks of a page of docs/, comments left out."""
    text = (DOCS / page).read_text("utf-8")
    blocks = re.findall(r"^```(?:sh|bash)\n(.*?)^```", text, re.M | re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [
        shlex.join(shlex.split(line, comments=True)[1:])
        for line in lines
        if line.startswith("aggregator ")
    ]


class Walk:
    """The commands of one page, each of which must be run once, in their order.

    `names` are words of the page and what replaces them here. To be used as a context manager: in
    the end nothing may be left.
    """

    def __init__(self, page: str, names: Mapping[str, str]) -> None:
        self.page = page
        self._names = names
        self._left = commands_of(page)

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None:
            assert self._left == [], f"{self.page}: not run"

    def next(self, begin: str) -> list[str]:
        """The next command, which begins with these words, with the names of here."""
        command = self._left.pop(0)
        assert command.startswith(begin), f"{self.page}: {command} is next, not {begin}"
        first, *words = shlex.split(command)
        return [first, *(self._names.get(word, word) for word in words)]

    def run(self, begin: str, *more: str, code: int = 0) -> str:
        """Run the next command, with `more` behind it; returns what it says on stdout.

        It runs in this process, and in the Java of this process.
        """
        return _invoked([*self.next(begin), *more], code)

    def until(self, begin: str, check: Callable[[str], bool]) -> None:
        """Run the next command, in JSON, until what it says is right."""
        words = [*self.next(begin), "-o", "json"]
        wait_for(lambda: check(_invoked(words, 0)), f"{self.page}: {begin}")

    def also(self, *words: str, code: int | None = 0) -> str:
        """Run a command as the page has it, for something else; returns what it says."""
        return _invoked([self._names.get(word, word) for word in words], code)

    def start(self, begin: str, log: Path, *more: str) -> Running:
        """Start the next command as a process of its own, which keeps running."""
        return Running(ForkedProcess([*self.next(begin), *more], log, again=True), log, again=True)


def _invoked(words: list[str], code: int | None) -> str:
    done = CliRunner().invoke(app, words)
    assert code in (None, done.exit_code), f"{words}: {done.output}"
    return done.stdout
