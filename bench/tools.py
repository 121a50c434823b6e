"""All tools under test by name: how each is started and stopped, and what it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.model.errors import AggregatorError
from aggregator.plan.lanes.memory import DEFAULT_HEAP
from bench import loops, mirror, ours
from bench.job import Job, Tool
from bench.works import Work

STOP_SECONDS = 300.0

BROKER_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
BROKER_CONFIG: Mapping[str, str] = {
    # The hub's topic of one run is gone before that of the next is filled.
    "log.segment.delete.delay.ms": "1000",
}

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (*ours.TOOLS, *mirror.TOOLS, *loops.TOOLS)}


def start(tool: Tool, job: Job) -> GuardedProcess:
    """Start the tool as a child process, which does not outlive this one."""
    return GuardedProcess(tool.command(job), job.folder / "tool.log", remove=job.folder)


@contextmanager
def running(tool: Tool, job: Job) -> Iterator[GuardedProcess]:
    """The tool as a child process while the block runs, stopped by SIGTERM with it.

    AggregatorError when it does not stop, or ends with an unexpected code. Killed when the block
    fails.
    """
    child = start(tool, job)
    try:
        yield child
        stop(tool, child)
    finally:
        if child.alive:
            child.kill()


def stop(tool: Tool, child: GuardedProcess) -> None:
    """SIGTERM; AggregatorError when it does not end, or with an unexpected code."""
    if not child.terminate(STOP_SECONDS):
        raise AggregatorError(f"did not stop within {STOP_SECONDS:g} s of SIGTERM")
    if child.exit_code not in tool.good_exits:
        raise AggregatorError(f"ended with code {child.exit_code} after SIGTERM")


def described(work: Work) -> dict[str, Mapping[str, object]]:
    """Every setting of a work's tools and brokers, with words in place of addresses and folders."""
    sources = {alias: f"{alias.upper()}:9092" for alias in work.aliases}
    job = Job("RUN", "TOPIC", sources, "HUB:9092", Path("FOLDER"), work)
    described: dict[str, Mapping[str, object]] = {
        name: TOOLS[name].settings(job) for name in work.tools
    }
    described["heap"] = {"of each tool's JVM": f"-Xmx{DEFAULT_HEAP}"}
    described["brokers"] = {"java": " ".join(BROKER_JAVA), **BROKER_CONFIG}
    return described
