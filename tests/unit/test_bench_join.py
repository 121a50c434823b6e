"""Results of several campaigns become one: rounds numbered on, nothing joined that differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.files import read, write
from bench.join import joined, main
from bench.measure import OURS, THEIRS, Check, Run
from bench.report import Result
from bench.tools import described
from bench.works import WORKS

GOOD = Check(4, 4, 0, 0, 0)


def result(date: str, name: str, *milliseconds: float, **changes: object) -> Result:
    """A result of one work: for each p99 one of our runs, and a failed one of theirs."""
    work = replace(WORKS[name], rounds=len(milliseconds), **changes)  # type: ignore[arg-type]
    runs = [
        run
        for number, p99 in enumerate(milliseconds, 1)
        for run in (
            Run(name, OURS, number, 0.5, {"p99_ms": p99}, {"sent late": 1.0}, GOOD),
            Run(name, THEIRS, number, 0.5, failure="ended by itself"),
        )
    ]
    return Result(date, {"cores": 2}, {THEIRS: "4.3.1"}, [work], {name: described(work)}, runs)


def saved(folder: Path, *results: Result) -> list[str]:
    """The JSON files of results."""
    names = []
    for number, each in enumerate(results):
        paths = [folder / f"{number}.md", folder / f"{number}.json"]
        write(each, paths)
        names.append(str(paths[1]))
    return names


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = result("2026-01-31", "flow-1k", 7.0)
    (name,) = saved(tmp_path, one)
    found = read(Path(name))
    assert (found.date, list(found.works), list(found.runs)) == (one.date, one.works, one.runs)


def test_rounds_of_a_work_are_numbered_on_and_works_are_in_their_order() -> None:
    one = result("2026-01-30", "flow-10k", 5.0)
    two = result("2026-01-31", "flow-1k", 7.0, 9.0)
    three = result("2026-01-31", "flow-1k", 8.0)
    found = joined([one, two, three])
    assert found.date == "2026-01-30, 2026-01-31"
    assert [(work.name, work.rounds) for work in found.works] == [("flow-1k", 3), ("flow-10k", 1)]
    ours = [run for run in found.runs if run.work == "flow-1k" and run.tool == OURS]
    assert [(run.round, run.values["p99_ms"]) for run in ours] == [(1, 7), (2, 9), (3, 8)]
    assert sum(run.failure != "" for run in found.runs) == 4


def test_what_was_not_measured_alike_is_not_joined() -> None:
    one = result("2026-01-30", "flow-1k", 5.0)
    longer = result("2026-01-31", "flow-1k", 5.0, seconds=60.0)
    with pytest.raises(ValueError, match=r"flow-1k: seconds is 90\.0 and 60\.0"):
        joined([one, longer])
    with pytest.raises(ValueError, match=r"machine is .*2.* and .*64.*; versions is .*4\.3\.1.*5"):
        joined([one, replace(one, machine={"cores": 64}, versions={THEIRS: "5"})])
    with pytest.raises(ValueError, match="the settings of flow-1k differ"):
        joined([one, replace(one, settings={"flow-1k": {OURS: {"hub": "other"}}})])


def test_the_command_writes_both_files_or_says_why_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = result("2026-01-30", "flow-1k", 5.0), result("2026-01-31", "flow-1k", 7.0)
    names, out = saved(tmp_path, one, two), tmp_path / "out"
    assert main([*names, "--out", str(out), "--raw", str(tmp_path / "raw")]) == 0
    (page,) = out.glob("*.md")
    assert "6.0 (5.0 - 7.0; 2)" in page.read_text("utf-8")
    assert len(read(next((tmp_path / "raw").glob("*.json"))).runs) == 4
    (tmp_path / "no.json").write_text('{"date": "2026-01-31"}', "utf-8")
    assert main([names[0], str(tmp_path / "no.json")]) == 1
    assert "no.json is not a result of the bench" in capsys.readouterr().err
    assert main([str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err
