"""Failpoints: what the variable may say, what happens at a place, and that every place is there."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import aggregator
from aggregator.model.errors import ConfigError
from aggregator.model.failpoint import POINTS, VARIABLE, ArmedFailpoint, failpoint, parse

ROOT = Path(aggregator.__file__).parent

PROGRAM = """
from aggregator.model.failpoint import failpoint
for number in range(5):
    failpoint("after-commit")
    print(number, flush=True)
print("end", flush=True)
"""


def run(spec: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, VARIABLE: spec},
        capture_output=True,
        text=True,
        timeout=60,
    )


def placed() -> Iterator[str]:
    """The names in all calls in the package."""
    for path in ROOT.rglob("*.py"):
        text = path.read_text("utf-8")
        # To take all modules apart, for the few that have one, takes a second.
        if "failpoint(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id == "failpoint" and path.name != "failpoint.py":
                (name,) = node.args
                assert isinstance(name, ast.Constant), f"{path}: not a plain name"
                yield str(name.value)
    for path in ROOT.rglob("*.java"):
        yield from re.findall(r'Failpoint\.pass\("([^"]+)"\)', path.read_text("utf-8"))


def test_every_place_is_in_the_code_once_and_nothing_else_is() -> None:
    assert sorted(placed()) == sorted(POINTS)


def test_what_the_variable_may_say() -> None:
    assert parse("") == {}
    assert parse("after-lock") == {"after-lock": ArmedFailpoint()}
    assert parse(" after-lock:3 , after-scan=pause:0.5,before-write:2=raise") == {
        "after-lock": ArmedFailpoint(3),
        "after-scan": ArmedFailpoint(1, "pause", 0.5),
        "before-write": ArmedFailpoint(2, "raise"),
    }


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("after-lok", "did you mean after-lock?"),
        ("nothing-like-it", "valid: after-plan, "),
        ("after-lock:0", "from 1 on"),
        ("after-lock:", "from 1 on"),
        ("after-lock:x", "from 1 on"),
        ("after-lock=explode", "valid: kill, raise, pause:SECONDS"),
        ("after-lock=pause", "write after-lock=pause:20"),
    ],
)
def test_what_it_may_not_say(spec: str, words: str) -> None:
    with pytest.raises(ConfigError, match=VARIABLE) as caught:
        parse(spec)
    assert words in str(caught.value)


def test_a_process_dies_at_the_pass_and_says_so() -> None:
    done = run("after-commit:3")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["0", "1"]
    assert done.stderr == "failpoint after-commit, pass 3: kill\n"


def test_a_place_raises_or_waits() -> None:
    failed = run("after-commit:2=raise")
    assert failed.returncode == 1
    assert "FailpointError: failpoint after-commit" in failed.stderr
    began = time.monotonic()
    paused = run("after-commit=pause:1")
    assert time.monotonic() - began >= 1
    assert (paused.returncode, paused.stdout.split()[-1]) == (0, "end")


def test_a_wrong_name_is_refused_at_the_first_place() -> None:
    done = run("after-comit")
    assert done.returncode == 1
    assert "did you mean after-commit?" in done.stderr


def test_without_the_variable_nothing_happens() -> None:
    assert run("").returncode == 0
    failpoint("after-lock")
