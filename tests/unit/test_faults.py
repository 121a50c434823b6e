"""The fault campaign's own pure parts: what it draws, how it judges, what it writes."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from aggregator.model.failpoint import POINTS, parse
from faults.batch_origins import HEAD, BatchOrigins, name_of
from faults.campaign import Round
from faults.holds import HOLDS
from faults.judge import Headers, Judge, longest_silence
from faults.load import Writer
from faults.nemeses import NEMESES
from faults.report import Report, to_json, to_markdown, write
from faults.schedule import LOCAL, OVERLAPS, WEIGHTS, Fault, faults, needs
from faults.usage import GROWTH_ALLOWED, Usage, trends
from faults.world import Restart, Settings, Struck

TOPIC = "events"


def test_a_seed_draws_the_same_faults_again_and_another_one_others() -> None:
    first, again, other = (list(islice(faults(seed), 50)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_every_kind_is_drawn_and_can_be_done() -> None:
    drawn = list(islice(faults(1, tuple(WEIGHTS)), 2_000))
    assert {kind_of(fault) for fault in drawn} == WEIGHTS.keys() == NEMESES.keys()
    assert {kind_of(fault) for fault in islice(faults(1), 2_000)} == set(LOCAL)
    assert all(fault.calm >= 1 for fault in drawn)


def kind_of(fault: Fault) -> str:
    return "overlap" if fault.during else fault.kind


def test_each_kind_comes_once_before_one_comes_again() -> None:
    first = islice(faults(21), len(LOCAL))
    assert {"overlap" if it.during else it.kind for it in first} == set(LOCAL)


def test_every_pair_that_overlaps_is_drawn_and_can_be_done() -> None:
    drawn = [fault for fault in islice(faults(1, tuple(WEIGHTS)), 2_000) if fault.during]
    assert {(fault.during, fault.kind) for fault in drawn} == set(OVERLAPS)
    assert all(fault.seconds for fault in drawn)
    for during, kind in OVERLAPS:
        assert during in HOLDS
        assert kind in HOLDS or kind in ("app-kill", "app-restart")


def test_only_pairs_of_kinds_that_were_asked_for_overlap() -> None:
    kinds = ("app-kill", "source-kill", "source-pause", "overlap")
    drawn = {fault.during for fault in islice(faults(1, kinds), 200) if fault.during}
    assert drawn == {"source-kill", "source-pause"}


def test_a_world_is_made_for_the_kinds_that_are_done_in_it() -> None:
    assert needs(["app-kill"]) == {}
    whole = replace(Settings(), **needs(LOCAL))
    assert (whole.proxied, whole.tokens, whole.older) == (True, True, "3.9")


def test_only_what_was_asked_for_is_drawn() -> None:
    assert {fault.kind for fault in islice(faults(1, ["hub-kill"]), 20)} == {"hub-kill"}


def test_every_failpoint_that_a_life_comes_to_is_drawn() -> None:
    drawn = [fault.failpoint for fault in islice(faults(1), 5_000) if fault.failpoint]
    armed = Counter(name for spec in drawn for name in parse(spec))
    maintenance = {"before-compaction", "after-compaction", "after-vacuum"}
    elsewhere = {"after-gap", "after-change", "backfill-scanned", "backfill-point"}
    elsewhere |= {"before-events-known", "before-events-kept", "after-events-kept", "task-pass"}
    assert POINTS.keys() - armed.keys() == {"after-plan", *elsewhere, *maintenance}


def origin(partition: int, offset: int, *, alias: str = "eu", timestamp: int = 5) -> Headers:
    values = (alias, TOPIC, partition, offset, timestamp)
    names = ("cluster", "topic", "partition", "offset", "timestamp")
    return [(f"origin.{name}", str(it).encode()) for name, it in zip(names, values, strict=True)]


def judge(offsets: int = 3, **options: bool) -> Judge:
    """One source partition with the offsets 0, 1 ... and a header each."""
    judging = Judge(TOPIC, **options)
    for offset in range(offsets):
        judging.source("eu", 0, offset, b"k", b"v%d" % offset, [("h", b"1")], 5)
    return judging


def copy(judging: Judge, offset: int, *, partition: int = 0, key: bytes | None = b"k") -> None:
    """The hub's record of an offset, as it should be."""
    headers = [("h", b"1"), *origin(0, offset)]
    judging.hub(partition, key, b"v%d" % offset, headers, 5)


ACKED = {("eu", 0): bytearray([1, 1, 1])}


def test_what_is_right_is_right() -> None:
    judging = judge()
    for offset in range(3):
        copy(judging, offset)
    verdict = judging.verdict(ACKED)
    assert verdict.problems == {}
    assert (verdict.acknowledged, verdict.in_sources, verdict.in_hub) == (3, 3, 3)


