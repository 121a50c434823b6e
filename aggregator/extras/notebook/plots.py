"""Plots of history, in one call each: lag, throughput, latency, completeness, flows.

Out of rows of Delta tables; no Spark. Colours and greys can be read on a light and on a dark page,
and the page shows through.
"""

import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import cycle
from typing import Any

from aggregator.features.timeline.timeline_report import HistoryRow
from aggregator.model.errors import AggregatorError
from aggregator.plan.completeness.claims import Claim
from aggregator.status.percentiles import short_duration, size_text

try:
    from matplotlib.axes import Axes
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path
    from matplotlib.ticker import EngFormatter, FuncFormatter, MultipleLocator
except ImportError as error:
    raise AggregatorError(
        "plots need matplotlib: install kafka-aggregator with its extra 'notebook'"
    ) from error

Rows = Sequence[HistoryRow]
Value = Callable[[HistoryRow], float | None]

GREY = "#868e96"
COLOURS = ("#339af0", "#f76707", "#37b24d", "#e64980", "#9775fa", "#f59f00", "#15aabf", "#a0785a")
"""With a contrast of about three on white and on black each."""
GB = 1e9
SIZE = (9.0, 3.6)
STEPS = (0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3_600, 4 * 3_600, 86_400, 7 * 86_400, 1e9)
"""Lengths of time that an axis may count by, in seconds."""


