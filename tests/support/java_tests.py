"""The Java of tests/java: compiled against the connector's jar, and run beside it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aggregator.datapath.connector.build import (
    SHORT_LIVED,
    codec_jars,
    compile_java,
    connector_jar,
    spark_jars,
)
from aggregator.datapath.jars import jars, java_command

SOURCES = Path(__file__).parents[1] / "java"
DEADLINE_SECONDS = 300


def compile_tests(sources: Sequence[Path], target: Path) -> None:
    """Compile some of the sources into a folder, as strictly as those of the connector."""
    (compiler,) = jars("compiler")
    compile_java(java_command(), compiler, _class_path(), sources, target)


def run_java(target: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a main class, and its arguments, with what was compiled into a folder.

    Options of Java may come before the class.
    """
    # All on one class path, so that a test sees what is private to the package that it tests.
    return _run([target, *_class_path()], *arguments, given=given)


def _run(
    class_path: Sequence[Path], *arguments: str, given: str
) -> subprocess.CompletedProcess[str]:
    places = os.pathsep.join(map(str, class_path))
    return subprocess.run(
        [java_command(), *SHORT_LIVED, "-Dstdout.encoding=UTF-8", "-cp", places, *arguments],
        input=given,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=DEADLINE_SECONDS,
    )


def read_by_mirror_maker(target: Path, given: str) -> list[str]:
    """What mirror/ReadHeartbeats.java prints, with MirrorMaker 2's own jars and no others."""
    (compiler,) = jars("compiler")
    mirror = jars("mirror")
    source = SOURCES / "mirror" / "ReadHeartbeats.java"
    compile_java(java_command(), compiler, mirror, [source], target)
    done = _run([target, *mirror], "mirror.ReadHeartbeats", given=given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def asked_of_mirror_maker(target: Path, cases: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What mirror/AskMirrorMaker.java says of each case, all in one Java."""
    (compiler,) = jars("compiler")
    mirror = jars("mirror")
    source = SOURCES / "mirror" / "AskMirrorMaker.java"
    compile_java(java_command(), compiler, mirror, [source], target)
    asker = "org.apache.kafka.connect.mirror.AskMirrorMaker"
    given = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = _run([target, *mirror], asker, given=given)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(said) == len(cases), done.stdout[-1000:] + done.stderr[-1000:]
    return said


def printed_by(name: str, target: Path, *others: str, given: str = "") -> list[str]:
    """The lines that the class `name` of tests/java prints.

    It is compiled into a folder first, with the `others` that it needs.
    """
    compile_tests([SOURCES / f"{it}.java" for it in (name, *others)], target)
    done = run_java(target, f"aggregator.connector.{name}", given=given)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def _class_path() -> list[Path]:
    clients = [jar for jar in jars("spark") if jar.name.startswith("kafka-clients-")]
    return [connector_jar(), *jars("java-tests"), *clients, *spark_jars(), *codec_jars()]