def test_each_defect_is_found() -> None:
    judging = judge(5)
    copy(judging, 1)
    copy(judging, 0)
    copy(judging, 0)
    headers = [("h", b"1"), *origin(0, 2)]
    judging.hub(0, b"k", b"other", headers, 5)
    judging.hub(0, b"k", b"v3", [("h", b"2"), *origin(0, 3)], 5)
    judging.hub(0, b"k", b"v9", [("h", b"1"), *origin(0, 9)], 5)
    judging.hub(0, b"k", b"v0", [("h", b"1"), *origin(1, 0)], 5)
    judging.hub(0, b"k", b"no origin", [], 5)
    verdict = judging.verdict({("eu", 0): bytearray([1] * 6)})
    assert verdict.problems == {
        "lost": 1,
        "twice": 1,
        "altered": 2,
        "out_of_order": 1,
        "foreign": 3,
        "lost_at_source": 1,
    }
    assert verdict.examples["lost"] == ["eu-0@4"]
    assert verdict.examples["twice"] == ["eu-0@0 in hub partition 0"]


def test_what_is_found_of_several_topics_is_added_up() -> None:
    first, second = judge(3), judge(3)
    copy(first, 1)
    copy(second, 1)
    copy(second, 1)
    verdict = first.verdict({})
    verdict.join(second.verdict(ACKED))
    assert verdict.problems == {"lost": 4, "twice": 1}
    assert (verdict.in_sources, verdict.in_hub, verdict.acknowledged) == (6, 3, 3)
    assert verdict.examples["lost"] == ["eu-0@0", "eu-0@2", "eu-0@0", "eu-0@2"]


@pytest.mark.parametrize("key", [b"k", None])
def test_order_is_that_of_a_hub_partition_with_a_key_and_without(key: bytes | None) -> None:
    for partition, wrong in {1: {}, 0: {"out_of_order": 1}}.items():
        judging = Judge(TOPIC)
        for offset in range(2):
            judging.source("eu", 0, offset, key, b"v%d" % offset, [("h", b"1")], 5)
        copy(judging, 1, partition=partition, key=key)
        copy(judging, 0, key=key)
        assert judging.verdict({}).problems == wrong


@pytest.mark.parametrize(("kept", "altered"), [(True, 1), (False, 0)])
def test_a_timestamp_is_compared_where_the_hub_keeps_it(kept: bool, altered: int) -> None:
    judging = judge(1, timestamps=kept)
    judging.hub(0, b"k", b"v0", [("h", b"1"), *origin(0, 0)], 99)
    assert judging.verdict({}).altered == altered


def test_a_wrong_time_in_the_origin_is_an_alteration() -> None:
    judging = judge(1)
    judging.hub(0, b"k", b"v0", [("h", b"1"), *origin(0, 0, timestamp=6)], 6)
    assert judging.verdict({}).altered == 1


def test_the_longest_silence_counts_from_the_first_moment_to_the_last() -> None:
    assert longest_silence([10, 12, 15, 21], 10, 20) == (5, 5)
    assert longest_silence([], 10, 20) == (10, 0)
    assert longest_silence([19, 11], 10, 20) == (8, 1)


def report_of(*rounds: Round) -> Report:
    return Report("2026-01-02", {"cores": 2}, "make faults", rounds)


def round_of(**options: object) -> Round:
    judging = judge()
    for offset in range(3):
        copy(judging, offset)
    verdict = judging.verdict(ACKED)
    found = Round("random", "faults", Settings(seed=77), "2026-01-02", verdict=verdict)
    found.struck = [Struck(12.0, "hub-kill for 3 s", 4.5)]
    found.restarts = [Restart(1.0, "the first start", 9.0), Restart(20.0, "app-kill", None)]
    return replace(found, **options)  # type: ignore[arg-type]


def test_a_good_report_says_so() -> None:
    text = to_markdown(report_of(round_of()))
    assert "**All good.**" in text
    assert "seed 77" in text
    assert "| 12 | hub-kill for 3 s | 4.5 |" in text
    assert "| 20 | app-kill | - |" in text
    assert json.loads(to_json(report_of(round_of(folder="/somewhere"))))["good"] is True


def test_a_bad_report_says_what_is_wrong() -> None:
    judging = judge()
    report = report_of(round_of(verdict=judging.verdict(ACKED)), round_of(failures=["it ended"]))
    text = to_markdown(report)
    assert "**NOT GOOD.**" in text
    assert "- lost: 3, such as eu-0@0; eu-0@1; eu-0@2" in text
    assert "- FAILURE: it ended" in text
    assert not report.good


def test_no_report_is_overwritten(tmp_path: Path) -> None:
    first = write(report_of(round_of()), tmp_path, tmp_path / "raw")
    second = write(report_of(round_of()), tmp_path, tmp_path / "raw")
    assert {path.name for path in first} == {"2026-01-02-faults.md", "2026-01-02-faults.json"}
    assert {path.name for path in second} == {"2026-01-02-faults-2.md", "2026-01-02-faults-2.json"}


def whole_batch(first: int, records: int, producer: int, offset: int) -> bytes:
    epoch, sequence = divmod(offset, 1 << 31)
    rest = HEAD.size - 12 + 9
    head = (first, rest, 0, 2, 0, 0, records - 1, 0, 0, producer, epoch, sequence, records)
    return HEAD.pack(*head) + bytes(9)


