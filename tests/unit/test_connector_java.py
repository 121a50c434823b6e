"""Runs the Java tests of the connector's classes (tests/java) in JUnit's own runner."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.java_tests import SOURCES, compile_tests, run_java

RUNNER = "org.junit.platform.console.ConsoleLauncher"


@pytest.mark.slow
def test_the_java_tests_pass(tmp_path: Path) -> None:
    sources = sorted(SOURCES.glob("*.java"))
    assert sources, f"no tests in {SOURCES}"
    compile_tests(sources, tmp_path)
    done = run_java(
        tmp_path,
        RUNNER,
        "execute",
        "--scan-class-path",
        str(tmp_path),
        "--fail-if-no-tests",
        "--disable-banner",
        "--disable-ansi-colors",
        "--details",
        "tree",
        "--details-theme",
        "ascii",
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    passed = re.search(r"\[\s*(\d+) tests successful", said)
    assert passed, said
    assert int(passed[1]) >= 1, said
