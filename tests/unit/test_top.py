"""`aggregator top`: a frame of 80 columns of what an instance says, in units that people read."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from aggregator.api.latest_status import StatusHolder
from aggregator.cli.main import app
from aggregator.cli.top_frame import (
    MOST_ATTENTION,
    MOST_SOURCES,
    POINTS_SHOWN,
    WIDTH,
    TopDocuments,
    frame,
    sparkline,
)
from aggregator.config import load_text
from aggregator.engine.control.commands import Control
from aggregator.model.errors import EXIT_OTHER
from aggregator.model.values import SourceState
from aggregator.status.live_report import (
    LiveFigures,
    LiveHistory,
    LiveMoment,
    LiveSeries,
    LiveSource,
)
from aggregator.status.overview import Attention, overview
from aggregator.status.schema import Latency, Percentiles, Phase
from support.rest import SETS
from support.serving import app_over, served
from support.statuses import NOW, whole_status, whole_view

AGES = Percentiles(p50=85, p95=1_200, p99=15_557_538, longer_from=99)
TOTAL = LiveFigures(
    records_per_second=1234.4,
    bytes_per_second=56_700.0,
    lag=7,
    seconds_behind=15_557.0,
    seconds_behind_at_least=True,
    latency=Latency(age_ms=AGES, flight_ms=Percentiles(p50=9, p95=20, p99=41)),
)
EU = LiveSource(
    alias="eu",
    state=SourceState.RUNNING,
    records_per_second=1234.4,
    bytes_per_second=56_700.0,
    lag=7,
    seconds_behind=0.4,
)
US = LiveSource(alias="us", state=SourceState.UNREACHABLE)


def answers(*sources: LiveSource, attention: tuple[Attention, ...] = ()) -> TopDocuments:
    whole = overview(whole_status(sources=2, topics=1, partitions=1), None, {})
    moment = LiveMoment(
        number=1,
        at=whole.started_at + timedelta(seconds=200),
        phase=Phase.RUNNING,
        rate_seconds=10.0,
        total=TOTAL,
        sources=sources,
        flows=(),
    )
    history = LiveHistory(
        times=(NOW.timestamp(),),
        series=LiveSeries(records_per_second=(None, 0.0, 50.0, 100.0)),
        sparks={it.alias: (None, *range(59)) for it in sources},
    )
    return TopDocuments(whole.model_copy(update={"attention": attention}), moment, history)


def lines(found: TopDocuments, problem: str = "") -> list[str]:
    out = StringIO()
    Console(file=out, width=WIDTH, highlight=False).print(frame(found, problem))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_frame_says_how_it_is_and_what_needs_a_person() -> None:
    why = Attention(level="error", what="unreachable: no broker answers", source="us")
    shown = lines(answers(EU, US, attention=(why,)))
    assert shown[0].startswith("central  RUNNING  up 3 min 20 s, 2 sources  2025-12-31 23:03:20")
    assert shown[1].split("   ")[0] == "records/s 1,234"
    for figure in ("bytes/s 56.7 kB", "lag 7", "behind > 4 h 19 min"):
        assert figure in shown[1]
    for figure in ("age p50 85 ms", "age p99 > 4 h 19 min", "copy p50 9 ms", "p99 41 ms"):
        assert figure in shown[2]
    assert shown[3].endswith("▁▅█")
    us, eu = shown[-5:-3]
    assert us.split()[:6] == ["us", "UNREACHABLE", "-", "-", "-", "-"]
    assert eu.split()[:8] == ["eu", "RUNNING", "1,234", "56.7", "kB", "7", "400", "ms"]
    assert eu.endswith("█")
    assert shown[-2:] == ["Needs a person", "error us: unreachable: no broker answers"]


def test_nothing_needs_a_person_and_an_instance_that_is_gone_says_so() -> None:
    assert lines(answers(EU))[-1] == "Nothing needs a person."
    assert lines(answers(EU), "no instance answers")[0] == "no instance answers"


def test_the_largest_figures_of_many_sources_fit_eighty_columns() -> None:
    large = {
        "state": SourceState.CATCHING_UP,
        "records_per_second": 9_999_999.0,
        "bytes_per_second": 999_900_000.0,
        "lag": 987_654_321_000,
        "seconds_behind": 89 * 60.0,
        "seconds_behind_at_least": True,
    }
    many = [LiveSource(alias=f"long-name-{it}", **large) for it in range(MOST_SOURCES + 5)]
    needs = [Attention(level="warning", what="x " * 60) for _ in range(MOST_ATTENTION + 2)]
    shown = lines(answers(*many, attention=tuple(needs)))
    assert max(map(len, shown)) <= WIDTH
    rows = [line for line in shown if line.startswith("long-name")]
    assert len(rows) == MOST_SOURCES
    assert "5 more" in shown
    assert shown[-1] == "2 more: see aggregator status"
    for figure in ("CATCHING_UP", "9,999,999", "999.9 MB", "987,654 M", "> 89 min", "█"):
        assert figure in rows[0], rows[0]


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ((), ""),
        ((None, None), ""),
        ((0.0, 0.0), "▁▁"),
        ((None, 1.0, 4.0, 8.0), "▂▅█"),
    ],
)
def test_a_sparkline_has_the_newest_at_the_right(
    values: tuple[float | None, ...], bars: str
) -> None:
    shown = sparkline(values, POINTS_SHOWN)
    assert len(shown) == POINTS_SHOWN
    assert shown.strip() == bars


def call(listen: str, *more: str, code: int = 0) -> Result:
    flags = [part for item in (*SETS, f"api.listen={listen}") for part in ("--set", item)]
    result = CliRunner().invoke(app, ["top", *flags, *more])
    assert result.exit_code == code, result.output
    return result


def test_between_two_histories_the_last_minute_moves_with_each_new_moment() -> None:
    whole = answers(EU)
    again = whole.at(whole.moment)
    newer = whole.at(whole.moment.model_copy(update={"number": whole.moment.number + 1}))
    rates = whole.history.series.records_per_second
    assert again.history.series.records_per_second == rates
    assert newer.history.series.records_per_second == (*rates, TOTAL.records_per_second)
    assert newer.overview is whole.overview


def test_where_no_terminal_is_it_prints_one_frame_of_the_running_instance(tmp_path: Path) -> None:
    config = load_text("", [*SETS, f"checkpoint.path={tmp_path}"])
    holder, status = StatusHolder(), whole_status()
    with served(app_over(Control(config), holder)) as server:
        listen = f"127.0.0.1:{server.port}"
        starting = call(listen, "--once", code=EXIT_OTHER)
        assert "is still starting" in starting.output
        holder.put(status.at, status.phase, lambda: status)
        holder.recent.take(whole_view(config, topics=2, partitions=2))
        for options in ((), ("--once",)):
            shown = call(listen, *options).stdout.splitlines()
            assert shown[0].startswith(f"{status.name}  RUNNING  up ")
            assert max(map(len, shown)) <= WIDTH
        assert json.loads(call(listen, "-o", "json").stdout)["phase"] == "RUNNING"
        other = call(listen, "--set", "name=another", code=EXIT_OTHER)
        assert "answers on" in other.output


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_well_and_gives_the_terminal_back(
    tmp_path: Path, number: signal.Signals
) -> None:
    config = load_text("", [*SETS, f"checkpoint.path={tmp_path}"])
    holder, status = StatusHolder(), whole_status()
    terminal, end = pty.openpty()
    with served(app_over(Control(config), holder)) as server:
        holder.put(status.at, status.phase, lambda: status)
        holder.recent.take(whole_view(config, topics=2, partitions=2))
        sets = [*SETS, f"api.listen=127.0.0.1:{server.port}"]
        flags = [part for it in sets for part in ("--set", it)]
        command = [sys.executable, "-m", "aggregator", "top", *flags]
        with subprocess.Popen(command, stdin=end, stdout=end, stderr=end) as running:
            os.close(end)
            try:
                shown = read_until(terminal, b"RUNNING")
                running.send_signal(number)
                rest = read_until(terminal, LEAVES)
                assert running.wait(60) == 0
            finally:
                running.kill()
                os.close(terminal)
    assert ENTERS in shown
    assert b"Traceback" not in rest


ENTERS, LEAVES = b"\x1b[?1049h", b"\x1b[?1049l"
"""A terminal's other screen, which leaves what was there before as it was."""


def read_until(terminal: int, wanted: bytes) -> bytes:
    """What comes from a terminal up to this, which has to come within two minutes."""
    found, limit = b"", time.monotonic() + 120
    while wanted not in found:
        assert select.select([terminal], [], [], limit - time.monotonic())[0], found
        found += os.read(terminal, 65_536)
    return found


@pytest.mark.parametrize("options", [(), ("--once",), ("-o", "json")])
def test_where_nothing_runs_it_says_so_and_what_to_do(options: tuple[str, ...]) -> None:
    result = call("127.0.0.1:9", *options, code=EXIT_OTHER)
    assert "no instance answers on 127.0.0.1:9" in result.output
    assert "aggregator run" in result.output
    assert result.stdout == ""
