"""How long a tool takes over a cluster: until all records are in the hub, and all groups."""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

from aggregator.extras.embedded.processes import GuardedProcess
from bench.bed import Progress, RunFailedError, check_alive
from bench.copying import arrivals
from bench.groups import Followed, Offsets, compared, delete, log_ends, planned
from bench.hub_log import batches_of
from bench.job import Job, Tool
from bench.measure import Outcome, check
from bench.read import values_of
from bench.tools import running
from bench.usage import cpu_seconds

LOOK_SECONDS = 0.25
CALM_SECONDS = 30.0
"""A tool that moves groups by itself is done when none has moved for these seconds, which do not
count: six times the longest of its intervals."""
"""How many groups are cut over at the same time, by a command each."""
COMMAND_SECONDS = 900.0
GB = 1e9


class Done(NamedTuple):
    """When the groups were at the hub (monotonic), and the CPU that was used by then."""

    at: float
    cpu: float


def migrate(tool: Tool, job: Job, progress: Progress) -> Outcome:
    """Start the tool, and look until all records are in the hub, and all groups."""
    ((alias, servers),) = job.sources.items()
    exact = planned(log_ends(servers, job.topics), job.work.groups)
    sent = dict.fromkeys(job.work.numbered(alias), job.work.records_of_topic)
    began = time.monotonic()
    try:
        with running(tool, job) as child, Followed(job.hub, exact) as hub:
            copied = arrivals(tool, job, child, began, progress)[-1]
            progress(f"  {copied.seconds:.1f} s: all records are in the hub")
            command = tool.cutover
            done = _cut_over(job, command, exact, child) if command else _watch(child, hub, exact)
            found = hub.committed()
        moved = compared(exact, found)
        if moved.missed:
            raise RunFailedError(f"the groups miss {moved.missed:,} records")
        values = {
            "records_seconds": copied.seconds,
            "groups_seconds": max(copied.seconds, done.at - began),
            "cpu_seconds": done.cpu,
            "again": float(moved.again),
            "unset": float(moved.unset),
        }
        progress(
            f"  {values['groups_seconds']:.1f} s: all groups; CPU {done.cpu:.0f} s, "
            f"{moved.again:,} records again, {moved.unset} without an offset; counting"
        )
        logs = [batches_of(broker.home / "data", job.topic).size / GB for broker in job.brokers]
        size = sum(sent.values()) * job.work.size / GB
        notes = {"values_gb": size, "source_log_gb": logs[0], "hub_log_gb": logs[-1]}
        partitions = tool.hub_partitions(job.work)
        found_values = (values_of(job.hub, topic, partitions) for topic in job.topics)
        return Outcome(values, notes, check(sent, chain.from_iterable(found_values)))
    finally:
        delete(job.hub, list(exact))


def _cut_over(
    job: Job,
    command: Callable[[Job, Sequence[str]], list[str]],
    groups: Offsets,
    child: GuardedProcess,
) -> Done:
    """Cut the groups over by their command. RunFailedError when it fails."""
    before = _cpu_of_commands()
    done = subprocess.run(
        command(job, list(groups)),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise RunFailedError(f"cutover ended with {done.returncode}: {last}")
    return Done(time.monotonic(), cpu_seconds(child.pid) + _cpu_of_commands() - before)


def _cpu_of_commands() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _watch(child: GuardedProcess, hub: Followed, exact: Offsets) -> Done:
    """Look at the groups until they are where they have to be, or none has moved for a while."""
    found = hub.committed()
    done = Done(time.monotonic(), cpu_seconds(child.pid))
    while found != exact and time.monotonic() - done.at < CALM_SECONDS:
        time.sleep(LOOK_SECONDS)
        check_alive(child)
        now, cpu, latest = time.monotonic(), cpu_seconds(child.pid), hub.committed()
        if latest != found:
            found, done = latest, Done(now, cpu)
    if not any(found.values()):
        raise RunFailedError("no group came to the hub")
    return done
