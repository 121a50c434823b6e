"""What a load needs: the model beside the benchmark's own pages, and what it says of loads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.model.errors import EXIT_CONFIG
from aggregator.plan.sizing import FREE_PART, Workload, live_cores, record_seconds, size_of
from bench.measure import OURS
from bench.works import WORKS, Kind, Work

ROOT = Path(__file__).parents[2]
PAGES = {
    "bench-2026-11-30.md": ("copy-1k", "copy-100", "copy-json"),
    "bench-2026-11-30-flow.md": (
        *("flow-1k", "flow-10k", "flow-200-partitions", "flow-1000-partitions", "idle"),
        *("partitions-12", "partitions-200", "partitions-1000"),
    ),
}
FIGURES = ("CPU seconds per million records", "CPU, % of a core")
RATIO = {"none": 1.0, "lz4": 0.5, "zstd": 0.075}
"""What compression leaves of the benchmark's values, by the bytes of a record in the hub."""
NEAR = 0.2


def measured() -> Iterator[Any]:
    """The works of the pages with what was measured: CPU of a million records, or of idling."""
    for page, names in PAGES.items():
        text = (ROOT / "docs" / "results" / page).read_text("utf-8")
        for name in names:
            (section,) = re.findall(rf"^## {name}\n(.*?)(?=^## )", text, re.M | re.S)
            yield pytest.param(WORKS[name], figure_of(section), id=name)


def figure_of(section: str) -> float:
    """The figure in the first table of a work, which has tools in rows or in columns."""
    heads, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    for row in rows:
        if row[0] in FIGURES:
            return number(row[1])
        if row[0] == OURS:
            (at,) = [at for at, head in enumerate(heads) if head.startswith(FIGURES)]
            return number(row[at])
    raise AssertionError(f"no figure in {section}")


def number(cell: str) -> float:
    return float(cell.split(" ")[0].replace(",", ""))


def load_of(work: Work) -> Workload:
    """The load of a work."""
    return Workload(
        records=0.0 if work.kind is Kind.IDLE else work.rate,
        size=work.size,
        ratio=RATIO[work.compression],
        sources=work.sources,
        partitions=work.sources * work.partitions,
        brokers=1,
        hub_brokers=1,
    )


@pytest.mark.parametrize(("work", "found"), [*measured()])
def test_the_model_is_near_what_was_measured(work: Work, found: float) -> None:
    load = load_of(work)
    if work.kind is Kind.IDLE:
        assert 100 * live_cores(load) == pytest.approx(found, rel=NEAR)
    elif work.kind is Kind.COPY:
        assert 1e6 * record_seconds(load) == pytest.approx(found, rel=NEAR)
    else:
        assert 1e6 * live_cores(load) / load.records == pytest.approx(found, rel=NEAR)


LOADS = st.builds(
    Workload,
    records=st.floats(1, 1e8),
    size=st.integers(1, 10_000_000),
    ratio=st.floats(0.01, 1),
    sources=st.integers(1, 1000),
    partitions=st.integers(1000, 100_000),
    brokers=st.integers(1, 50),
    hub_brokers=st.integers(1, 50),
    round_trip=st.floats(0, 1),
    catch_up=st.floats(1, 100),
)


@given(LOADS)
def test_more_to_copy_never_needs_less(load: Workload) -> None:
    found = size_of(load)
    assert found.cores * (1 - FREE_PART) >= max(found.live_cores, found.catch_up_cores) - 0.01
    assert found.memory > found.heap >= 2 * 2**30
    for more in (
        replace(load, records=load.records * 2),
        replace(load, size=load.size * 2),
        replace(load, partitions=load.partitions * 2),
        replace(load, catch_up=load.catch_up * 2),
        replace(load, round_trip=load.round_trip * 2),
        replace(load, brokers=load.brokers * 2, round_trip=load.round_trip * 2),
    ):
        needs = size_of(more)
        assert needs.cores >= found.cores
        assert needs.heap >= found.heap
        assert needs.connections >= found.connections
        assert needs.out_per_second >= found.out_per_second


def test_the_page_shows_what_the_command_says() -> None:
    page = (ROOT / "docs" / "sizing.md").read_text("utf-8")
    shown = re.findall(r"^aggregator (size [^\n]*)\n```\n\n```text\n(.*?)```", page, re.M | re.S)
    assert len(shown) == 3
    for words, text in shown:
        assert CliRunner().invoke(app, words.split()).stdout == text


def test_what_it_is_for_programs() -> None:
    words = "size --records 1000 --outage 2h --within 1h -o json"
    found = json.loads(CliRunner().invoke(app, words.split()).stdout)
    assert found["workload"]["catch_up"] == 3.0
    assert found["sizing"]["cores"] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("size", "Missing option '--records'"),
        ("size --records 1 --bytes much", "--bytes 'much' is not a number of bytes"),
        ("size --records 1 --within 0s", "--within is 0s"),
        ("size --records 1 --ratio 2", "--ratio"),
        ("size --records 1 --round-trip far", "--round-trip 'far' is not a duration"),
    ],
)
def test_what_is_no_load_is_refused(words: str, said: str) -> None:
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == EXIT_CONFIG
    assert said in done.stderr
