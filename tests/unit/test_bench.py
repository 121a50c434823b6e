"""The benchmark's figures: what is counted, what is left out, and what a failure does to them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.kafka_settings import DEFAULTS, ENFORCED
from aggregator.config.schema import StreamConfig
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.model.values import TopicPartition
from bench import mirror
from bench.bed import Bed, RunFailedError
from bench.files import new_files, write
from bench.groups import Moved, compared, planned
from bench.hub_log import batches_of
from bench.job import Job
from bench.line import turned
from bench.load import Values
from bench.loops import compile_batch_loop
from bench.measure import (
    FRANZ_LOOP,
    LOOP,
    LOOP_ORIGIN,
    OURS,
    OURS_ON_2,
    THEIRS,
    THEIRS_2,
    Check,
    Goal,
    Outcome,
    Run,
    Sample,
    Spread,
    check,
    latencies,
    ratio,
    record_id,
    spread,
    throughput,
)
from bench.report import Result, to_json, to_markdown
from bench.rounds import run_works
from bench.spark_master import SparkMaster
from bench.tools import described
from bench.usage import members
from bench.works import GROUPS, WORKS, Kind, chosen

GOOD = Check(4, 4, 0, 0, 0)
RUNS = [
    Run("copy-1k", OURS, 1, 1.5, {"records_per_second": 3000.0}, {}, GOOD),
    Run("copy-1k", THEIRS, 1, 0.5, {"records_per_second": 1000.0}, {}, GOOD),
    Run("copy-1k", OURS, 2, 0.5, {"records_per_second": 1000.0}, {}, GOOD),
    Run("copy-1k", THEIRS, 2, 0.5, failure="ended by itself with code 1"),
]
WORK = WORKS["copy-1k"]
RESULT = Result("2026-01-31", {"cores": 2}, {THEIRS: "4.3.1"}, [WORK], described(WORK), RUNS)


def test_throughput_counts_from_the_first_record_to_the_last() -> None:
    samples = [Sample(0, 0), Sample(9, 0, 5), Sample(10, 100, 6), Sample(11, 600), Sample(12, 1100)]
    samples[-1] = samples[-1]._replace(cpu=9, brokers=2)
    assert throughput(samples, 1100) == {
        "records_per_second": 500,
        "cpu_per_million": 3000,
        "brokers_cpu_per_million": 2000,
        "startup_seconds": 10,
    }


@pytest.mark.parametrize(
    ("samples", "problem"),
    [
        ([Sample(0, 0)], "0 of 10"),
        ([Sample(0, 0), Sample(1, 7)], "7 of 10"),
        ([Sample(0, 0), Sample(1, 10)], "between two looks"),
    ],
)
def test_throughput_needs_the_end_and_an_interval(samples: list[Sample], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        throughput(samples, 10)


def test_latencies_are_nearest_ranks() -> None:
    found = latencies([float(each) for each in range(1000, 0, -1)])
    assert found == {"p50_ms": 500, "p95_ms": 950, "p99_ms": 990, "p999_ms": 999}
    with pytest.raises(ValueError, match="no latency"):
        latencies([])


def test_a_value_has_its_size_and_names_its_record() -> None:
    value = Values(100).make("eu", 12)
    assert len(value) == 100
    assert record_id(value) == ("eu", 12)
    assert record_id(None) is None
    assert record_id(b"eu:x:y") is None
    with pytest.raises(ValueError, match="32 bytes"):
        Values(10)


def test_the_check_names_what_is_missing_twice_and_strange() -> None:
    hub = [b"eu:0:", b"eu:1:", b"eu:1:", b"us:0:", b"us:2:", b"de:0:", b"?", None]
    found = check({"eu": 3, "us": 2}, hub)
    assert found == Check(sent=5, found=3, missing=2, twice=1, strangers=4)
    assert not found.perfect
    whole = check({"eu": 1}, [b"eu:0:"])
    assert whole.perfect


def test_failed_runs_do_not_count() -> None:
    ours = spread(RUNS, "copy-1k", OURS, "records_per_second")
    theirs = spread(RUNS, "copy-1k", THEIRS, "records_per_second")
    assert ours == Spread(2000, 1000, 3000, 2)
    assert theirs == Spread(1000, 1000, 1000, 1)
    assert ratio(ours, theirs) == 2
    assert ratio(ours, None) is None


def test_both_result_files_say_the_figures_and_the_failures(tmp_path: Path) -> None:
    page, tree = to_markdown(RESULT), json.loads(to_json(RESULT))
    assert f"| {OURS} | 2,000 (1,000 - 3,000; 2) |" in page
    assert f"| {THEIRS} | 1,000 (1,000 - 1,000; 1) |" in page
    assert f"| {OURS} / {THEIRS} | 2.00 |" in page
    assert f"| {OURS} / {LOOP} | - |" in page
    assert "round 2, MirrorMaker 2: ended by itself with code 1" in page
    assert f"| {THEIRS} | 2.00 | at least 2.5 | no |" in page
    assert f"| {FRANZ_LOOP} | - | at least 0.8 | not measured |" in page
    ratios = tree["summary"]["copy-1k"]["records_per_second"]["ratios"]
    assert ratios == {tool: 2 if tool == THEIRS else None for tool in WORK.tools[1:]}
    assert len(tree["runs"]) == len(RUNS)
    assert tree["settings"][THEIRS]["hub.producer.acks"] == "all"
    assert tree["settings"][THEIRS]["hub.producer.compression.type"] == "none"
    # All of how records flow is as it is by itself.
    assert "stream" not in tree["settings"][OURS]
    paths = new_files(tmp_path, tmp_path / "raw", "2026-01-31")
    write(RESULT, paths)
    assert [path.name for path in paths] == ["bench-2026-01-31.md", "bench-2026-01-31.json"]
    again = new_files(tmp_path, tmp_path / "raw", "2026-01-31")
    assert [path.name for path in again] == ["bench-2026-01-31-2.md", "bench-2026-01-31-2.json"]


@pytest.mark.parametrize("name", ["flow-1k", "flow-200-partitions"])
def test_the_other_tool_stores_positions_as_often_as_ours_does_by_itself(name: str) -> None:
    settings = described(WORKS[name])[THEIRS]
    seconds = StreamConfig().checkpoint_interval
    assert settings["hub.offset.flush.interval.ms"] == f"{seconds * 1000:.0f}" == "5000"


def test_a_goal_is_reached_from_its_own_side() -> None:
    more, less = Goal("records_per_second", THEIRS, 2.0), Goal("p99_ms", THEIRS, 0.5)
    assert (more.reached(2.0), more.reached(1.9)) == (True, False)
    assert (less.reached(0.5), less.reached(0.6)) == (True, False)


def test_works_are_chosen_by_name_and_by_group_and_can_be_made_smaller() -> None:
    found = chosen(["copy", "copy-1k", "idle"], records=10, rate=None)
    copies = ["copy-1k", "copy-100", "copy-json", "copy-far", "pass-1k", "pass-100", "pass-json"]
    copies.append("executors-copy-1k")
    assert [work.name for work in found] == [*copies, "idle"]
    assert {work.records for work in found} == {10}
    assert {work.kind for work in chosen(["all"])} == set(Kind)
    with pytest.raises(ValueError, match="'cpoy' is no work; there are all, pairs, growth, copy"):
        chosen(["cpoy"])


def test_a_growth_curve_sets_each_point_against_the_cheapest() -> None:
    works = chosen(["sources-1", "sources-20", "size-100"])
    costs = {"sources-1": 200.0, "sources-20": 250.0}
    runs = [
        Run(name, OURS, 1, 0.5, {"cpu_per_million": it}, {}, GOOD) for name, it in costs.items()
    ]
    page = to_markdown(Result("2026-01-31", {}, {}, works, {}, runs))
    assert "## Growth: sources, 60 partitions" in page
    assert "| 1 | 200.0 | 1.00 | - | - | - | - |" in page
    assert "| 20 | 250.0 | 1.25 | - | - | - | - |" in page
    # A curve without a point is not shown.
    assert "Growth: bytes" not in page


def test_a_point_of_a_curve_belongs_to_no_group_of_pairs() -> None:
    assert not {work.name for work in chosen(["flow", "copy"])} & set(GROUPS["growth"])
    assert set(GROUPS["pairs"]) | set(GROUPS["growth"]) == set(GROUPS["all"]) == set(WORKS)


def test_half_of_the_groups_are_at_the_ends_and_the_others_spread_over_the_logs() -> None:
    first, last = TopicPartition("a", 0), TopicPartition("b", 1)
    assert planned({first: 300, last: 10}, 4) == {
        "bench-01": {first: 100, last: 3},
        "bench-02": {first: 200, last: 6},
        "bench-03": {first: 300, last: 10},
        "bench-04": {first: 300, last: 10},
    }


def test_a_group_without_an_offset_reads_all_again_and_one_beyond_misses_records() -> None:
    first, last = TopicPartition("a", 0), TopicPartition("b", 1)
    exact = {"behind": {first: 300, last: 10}, "beyond": {first: 100, last: 3}}
    assert compared(exact, exact) == Moved(again=0, missed=0, unset=0)
    found = {"behind": {first: 290}, "beyond": {first: 100, last: 5}}
    assert compared(exact, found) == Moved(again=20, missed=2, unset=1)
    assert compared(exact, {}) == Moved(again=413, missed=0, unset=4)


def test_both_tools_migrate_the_same_topics_and_only_there_the_other_one_moves_groups() -> None:
    settings = described(WORKS["migrate"])
    ours: Any = settings[OURS]
    theirs = settings[THEIRS]
    topics = "TOPIC,TOPIC-2,TOPIC-3,TOPIC-4"
    assert ours["sources"]["s01"]["topics"]["include"] == topics
    assert theirs["s01-RUN->hub.topics"] == topics
    assert theirs["sync.group.offsets.enabled"] == "true"
    assert described(WORK)[THEIRS]["sync.group.offsets.enabled"] == "false"


def test_a_packet_comes_back_from_where_it_was_sent_to() -> None:
    left, own, there, text = bytes(10), bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]), b"what it says"
    head = bytes(range(12))
    assert turned(left + head + own + there + text) == left + head + there + own + text


def test_clusters_that_cannot_be_had_fail_a_run_of_each_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_bed: object) -> None:
        raise RunFailedError("no line\nand more")

    monkeypatch.setattr(Bed, "__enter__", refuse)
    runs = list(run_works([WORKS["copy-far"], WORKS["idle"]], lambda _text: None))
    assert [(run.work, run.tool, run.failure) for run in runs] == [
        (name, tool, "no line") for name in ("copy-far", "idle") for tool in WORKS[name].tools
    ]


def test_a_failed_warm_up_is_in_the_result_and_the_rounds_are_run_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> None:
        raise RunFailedError("no broker")

    work = WORKS["copy-1k"]
    monkeypatch.setattr(Bed, "__enter__", lambda bed: bed)
    monkeypatch.setattr(Bed, "job", lambda *_: nullcontext(Job("run", "t", {}, "", tmp_path, work)))
    monkeypatch.setattr("bench.rounds.copy", fail)
    runs = list(run_works([replace(work, rounds=1)], lambda _text: None))
    assert [(run.tool, run.round) for run in runs] == [
        (LOOP_ORIGIN, 0),
        *((it, 1) for it in work.tools),
    ]
    assert "- copy-1k, round 0, plain loop, five headers: no broker" in to_markdown(
        replace(RESULT, runs=runs)
    )


def test_only_who_promises_less_may_double() -> None:
    twice = Check(4, 4, 0, 1, 0)
    assert Outcome({}, {}, twice).failure
    assert not Outcome({}, {}, twice, doubles_allowed=True).failure
    assert Outcome({}, {}, Check(4, 3, 1, 0, 0), doubles_allowed=True).failure


@pytest.mark.parametrize("work", ["flow-1k", "flow-1000-partitions", "partitions-2000"])
def test_all_tools_get_the_same_heap_as_ours_has_by_itself(work: str) -> None:
    settings = described(WORKS[work])
    ours: Any = settings[OURS]
    assert ours["spark"]["conf"]["spark.driver.memory"] == "2g"
    assert settings["heap"] == {"of each tool's JVM": "-Xmx2g"}


def test_several_processes_are_workers_of_spark_here_and_of_connect_there(tmp_path: Path) -> None:
    settings: Any = described(WORKS["executors-copy-1k"])
    one, two = settings[OURS], settings[OURS_ON_2]
    assert two["spark"]["conf"]["spark.executor.instances"] == "2"
    assert "master" not in one["spark"]
    assert {**two, "spark": one["spark"]} == one
    assert settings[THEIRS_2] == settings[THEIRS] | mirror.REST
    job = Job("run", "t", {"s01": "a:1"}, "h:1", tmp_path, WORKS["copy-1k"])
    child = GuardedProcess(["sleep", "60"], tmp_path / "log")
    worker = GuardedProcess(["sleep", "60"], tmp_path / "log")
    try:
        with_workers = replace(job, master=SparkMaster("spark://m:7077", processes=[worker]))
        assert list(members(*job.groups(child))) == [child.pid]
        assert set(members(*with_workers.groups(child))) == {child.pid, worker.pid}
    finally:
        child.kill()
        worker.kill()


def test_the_others_have_our_producers_but_for_compression() -> None:
    theirs = described(WORKS["copy-1k"])[THEIRS]
    for name, value in {**DEFAULTS["producer"], **ENFORCED["producer"]}.items():
        expected = "none" if name == "compression.type" else value
        assert theirs[f"hub.producer.{name}"] == expected


def test_batches_are_counted_as_the_hub_keeps_them(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)

    def batch(records: int, body: int, attributes: int = 0) -> bytes:
        made = bytearray(61 + body)
        made[8:12] = (49 + body).to_bytes(4)
        made[22] = attributes
        made[57:61] = records.to_bytes(4)
        return bytes(made)

    marker = batch(1, 17, 0x20)
    written = batch(3, 1000) + marker + batch(5, 963) + bytes(4096)
    (folder / "00000000000000000000.log").write_bytes(written)
    found = batches_of(tmp_path / "data", "orders")
    assert found == (2, 8, 2085)
    assert found.figures() == {
        "records_per_batch": 4,
        "batch_kib": 2085 / 2 / 1024,
        "bytes_per_record": 2085 / 8,
    }
    assert batches_of(tmp_path / "data", "payments").figures() == {}


@pytest.mark.slow
def test_the_batch_loop_is_made_of_the_connector_as_it_is(tmp_path: Path) -> None:
    compile_batch_loop(tmp_path)
    assert (tmp_path / "aggregator" / "connector" / "BatchLoop.class").is_file()