def test_the_origin_of_a_record_of_a_whole_batch_is_in_the_log(tmp_path: Path) -> None:
    eu, run = name_of("eu", TOPIC, 3), 77
    far = (5 << 31) + 12
    log = whole_batch(0, 10, 4_711, 0) + whole_batch(10, 5, eu + run, 100)
    log += whole_batch(15, 2, eu + run, far) + whole_batch(17, 3, eu, 200)[:-1]
    (tmp_path / "00000000000000000000.log").write_bytes(log)
    origins = BatchOrigins({0: tmp_path}, [("eu", TOPIC, 3), ("us", TOPIC, 3)])
    assert origins.records == 7
    assert origins.origin(0, 9) is None
    assert origins.origin(0, 10) == ("eu", TOPIC, 3, 100)
    assert origins.origin(0, 14) == ("eu", TOPIC, 3, 104)
    assert origins.origin(0, 16) == ("eu", TOPIC, 3, far + 1)
    assert origins.origin(0, 17) is None
    assert origins.origin(1, 10) is None


def test_a_record_of_a_whole_batch_is_judged_by_what_its_batch_says() -> None:
    judge = Judge(TOPIC)
    for offset in range(3):
        judge.source("eu", 0, offset, b"k", b"%d" % offset, [("a", b"b")], 5)
    for offset, value in ((0, b"0"), (1, b"x")):
        judge.hub(4, b"k", value, [("a", b"b")], 5, ("eu", TOPIC, 0, offset))
    assert judge.verdict({}).problems == {"lost": 1, "altered": 1}


def held(life: int, age: float, **others: Any) -> Usage:
    values: dict[str, Any] = {
        "memory": 600 * 2**20,
        "threads": 200,
        "descriptors": 400,
        "files": 9,
        "size": 10**6,
    }
    return Usage(at=age, life=life, age=age, **{**values, **others})


def test_what_grows_in_a_long_life_is_found_and_a_peak_is_not() -> None:
    ages = [float(age) for age in range(0, 3_600, 20)]
    flat = [held(1, age, threads=200 + (50 if age == 1_000 else 0)) for age in ages]
    assert [it.measure for it in trends(flat) if it.grows] == []
    # One that starts is smaller, and that is no growth.
    starting = [held(1, age, threads=100 if age < 300 else 200) for age in ages]
    assert [it.measure for it in trends(starting) if it.grows] == []
    for measure, each in (("memory", 200_000), ("threads", 1), ("descriptors", 1)):
        base = getattr(held(1, 0.0), measure)
        grown = [held(2, age, **{measure: base + each * round(age / 20)}) for age in ages]
        assert [(it.life, it.measure) for it in trends(grown) if it.grows] == (
            [] if measure == "memory" else [(2, measure)]
        )
    leak = [held(1, age, memory=600 * 2**20 + 2**20 * round(age / 5)) for age in ages]
    assert [it.measure for it in trends(leak) if it.grows] == ["memory"]
    assert trends(flat[:40]) == []
    found = Round("random", "faults", Settings(), "2026-01-02", usages=leak)
    page = to_markdown(report_of(found))
    assert "| 1 | 55 | memory | 692,060,160 |" in page
    assert "Files of the state: 9 with 1,000,000 bytes after 0 s" in page


def test_of_times_the_medians_of_a_life_are_compared_whatever_a_fault_has_made_of_some() -> None:
    ages = [float(age) for age in range(0, 3_600, 20)]
    flat = [held(1, age, copy_ms=9_000.0 if age % 400 < 100 else 3.0) for age in ages]
    assert [it.measure for it in trends(flat) if it.grows] == []
    assert {it.measure for it in trends(flat)} == {*GROWTH_ALLOWED, "copy_ms"}
    slower = [held(1, age, commit_age=1.0 + age / 1_000) for age in ages]
    assert [it.measure for it in trends(slower) if it.grows] == ["commit_age"]
    gone = [held(1, age, commit_age=None) for age in ages]
    assert {it.measure for it in trends(gone)} == {*GROWTH_ALLOWED}


def test_a_day_of_the_load_has_its_rate_in_all_and_begins_at_night() -> None:
    writer = Writer("eu", "127.0.0.1:9", TOPIC, 1, 100.0, seed=1, linger_ms=0.0)
    assert writer.due(60.0) == 6_000
    writer.day_seconds = 1_000.0
    due = [writer.due(float(second)) for second in range(2_001)]
    assert due[1_000] == pytest.approx(100_000) and due[2_000] == pytest.approx(200_000)
    rates = [after - before for before, after in pairwise(due)]
    assert min(rates) == pytest.approx(20, abs=0.1) == rates[0]
    assert max(rates) == pytest.approx(180, abs=0.1)


def test_a_soak_draws_faults_that_there_are_and_that_end_no_life() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text("utf-8")
    kinds = re.sub(r"\$\\\n\s*", "", makefile.split("SOAK_KINDS := ")[1]).splitlines()[0].split(",")
    assert set(kinds) <= set(WEIGHTS)
    assert not [it for it in kinds if it.startswith(("app-", "checkpoint-", "overlap"))]
    assert len(kinds) > 5
