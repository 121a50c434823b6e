"""Live figures: what is kept by the second, what viewers get, and the flow in groups."""

from __future__ import annotations

import json
import threading
from array import array
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from urllib.request import urlopen

import pytest

from aggregator.api.latest_status import StatusHolder
from aggregator.api.live import live_messages
from aggregator.config import load_text
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.values import SourceState
from aggregator.plan.lifecycle.state import SourceLife
from aggregator.status.copied import Copied
from aggregator.status.figures import SourceFigures
from aggregator.status.flow_chart import MOST_SOURCES, MOST_TOPICS, flow_chart
from aggregator.status.live import COLUMNS, KEPT, RATE_SECONDS, RATES, SPARKS, Recent
from aggregator.status.schema import NOT_BEGUN, Percentiles
from aggregator.status.view import View
from support.rest import SETS, ask
from support.serving import app_over, nothing_recorded, served
from support.statuses import BOUNDS, counts, whole_status, whole_view

SOURCES = [
    "hub.bootstrap_servers=127.0.0.1:9",
    *(f"sources.{it}.bootstrap_servers=127.0.0.1:10" for it in ("eu", "us")),
    *(f"sources.{it}.topics.include=.*" for it in ("eu", "us")),
]


@pytest.fixture(scope="module")
def start() -> View:
    return whole_view(load_text("", SOURCES), topics=2, partitions=2)


def later(view: View, second: float, **records: int) -> View:
    """The same run at a later `second`, with `records` in each topic of a source."""
    figures = {
        alias: SourceFigures(
            copied=tuple(
                Copied(topic=f"topic-{it}", records=many, bytes=10 * many) for it in (0, 1)
            ),
            age=counts(b0=many),
            flight=counts(b1=many),
        )
        for alias, many in records.items()
    }
    return replace(view, at=view.at + timedelta(seconds=second), figures=figures)


def test_rates_of_now_are_over_ten_seconds_and_add_up(start: View) -> None:
    recent = Recent()
    for second in range(30):
        recent.take(later(start, second, eu=100 * second, us=50 * second))
    now = recent.newest()
    assert now is not None and now.number == 30
    assert now.rate_seconds == RATE_SECONDS
    rates = {it.alias: (it.records_per_second, it.bytes_per_second) for it in now.sources}
    assert rates == {"eu": (200, 2000), "us": (100, 1000)}
    assert (now.total.records_per_second, now.total.bytes_per_second) == (300, 3000)
    assert now.total.latency.flight_ms == Percentiles(p50=BOUNDS[1], p95=BOUNDS[1], p99=BOUNDS[1])
    assert now.flows is not None
    flows = {(it.source, it.topic): it.records_per_second for it in now.flows}
    assert flows["eu", "topic-0"] == 100
    assert sum(flows.values()) == now.total.records_per_second


def test_rates_are_known_from_the_second_moment_on_though_nothing_had_come_by_the_first(
    start: View,
) -> None:
    recent = Recent()
    recent.take(replace(start, figures={}))
    for second in (1, 2):
        recent.take(later(start, second, eu=100 * second))
        now = recent.newest()
        assert now is not None and now.flows is not None
        rates = {it.alias: it.records_per_second for it in now.sources}
        # Of one that has not reported anything nothing is known.
        assert rates == {"eu": 200, "us": None}
        assert now.total.records_per_second == 200
        assert now.total.latency.flight_ms is not None
        assert [it.records_per_second for it in now.flows] == [100, 100]
    # By the second it is the difference of two reports: the first one is of more than a second.
    assert recent.history("eu").series.records_per_second == (None, None, 200)


def test_a_source_takes_25_kb_and_a_hub_topic_7_as_the_docs_say() -> None:
    size = KEPT * array("f").itemsize
    assert len(COLUMNS) * size == pytest.approx(25_000, rel=0.02)
    assert len(RATES) * size == pytest.approx(7_000, rel=0.03)


