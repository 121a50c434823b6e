"""Runs the Java tests of the connector's classes (tests/java) in JUnit's own runner."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from aggregator.connector.build import compile_java, connector_jar, spark_jars
from aggregator.jars import jars, java_command

SOURCES = Path(__file__).parents[1] / "java"
RUNNER = "org.junit.platform.console.ConsoleLauncher"
DEADLINE_SECONDS = 300


def test_the_java_tests_pass(tmp_path: Path) -> None:
    sources = sorted(SOURCES.glob("*.java"))
    assert sources, f"no tests in {SOURCES}"
    (compiler,) = jars("compiler")
    clients = [jar for jar in jars("spark") if jar.name.startswith("kafka-clients-")]
    # All on one class path, so that a test sees what is private to the package that it tests.
    class_path = [connector_jar(), *jars("java-tests"), *clients, *spark_jars()]
    compile_java(java_command(), compiler, class_path, sources, tmp_path)
    done = subprocess.run(
        [
            java_command(),
            *("-cp", os.pathsep.join(map(str, [tmp_path, *class_path]))),
            *(RUNNER, "execute", "--scan-class-path", str(tmp_path)),
            *("--fail-if-no-tests", "--disable-banner", "--disable-ansi-colors"),
            *("--details", "tree", "--details-theme", "ascii"),
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=DEADLINE_SECONDS,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    passed = re.search(r"\[\s*(\d+) tests successful", said)
    assert passed, said
    assert int(passed[1]) >= 1, said
