"""One frame of `aggregator top`: figures of all, a row for each source, what needs a person.

It fits 80 columns; what is not known is `-`, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from aggregator.model.values import SourceState
from aggregator.status.live_report import LiveFigures, LiveHistory, LiveMoment, LiveSource
from aggregator.status.overview import Attention, Overview
from aggregator.status.percentiles import exact_duration, short_duration, size_text
from aggregator.status.schema import Percentiles, Phase

WIDTH = 80
NOTHING = "-"
BARS = "▁▂▃▄▅▆▇█"
SECONDS_SHOWN = 60
POINTS_SHOWN = 12
"""Points of a source's history: a minute has four."""
MOST_SOURCES = 30
MOST_ATTENTION = 5
MANY = 10_000_000
"""Counts from here on are shown in millions, so that each row fits."""
COLOURS = {
    SourceState.RUNNING: "green",
    SourceState.CATCHING_UP: "cyan",
    SourceState.PAUSED: "yellow",
    SourceState.UNREACHABLE: "red",
    SourceState.FAILED: "red",
}
LEVELS = {"error": "red", "warning": "yellow"}


@dataclass(frozen=True, slots=True)
class TopDocuments:
    """What an instance said: of itself, of this moment, and of the last minutes."""

    overview: Overview
    moment: LiveMoment
    history: LiveHistory

    def at(self, moment: LiveMoment) -> TopDocuments:
        """At another moment: where it is a newer one, its rate follows those of the history."""
        if moment.number == self.moment.number:
            return self
        series = self.history.series
        rates = (*series.records_per_second, moment.total.records_per_second)
        grown = series.model_copy(update={"records_per_second": rates})
        history = self.history.model_copy(update={"series": grown})
        return TopDocuments(self.overview, moment, history)


def frame(answers: TopDocuments, problem: str = "") -> RenderableType:
    """The whole frame; a `problem` says why there is no newer one."""
    return Group(
        *((Text(problem, "red"),) if problem else ()),
        _title(answers),
        _totals(answers.moment.total),
        _last_minute(answers.history),
        Text(""),
        _sources(answers),
        *_attention(answers.overview.attention),
    )


def _title(answers: TopDocuments) -> Text:
    overview, moment = answers.overview, answers.moment
    style = "red" if moment.phase is Phase.FAILED else "green"
    up = exact_duration((moment.at - overview.started_at).total_seconds())
    many = len(moment.sources)
    return Text.assemble(
        (overview.name, "bold"),
        "  ",
        (moment.phase, style),
        f"  up {up}, {many} source{'' if many == 1 else 's'}",
        (f"  {moment.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC", "dim"),
        no_wrap=True,
        overflow="ellipsis",
    )


def _totals(total: LiveFigures) -> Table:
    """Two lines of figures of all sources together."""
    figures = (
        ("records/s", _count(total.records_per_second)),
        ("bytes/s", _size(total.bytes_per_second)),
        ("lag", _count(total.lag)),
        ("behind", _behind(total)),
        ("age p50", _percentile(total.latency.age_ms, 50)),
        ("age p99", _percentile(total.latency.age_ms, 99)),
        ("copy p50", _percentile(total.latency.flight_ms, 50)),
        ("copy p99", _percentile(total.latency.flight_ms, 99)),
    )
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    for row in (figures[:4], figures[4:]):
        table.add_row(*(Text.assemble((f"{name} ", "dim"), value) for name, value in row))
    return table


def _last_minute(history: LiveHistory) -> Text:
    rates = history.series.records_per_second[-SECONDS_SHOWN:]
    return Text.assemble(("last minute ", "dim"), (sparkline(rates, SECONDS_SHOWN), "cyan"))


def _sources(answers: TopDocuments) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("source", max_width=11, no_wrap=True, overflow="ellipsis")
    table.add_column("state", no_wrap=True)
    for name in ("rec/s", "bytes/s", "lag", "behind"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"last {POINTS_SHOWN // 4} min", no_wrap=True)
    sources = sorted(answers.moment.sources, key=lambda it: it.state.is_well)
    for source in sources[:MOST_SOURCES]:
        points = answers.history.sparks.get(source.alias, ())[-POINTS_SHOWN:]
        table.add_row(*_row(source), Text(sparkline(points, POINTS_SHOWN), "cyan"))
    if len(sources) > MOST_SOURCES:
        table.add_row(f"{len(sources) - MOST_SOURCES} more")
    return table


def _row(source: LiveSource) -> Iterator[Text]:
    yield Text(source.alias)
    yield Text(source.state, COLOURS[source.state])
    yield Text(_count(source.records_per_second))
    yield Text(_size(source.bytes_per_second))
    yield Text(_count(source.lag))
    yield Text(_behind(source, short_duration))


def _attention(items: Sequence[Attention]) -> Iterator[RenderableType]:
    yield Text("")
    if not items:
        yield Text("Nothing needs a person.", "green")
        return
    yield Text("Needs a person", "bold")
    for it in items[:MOST_ATTENTION]:
        where = f"{it.source}: " if it.source else ""
        yield Text.assemble((f"{it.level} ", LEVELS.get(it.level, "")), f"{where}{it.what}")
    if len(items) > MOST_ATTENTION:
        yield Text(f"{len(items) - MOST_ATTENTION} more: see aggregator status")


def sparkline(values: Sequence[float | None], width: int) -> str:
    """The values as bars up to the largest of them, the newest at the right; unknown is a blank."""
    largest = max((it for it in values if it is not None), default=0.0)
    bars = "".join(_bar(it, largest) for it in values)
    return bars.rjust(width)


def _bar(value: float | None, largest: float) -> str:
    if value is None:
        return " "
    share = value / largest if largest else 0.0
    return BARS[min(len(BARS) - 1, int(share * len(BARS)))]


def _count(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value / 1_000_000:,.0f} M" if value >= MANY else f"{value:,.0f}"


def _size(value: float | None) -> str:
    return NOTHING if value is None else size_text(round(value))


def _behind(figures: LiveFigures, words: Callable[[float], str] = exact_duration) -> str:
    if figures.seconds_behind is None:
        return NOTHING
    sign = "> " if figures.seconds_behind_at_least else ""
    return f"{sign}{words(figures.seconds_behind)}"


def _percentile(found: Percentiles | None, percent: int) -> str:
    if found is None:
        return NOTHING
    value = {50: found.p50, 99: found.p99}[percent]
    sign = "> " if percent >= (found.longer_from or 100) else ""
    return f"{sign}{exact_duration(value / 1000)}"
