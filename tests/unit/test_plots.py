"""Plots of the history: every source is drawn, and greys can be read on any page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import matplotlib.colors
import pytest

from aggregator.extras.notebook.plots import (
    COLOURS,
    GREY,
    plot_completeness,
    plot_cost,
    plot_flow,
    plot_lag,
    plot_latency,
    plot_throughput,
)
from aggregator.features.timeline.timeline_report import HistoryRow
from aggregator.plan.completeness.claims import Claim

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
START_MS = round(START.timestamp() * 1000)
ROWS = tuple(
    HistoryRow(
        at=START + timedelta(minutes=minute),
        seconds=60,
        source=source,
        state="running",
        records=600 * (minute + 1),
        bytes=60_000,
        lag=None if minute == 1 else minute,
        age_p50_ms=5,
        age_p99_ms=20,
    )
    for minute in range(4)
    for source in ("eu", "us")
)
CLAIMS = tuple(
    (START + timedelta(seconds=at), Claim(source, topic, up_to))
    for at, source, topic, up_to in (
        (0, "eu", "a", START_MS),
        (0, None, "a", START_MS),
        (10, "eu", "b", START_MS + 5_000),
        (20, "eu", "a", START_MS + 19_000),
        (20, "us", "a", None),
        (30, "us", "a", START_MS + 30_000),
    )
)
PLOTS = (
    plot_lag,
    plot_throughput,
    plot_latency,
    plot_flow,
    partial(plot_cost, per_gb=0.1),
)


def ydata(line: Any) -> list[float]:
    return [float(it) for it in line.get_ydata()]


@pytest.mark.parametrize("plot", PLOTS)
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], ()])
def test_a_plot_is_a_picture_also_of_one_row_and_of_none(plot, rows) -> None:  # type: ignore[no-untyped-def]
    assert plot(rows)._repr_png_().startswith(b"\x89PNG")


def test_each_source_has_a_line_and_what_is_unknown_is_a_hole() -> None:
    (axes,) = plot_lag(ROWS).axes
    assert [it.get_label() for it in axes.lines] == ["eu", "us"]
    drawn = ydata(axes.lines[0])
    assert str(drawn) == "[0.0, nan, 2.0, 3.0]"
    (axes,) = plot_throughput(ROWS).axes
    assert ydata(axes.lines[0]) == [10, 20, 30, 40]


def test_the_flow_says_how_much_came_from_each_source() -> None:
    (axes,) = plot_flow(ROWS).axes
    assert [it.get_text() for it in axes.texts] == [
        "eu  6.0 k records, 240.0 kB",
        "us  6.0 k records, 240.0 kB",
        "hub",
    ]


def test_the_cost_of_each_source_is_that_of_its_bytes_the_dearest_at_the_top() -> None:
    rows = [
        it.model_copy(update={"bytes": 3 * it.bytes}) if it.source == "us" else it for it in ROWS
    ]
    (axes,) = plot_cost(rows, per_gb=1000.0).axes
    assert [it.get_text() for it in axes.get_yticklabels()] == ["eu", "us"]
    assert [it.get_text() for it in axes.texts] == [
        " 0.24  (25%, 240.0 kB)",
        " 0.72  (75%, 720.0 kB)",
    ]


def test_completeness_grows_old_until_more_is_known_to_be_there() -> None:
    (axes,) = plot_completeness(CLAIMS).axes
    assert [it.get_label() for it in axes.lines] == ["eu", "us"]
    # Of the topic that is furthest behind, before and behind each change.
    assert ydata(axes.lines[0]) == [0, 10, 10, 20, 15]
    assert str(ydata(axes.lines[1])) == "[nan, nan, 0.0]"
    assert plot_completeness(CLAIMS)._repr_png_() and plot_completeness(())._repr_png_()


def test_colours_stand_out_from_a_light_page_and_from_a_dark_one() -> None:
    def luminance(colour: str) -> float:
        parts = matplotlib.colors.to_rgb(colour)
        linear = [it / 12.92 if it <= 0.04045 else ((it + 0.055) / 1.055) ** 2.4 for it in parts]
        return sum(w * it for w, it in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    def contrast(one: float, other: float) -> float:
        low, high = sorted((one, other))
        return (high + 0.05) / (low + 0.05)

    for colour in (GREY, *COLOURS):
        assert contrast(luminance(colour), luminance("white")) >= 2.0, colour
        assert contrast(luminance(colour), luminance("#181818")) >= 3.0, colour
    for plot in PLOTS:
        assert matplotlib.colors.to_rgba(plot(ROWS).get_facecolor())[3] == 0
