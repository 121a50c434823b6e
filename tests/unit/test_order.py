"""The order of test files names files that are there; which of how many processes take them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.jobs import jobs, jobs_here
from support.order import ORDER
from support.scheduling import is_of_sessions, plan_next

ROOT = Path(__file__).parents[2]
INTEGRATION = ROOT / "tests" / "integration"
UNIT = "tests/unit/test_order.py"
RUNS, FRAMES = "tests/integration/test_run.py", "tests/spark/test_frames.py"
KILLS = "tests/integration/test_failpoints.py"

HANGS = """
import time

def test_before():
    pass

def test_hangs():
    while True:
        try:
            time.sleep(600)
        except BaseException:
            pass

def test_after():
    pass
"""


def test_the_files_that_run_first_are_there() -> None:
    assert not [name for name in ORDER if not (INTEGRATION / name).is_file()]
    assert len(set(ORDER)) == len(ORDER)


@pytest.mark.parametrize(
    ("cores", "gigabytes", "processes"),
    [(2, 23.4, 3), (2, 3.9, 1), (16, 31.0, 10), (4, 64.0, 6), (1, 1.9, 1)],
)
def test_three_processes_for_two_cores_test_where_there_is_memory(
    cores: int, gigabytes: float, processes: int
) -> None:
    assert jobs(cores, gigabytes) == processes


def test_a_container_gets_no_more_than_it_is_given(tmp_path: Path) -> None:
    unlimited = jobs_here(tmp_path)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert jobs_here(tmp_path) == unlimited >= 1
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert jobs_here(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text(f"{4 * 2**30}\n")
    assert jobs_here(tmp_path) == 1


@pytest.mark.parametrize(
    ("waiting", "with_sessions", "without"),
    [
        ([UNIT, FRAMES, KILLS], UNIT, UNIT),
        ([FRAMES, KILLS, RUNS], FRAMES, KILLS),
        ([KILLS, FRAMES, RUNS], FRAMES, KILLS),
        ([KILLS], KILLS, KILLS),
        ([RUNS, FRAMES], RUNS, RUNS),
    ],
)
def test_one_process_leaves_sessions_to_the_others_while_there_is_other_work(
    waiting: list[str], with_sessions: str, without: str
) -> None:
    assert plan_next(waiting, without=False, root=ROOT) == with_sessions
    assert plan_next(waiting, without=True, root=ROOT) == without


@pytest.mark.parametrize(
    ("waiting", "unit", "without", "chosen"),
    [
        ([FRAMES, KILLS, UNIT], True, False, UNIT),
        ([FRAMES, KILLS, UNIT], False, False, FRAMES),
        ([FRAMES, KILLS, UNIT], False, True, KILLS),
        ([FRAMES, UNIT], False, True, FRAMES),
        ([FRAMES, KILLS, UNIT], None, False, FRAMES),
    ],
)
def test_where_one_process_has_unit_tests_alone_the_others_leave_them_to_it(
    waiting: list[str], unit: bool | None, without: bool, chosen: str
) -> None:
    assert plan_next(waiting, without=without, root=ROOT, unit=unit) == chosen
    # When nothing else is left all help.
    assert plan_next([UNIT], without=without, root=ROOT, unit=unit) == UNIT


def test_tests_of_frames_make_sessions_and_those_of_applications_do_not() -> None:
    found = {it.name for it in (ROOT / "tests" / "spark").glob("test_*.py") if is_of_sessions(it)}
    assert "test_frames.py" in found
    assert "test_audit_apart.py" not in found


@pytest.mark.slow
def test_a_test_that_no_signal_ends_costs_its_process_once_and_the_others_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nfaulthandler_timeout = 2\nfaulthandler_exit_on_timeout = true\n"
    )
    (tmp_path / "conftest.py").write_text(
        "from support.scheduling import scheduler as pytest_xdist_make_scheduler\n"
    )
    (tmp_path / "test_a.py").write_text(HANGS)
    (tmp_path / "test_b.py").write_text("def test_is_quick():\n    pass\n")
    run = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-q", "-rA"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tests")}
    environment.pop("PYTEST_XDIST_WORKER", None)
    ended = subprocess.run(
        run, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith(("PASSED", "FAILED"))]
    assert sorted(line.split(" - ")[0] for line in lines) == [
        "FAILED test_a.py::test_hangs",
        "PASSED test_a.py::test_after",
        "PASSED test_a.py::test_before",
        "PASSED test_b.py::test_is_quick",
    ]
    assert " in test_hangs\n" in ended.stderr