def test_a_fixed_time_is_kept_by_the_second_the_oldest_first(start: View) -> None:
    recent = Recent()
    for second in range(KEPT + 7):
        recent.take(later(start, second, eu=second * second, us=0))
    all_of_it, of_eu = recent.history(), recent.history("eu")
    assert len(all_of_it.times) == KEPT
    first = (start.at + timedelta(seconds=7)).timestamp()
    assert all_of_it.times[0] == pytest.approx(first, abs=0.06)
    rates = of_eu.series.records_per_second
    # Two topics of n squared: the rate of a second is twice the difference.
    assert rates[0] == pytest.approx(2 * (7 * 7 - 6 * 6))
    assert rates[-1] == pytest.approx(2 * (2 * (KEPT + 6) - 1))
    assert (of_eu.sparks, len(all_of_it.sparks["eu"])) == ({}, SPARKS)
    assert set(all_of_it.sparks["us"]) == {0}
    newest = [it or 0 for it in rates[-(KEPT // SPARKS) :]]
    assert all_of_it.sparks["eu"][-1] == pytest.approx(sum(newest) / len(newest), rel=0.01)


def test_of_a_hub_topic_the_rates_of_all_its_sources_are_kept_by_the_second(start: View) -> None:
    recent = Recent()
    assert start.state.plan is not None
    hub_topic = start.state.plan.routes[0].hub_topic
    recent.take(later(start, 0, eu=0, us=0))
    recent.take(later(start, 1, eu=100, us=50))
    recent.take(later(start, 3, eu=300, us=50))
    kept = recent.history(hub_topic=hub_topic)
    assert kept.series.records_per_second == (None, 150.0, 100.0)
    assert kept.series.bytes_per_second == (None, 1_500.0, 1_000.0)
    assert (kept.series.lag, kept.sparks) == ((), {})
    assert recent.history(hub_topic="absent").series.records_per_second == (None, None, None)
    plan = replace(start.state.plan, routes=())
    recent.take(replace(later(start, 4, eu=300), state=replace(start.state, plan=plan)))
    assert recent.history(hub_topic=hub_topic).series.records_per_second == (None,) * 4


def test_what_is_unknown_is_null_and_a_clock_that_goes_back_begins_again(start: View) -> None:
    recent = Recent()
    assert recent.newest() is None
    assert recent.history().times == ()
    recent.take(replace(start, phase=NOT_BEGUN[0]))
    assert recent.number == 0
    recent.take(later(start, 0, eu=5))
    now = recent.newest()
    assert now is not None and now.total.records_per_second is None
    json.loads(recent.history().model_dump_json())
    recent.take(later(start, 1, eu=7))
    assert recent.history("eu").series.records_per_second == (None, 4)
    recent.take(later(start, -60, eu=9))
    assert recent.history("eu").series.records_per_second == (None,)


def test_ages_of_a_source_that_catches_up_are_not_among_those_of_all(start: View) -> None:
    lives = {**start.state.sources, "us": SourceLife(SourceState.CATCHING_UP, start.at)}
    view = replace(start, state=replace(start.state, sources=lives))
    recent = Recent()
    old = SourceFigures(age=counts(b60=100), flight=counts(b1=100))
    for second in (0, 1):
        moment = later(view, second, eu=10 * second)
        recent.take(
            replace(moment, figures={**moment.figures, "us": old if second else SourceFigures()})
        )
    now = recent.newest()
    assert now is not None and now.total.latency.age_ms is not None
    assert now.total.latency.age_ms.p99 == BOUNDS[0]


def test_memory_does_not_grow_with_time_nor_with_sources_that_are_gone(start: View) -> None:
    recent = Recent()
    for second in range(5):
        recent.take(later(start, second, eu=1, us=1))
    gone = {"eu": start.state.sources["eu"]}
    recent.take(later(replace(start, state=replace(start.state, sources=gone)), 60, eu=2))
    assert set(recent.history().sparks) == {"eu"}
    assert len(recent._past) <= RATE_SECONDS + 2


def test_a_moment_is_written_once_for_all_and_none_is_sent_twice(start: View) -> None:
    recent = Recent()
    after = live_messages(recent)
    assert after(0) == []
    recent.take(start)
    (first,) = after(0)
    assert after(0)[0] is first
    assert after(first.number) == []
    recent.take(later(start, 1, eu=1))
    recent.take(later(start, 2, eu=1))
    # A reader that was slow gets the newest alone.
    assert [it.number for it in after(first.number)] == [3]


def test_the_newest_moment_waits_for_no_one_who_notes_the_next(start: View) -> None:
    recent = Recent()
    recent.take(start)
    after = live_messages(recent)
    with ThreadPoolExecutor(1) as pool, recent._lock:
        # As the engine has it, or a history: on a busy machine for as long as that has no core.
        newest = pool.submit(recent.newest).result(60)
        assert newest is not None and newest.number == 1
        assert [it.number for it in pool.submit(after, 0).result(60)] == [1]


def test_the_stream_sends_moments_and_ends_with_the_instance(start: View) -> None:
    control, holder = Control(load_text("", SETS)), StatusHolder()
    recorder = nothing_recorded(control, holder)
    lines: list[str] = []

    def follow(url: str) -> None:
        with urlopen(f"{url}/api/live/stream", timeout=60) as response:
            lines.extend(line.decode().strip() for line in response)

    with served(app_over(control, holder, recorder)) as server:
        assert ask("GET", f"{server.url}/api/live")[0] == 503
        holder.recent.take(start)
        assert ask("GET", f"{server.url}/api/live")[1]["number"] == 1
        assert ask("GET", f"{server.url}/api/live/history?source=nix")[0] == 404
        viewer = threading.Thread(target=follow, args=(server.url,))
        viewer.start()
        wait_until(lambda: "event: moment" in lines, seconds=60, what="the first moment")
        holder.recent.take(later(start, 1, eu=1))
        wait_until(lambda: lines.count("event: moment") == 2, seconds=60, what="the next one")
        recorder.feed.close()
        viewer.join(60)
        assert not viewer.is_alive()


def test_few_sources_and_topics_are_drawn_as_they_are() -> None:
    chart = flow_chart(whole_status(sources=2, topics=3), None, {})
    assert (chart.sources, chart.other_sources) == (("s0", "s1"), 0)
    assert (chart.topics, chart.other_topics) == (("hub.t0", "hub.t1", "hub.t2"), 0)
    assert len(chart.links) == 6
    # One of two partitions of each topic is quarantined.
    assert {(it.partitions, it.not_read) for it in chart.links} == {(2, 1)}


def test_many_are_grouped_and_no_source_that_is_away_is_hidden() -> None:
    status = whole_status(sources=50, topics=20)
    away = [it.alias for it in status.sources[40:45]]
    sources = [
        it.model_copy(
            update={
                "state": SourceState.UNREACHABLE if it.alias in away else SourceState.RUNNING,
                "records": number,
            }
        )
        for number, it in enumerate(status.sources)
    ]
    chart = flow_chart(status.model_copy(update={"sources": tuple(sources)}), None, {})
    assert set(away) <= set(chart.sources)
    assert "s49" in chart.sources and "s0" not in chart.sources
    assert len(chart.sources) == MOST_SOURCES - 1 and chart.other_sources == 50 - len(chart.sources)
    assert len(chart.topics) == MOST_TOPICS - 1 and chart.other_topics == 20 - len(chart.topics)
    assert len(chart.links) <= MOST_SOURCES * MOST_TOPICS
    assert sum(it.partitions for it in chart.links) == len(status.partitions)
