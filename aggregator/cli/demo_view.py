"""Shows a demo's progress on stderr: a table in place on a terminal, elsewhere a line at times."""

import sys
import time
from collections import deque
from typing import Protocol

import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from aggregator.extras.demo.demo import Progress
from aggregator.extras.demo.verdict import Flow

LINE_SECONDS = 2.0
RATE_SECONDS = 3.0


class DemoView(Protocol):
    """Takes each progress as it comes."""

    def show(self, progress: Progress) -> None:
        """Show it, or not, if the last one was shown just now."""

    def close(self) -> None:
        """Nothing more comes."""


class DemoRates:
    """Records per second, over the last seconds, of counts that grow."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[Flow, int]]] = deque()

    def of(self, now: float, counts: dict[Flow, int]) -> dict[Flow, float]:
        """Take the counts at `now` (seconds) and return the rate of each."""
        self._seen.append((now, counts))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        span = now - then
        return {
            flow: (count - before.get(flow, 0)) / span if span > 0 else 0.0
            for flow, count in counts.items()
        }


class LineView:
    """A line every two seconds, and one whenever something else is done."""

    def __init__(self) -> None:
        self._rates = DemoRates()
        self._step = ""
        self._next = 0.0
        self._dashboard = ""

    def show(self, progress: Progress) -> None:
        """Write a line when it is time."""
        arrived = progress.arrived or {}
        rates = self._rates.of(progress.seconds, arrived) if arrived else {}
        if progress.dashboard and not self._dashboard:
            self._dashboard = progress.dashboard
            typer.echo(f"         the dashboard is at {self._dashboard}", err=True)
        if progress.step == self._step and time.monotonic() < self._next:
            return
        self._step, self._next = progress.step, time.monotonic() + LINE_SECONDS
        typer.echo(line(progress, sum(rates.values())), err=True)

    def close(self) -> None:
        """Nothing is open."""


class LiveView:
    """A table that is refreshed in place."""

    def __init__(self) -> None:
        self._rates = DemoRates()
        console = Console(file=sys.stderr, highlight=False)
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def show(self, progress: Progress) -> None:
        """Bring the table up to date."""
        head = Text.assemble((f"{progress.step} ", "bold"), f"{progress.seconds:.0f} s")
        if progress.phase:
            head.append(f"   the aggregator is {progress.phase}", "dim")
        if progress.dashboard:
            head.append(f"   {progress.dashboard}", f"link {progress.dashboard}")
        if progress.sent is None:
            self._live.update(head)
            return
        arrived = progress.arrived or {}
        rates = self._rates.of(progress.seconds, arrived)
        self._live.update(Group(head, _table(progress.sent, arrived, rates)))

    def close(self) -> None:
        """Take the table away: the result comes in its place."""
        self._live.stop()


def line(progress: Progress, rate: float) -> str:
    """A progress as one line of text."""
    text = f"{progress.seconds:5.0f} s  {progress.step}"
    if progress.sent is None:
        return text
    sent = sum(progress.sent.values())
    arrived = sum((progress.arrived or {}).values())
    text += f": sent {sent:,}, in the hub {arrived:,}, lag {max(0, sent - arrived):,}"
    text += f", {rate:,.0f} records/s"
    return text + (f", {progress.phase}" if progress.phase else "")


def _table(sent: dict[Flow, int], arrived: dict[Flow, int], rates: dict[Flow, float]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("source")
    table.add_column("topic")
    for name in ("sent", "in the hub", "lag", "records/s"):
        table.add_column(name, justify="right", min_width=10)
    for flow in sorted(sent):
        count, there = sent[flow], arrived.get(flow, 0)
        table.add_row(
            flow.cluster,
            flow.topic,
            f"{count:,}",
            f"{there:,}",
            f"{max(0, count - there):,}",
            f"{rates.get(flow, 0.0):,.0f}",
        )
    return table