class Plot(Figure):
    """A figure that a notebook shows by itself, without pyplot and its global state."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=110)
        return out.getvalue()


def plot_lag(rows: Rows) -> Plot:
    """Offsets that the hub lacks, per source."""
    return _over_time(rows, "Lag", "offsets", [("", lambda it: it.lag)])


def plot_throughput(rows: Rows) -> Plot:
    """Records per second, per source."""
    return _over_time(
        rows,
        "Throughput",
        "records/s",
        [("", lambda it: it.records / it.seconds if it.seconds else None)],
    )


def plot_latency(rows: Rows) -> Plot:
    """Age of records when the hub had them: of half (solid) and of 99 in a hundred (dashed)."""
    values: list[tuple[str, Value]] = [
        ("p50", lambda it: it.age_p50_ms),
        ("p99", lambda it: it.age_p99_ms),
    ]
    return _over_time(rows, "Age at the hub", "ms", values)


def plot_completeness(claims: Sequence[tuple[datetime, Claim]]) -> Plot:
    """How far back the moment lay up to which the hub had everything, per source.

    Of its hub topic that was furthest behind. It grows until more is known to be there: a saw.
    """
    lines: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    known: dict[str, dict[str, int | None]] = defaultdict(dict)
    for at, claim in claims:
        # Null is all sources together: the worst of them, and so no line of its own.
        if claim.source is None:
            continue
        topics = known[claim.source]
        if topics:
            lines[claim.source].append((at, _behind(at, topics.values())))
        topics[claim.topic] = claim.up_to_ms
        lines[claim.source].append((at, _behind(at, topics.values())))
    figure, axes = _figure("How long ago the hub was complete")
    if not lines:
        return _nothing(figure, axes)
    for (source, points), colour in zip(sorted(lines.items()), cycle(COLOURS), strict=False):
        moments, ages = zip(*points, strict=True)
        axes.plot(moments, ages, color=colour, label=source)
    oldest = max((age for points in lines.values() for _, age in points if age == age), default=0)
    axes.yaxis.set_major_locator(MultipleLocator(next(it for it in STEPS if oldest <= 6 * it)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda it, _: short_duration(it)))
    return _dressed(figure, axes)


def _behind(at: datetime, up_to: Iterable[int | None]) -> float:
    """Seconds from the earliest of these moments; nothing is known where one is not."""
    moments = list(up_to)
    known = [it for it in moments if it is not None]
    return at.timestamp() - min(known) / 1000 if len(known) == len(moments) else float("nan")


def plot_flow(rows: Rows) -> Plot:
    """Bands from the sources to the hub, as wide as what each has given."""
    records: dict[str, int] = defaultdict(int)
    sizes: dict[str, int] = defaultdict(int)
    for row in rows:
        records[row.source] += row.records
        sizes[row.source] += row.bytes
    figure, axes = _figure("From the sources to the hub")
    axes.axis("off")
    total = sum(records.values())
    if not total:
        return _nothing(figure, axes)
    gap = 0.06
    top = 1.0 + gap * (len(records) - 1)
    left, right = top, 0.5 * top + 0.5
    for (source, count), colour in zip(sorted(records.items()), cycle(COLOURS), strict=False):
        width = count / total
        axes.add_patch(_band(left, right, width, colour))
        said = f"{source}  {EngFormatter(places=1)(count)} records, {size_text(sizes[source])}"
        axes.text(-0.02, left - width / 2, said, ha="right", va="center", color=GREY)
        left -= width + gap
        right -= width
    axes.text(1.02, 0.5 * top, "hub", ha="left", va="center", color=GREY, weight="bold")
    axes.set_xlim(-0.6, 1.15)
    axes.set_ylim(-gap, top + gap)
    return figure


def plot_cost(rows: Rows, per_gb: float) -> Plot:
    """What the bytes of each source cost, at a price per gigabyte; the dearest at the top."""
    sizes: dict[str, int] = defaultdict(int)
    for row in rows:
        sizes[row.source] += row.bytes
    figure, axes = _figure(f"Cost by source, at {per_gb:g} per GB")
    total = sum(sizes.values())
    if not total:
        return _nothing(figure, axes)
    colours = dict(zip(sorted(sizes), cycle(COLOURS), strict=False))
    ordered = sorted(sizes.items(), key=lambda it: it[1])
    costs = [size / GB * per_gb for _, size in ordered]
    axes.barh(range(len(ordered)), costs, color=[colours[source] for source, _ in ordered])
    axes.set_yticks(range(len(ordered)), [source for source, _ in ordered])
    for at, (cost, (_, size)) in enumerate(zip(costs, ordered, strict=True)):
        said = f" {cost:,.2f}  ({size / total:.0%}, {size_text(size)})"
        axes.text(cost, at, said, va="center", color=GREY)
    axes.set_xlim(0, max(costs) * 1.4)
    return figure


def _band(left: float, right: float, width: float, colour: str) -> PathPatch:
    """A curve from (0, left) to (1, right), both the upper edge of so wide a band."""
    points = [(0, left), (0.5, left), (0.5, right), (1, right), (1, right - width)]
    points += [(0.5, right - width), (0.5, left - width), (0, left - width), (0, left)]
    curve, line = [Path.CURVE4] * 3, Path.LINETO
    path = Path(points, [Path.MOVETO, *curve, line, *curve, Path.CLOSEPOLY])
    return PathPatch(path, facecolor=colour, edgecolor="none", alpha=0.65)


def _over_time(rows: Rows, title: str, unit: str, values: Sequence[tuple[str, Value]]) -> Plot:
    figure, axes = _figure(title)
    sources = sorted({row.source for row in rows})
    for source, colour in zip(sources, cycle(COLOURS), strict=False):
        own = [row for row in rows if row.source == source]
        for (name, value), style in zip(values, ("-", "--", ":"), strict=False):
            # Unknown is a hole in the line, not a zero.
            drawn = [float("nan") if (it := value(row)) is None else it for row in own]
            label = f"{source} {name}".strip()
            moments = [row.at for row in own]
            axes.plot(moments, drawn, style, color=colour, label=label, marker=".", markersize=4)  # type: ignore[arg-type]
    if not sources:
        return _nothing(figure, axes)
    axes.set_ylabel(unit, color=GREY)
    axes.yaxis.set_major_formatter(EngFormatter())
    return _dressed(figure, axes)


def _dressed(figure: Plot, axes: Axes) -> Plot:
    """The figure, with time at the bottom and the names of the lines at the side."""
    axes.set_ylim(bottom=0)
    locator: Any = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.legend(frameon=False, labelcolor=GREY, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _figure(title: str) -> tuple[Plot, Axes]:
    figure = Plot(figsize=SIZE, layout="constrained", facecolor="none")
    axes = figure.subplots()
    axes.set_facecolor("none")
    axes.set_title(title, color=GREY, loc="left")
    axes.grid(visible=True, color=GREY, alpha=0.25)
    axes.tick_params(colors=GREY)
    axes.xaxis.get_offset_text().set_color(GREY)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(GREY)
    return figure, axes


def _nothing(figure: Plot, axes: Axes) -> Plot:
    axes.axis("off")
    said = "nothing was written down in that time"
    axes.text(0.5, 0.5, said, color=GREY, ha="center", va="center", transform=axes.transAxes)
    return figure
