"""How fast a tool copies what is there: records per second from the first to the last."""

from __future__ import annotations

import time

from aggregator.extras.embedded.processes import GuardedProcess
from bench.bed import (
    POLL_SECONDS,
    STALL_SECONDS,
    START_SECONDS,
    Progress,
    RunFailedError,
    check_alive,
)
from bench.hub_log import batches_of
from bench.job import Job, Tool
from bench.measure import Outcome, Sample, check, throughput
from bench.read import Ends, values_of
from bench.tools import running
from bench.usage import cpu_seconds

PROGRESS_SECONDS = 10.0


def copy(tool: Tool, job: Job, progress: Progress) -> Outcome:
    """Start the tool, and look at the hub's end offsets until all is there."""
    sent = dict.fromkeys(job.sources, job.work.records)
    expected = sum(sent.values())
    requests = job.requests() if job.requests else 0
    began = time.monotonic()
    with running(tool, job) as child:
        samples = arrivals(tool, job, child, began, progress)
        values = throughput(samples, expected)
        stopping = time.monotonic()
    notes = {"stop_seconds": time.monotonic() - stopping}
    rate, start = values["records_per_second"], values["startup_seconds"]
    cpu = values["cpu_per_million"]
    progress(f"  {rate:,.0f} records/s, {cpu:.1f} CPU s per million, start {start:.1f} s; counting")
    if job.requests:
        values["records_per_request"] = expected / (job.requests() - requests)
        values |= batches_of(job.brokers[-1].home / "data", job.topic).figures()
    found = check(sent, values_of(job.hub, job.topic, tool.hub_partitions(job.work)))
    return Outcome(values, notes, found)


def arrivals(
    tool: Tool, job: Job, child: GuardedProcess, began: float, progress: Progress
) -> list[Sample]:
    """What the hub held since the tool was launched (monotonic), until it holds all of it."""
    partitions = tool.hub_partitions(job.work)
    expected = job.work.records_of_topic * job.work.topics * len(job.sources)
    ends = [Ends(job.hub, topic, partitions) for topic in job.topics]
    samples = [Sample(0.0, 0)]
    reported = moved = began
    while samples[-1].records < expected:
        time.sleep(POLL_SECONDS)
        # The moment before the question: the answer is never older than that.
        now, total = time.monotonic(), sum(each.total() for each in ends)
        if total > samples[-1].records:
            moved = now
        brokers = sum(cpu_seconds(it.pid) for it in job.brokers)
        samples.append(Sample(now - began, total, cpu_seconds(*job.groups(child)), brokers))
        if now - reported >= PROGRESS_SECONDS:
            reported = now
            progress(f"  {now - began:5.0f} s: {total:,} of {expected:,} in the hub")
        check_alive(child)
        limit = STALL_SECONDS if total else START_SECONDS
        if now - moved > limit:
            raise RunFailedError(f"{total:,} of {expected:,} records, then none for {limit:g} s")
    return samples
