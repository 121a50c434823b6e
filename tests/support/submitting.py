"""Jobs under spark-submit, with two executors that are processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.datapath.spark.session import LOG4J_FILE
from support.archived import submission
from support.processes import processes
from support.reading import wait_for

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SECONDS = 300
WORK = Path(pyspark.__file__).parent / "work"
"""Where executors of `local-cluster` work, whatever SPARK_WORKER_DIR says: 20 MB of jars each."""


LOG4J = f"-Dlog4j2.configurationFile={LOG4J_FILE.as_uri()}"


def command(job: str, *arguments: str, quick: bool = False) -> list[str]:
    """The command line of a job of `jobs/`, or of another file.

    It has two executors, of eight slots each. A driver that is not `quick` has our classes as a
    user's has them: by `--jars` alone.
    """
    jars = CliRunner().invoke(app, ["jars"], catch_exceptions=False)
    assert jars.exit_code == 0, jars.output
    return [
        str(BIN / "spark-submit"),
        *("--master", "local-cluster[2,8,1024]"),
        *(submission(LOG4J) if quick else ("--driver-java-options", LOG4J)),
        *("--jars", jars.stdout.strip()),
        str(ROOT / "jobs" / job),
        *arguments,
    ]


@contextmanager
def submitted(
    job: str, arguments: list[str], folder: Path, *, quick: bool = False
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The process and its log; whatever is left of it is killed at the end."""
    folder.mkdir()
    log = folder / "log"
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    before = {*WORK.glob("app-*")}
    with log.open("wb") as file:
        process = subprocess.Popen(
            command(job, *arguments, quick=quick),
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process, log
    finally:
        # The group, because executors are children of children.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            assert process.poll() is not None
        process.wait(SECONDS)
        _remove_work(process.pid, before)


def _remove_work(group: int, before: set[Path]) -> None:
    """Remove where executors have worked since; another run may have some at the same time."""
    wait_for(lambda: all(it.group != group for it in processes()), "all are gone", SECONDS)
    running = "\n".join(it.command for it in processes())
    for left in {*WORK.glob("app-*")} - before:
        if left.name not in running:
            shutil.rmtree(left, ignore_errors=True)


def python_of(submit: subprocess.Popen[bytes], job: str) -> int:
    """The process that runs the job: a child of the JVM that spark-submit has become.

    A child that the JVM has just forked has the JVM's own command line until it becomes another
    program, and may be gone by the time it is looked at. So the program counts too.
    """
    children = Path(f"/proc/{submit.pid}/task").glob("*/children")
    pids = [int(pid) for each in children for pid in each.read_text().split()]
    (found,) = (pid for pid in pids if _runs_python(pid, job))
    return found


def _runs_python(pid: int, job: str) -> bool:
    try:
        program, *arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return program == sys.executable.encode() and any(job.encode() in it for it in arguments)
