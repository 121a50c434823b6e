"""What a tool does with records as they come: latency, cost, and how it gets over a kill -9."""

from __future__ import annotations

import time

from bench.bed import STALL_SECONDS, START_SECONDS, Progress, let_work, wait_for
from bench.job import Job, Tool
from bench.load import Values, steady
from bench.measure import OURS, Outcome, check, latencies
from bench.read import LATE_MS, Tail, values_of
from bench.tools import running, start
from bench.usage import cpu_seconds, members, memory_bytes

MIB = 2**20
FINE = 0.02
CALM_SECONDS = 5.0
IDLE_RATE = 50.0


def flow(tool: Tool, job: Job, values: Values, progress: Progress) -> Outcome:
    """Latency and CPU at a steady rate, after a warm-up."""
    work = job.work
    with (
        Tail(job.hub, job.topic, tool.hub_partitions(work)) as tail,
        steady(job.sources, job.topic, work.rate, values) as load,
    ):
        began = time.monotonic()
        with running(tool, job) as child:
            wait_for(child, lambda: tail.count > 0, START_SECONDS, "no record in the hub", FINE)
            startup = time.monotonic() - began
            progress(f"  records arrive after {startup:.1f} s; warming up for {work.warm_up:g} s")
            let_work(child, work.warm_up)
            progress(f"  measuring for {work.seconds:g} s")
            begin, cpu, before = time.time() * 1000, cpu_seconds(*job.groups(child)), load.total
            tail.measure(begin, begin + work.seconds * 1000)
            let_work(child, work.seconds)
            flowed = load.total - before
            cpu = cpu_seconds(*job.groups(child)) - cpu
            memory = memory_bytes(*job.groups(child)) / MIB
            load.stop()
            total = load.total
            wait_for(
                child, lambda: tail.count >= total, STALL_SECONDS, "not all records in the hub"
            )
        measured = tail.latencies()
    found = latencies(measured)
    found |= {"cpu_per_million": cpu / flowed * 1e6, "memory_mib": memory}
    found |= {"startup_seconds": startup}
    progress(
        f"  p50 {found['p50_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms, CPU {cpu:.1f} s; counting"
    )
    notes = {"sent_per_second": flowed / work.seconds, "max_ms": max(measured)}
    hub = values_of(job.hub, job.topic, tool.hub_partitions(work))
    return Outcome(found, notes, check(load.sent, hub))


def idle(tool: Tool, job: Job, values: Values, progress: Progress) -> Outcome:
    """CPU and memory when nothing arrives any more."""
    work = job.work
    with (
        Tail(job.hub, job.topic, tool.hub_partitions(work)) as tail,
        running(tool, job) as child,
    ):
        with steady(job.sources, job.topic, IDLE_RATE, values) as load:
            wait_for(child, lambda: tail.count > 0, START_SECONDS, "no record in the hub")
            let_work(child, work.warm_up)
        total = load.total
        wait_for(child, lambda: tail.count >= total, STALL_SECONDS, "not all records in the hub")
        let_work(child, work.warm_up)
        progress(f"  nothing arrives; measuring for {work.seconds:g} s")
        cpu = cpu_seconds(*job.groups(child))
        let_work(child, work.seconds)
        percent = (cpu_seconds(*job.groups(child)) - cpu) / work.seconds * 100
        found = {"cpu_percent": percent, "memory_mib": memory_bytes(*job.groups(child)) / MIB}
        tail.latencies()
    progress(f"  {found['cpu_percent']:.1f} % of a core, {found['memory_mib']:.0f} MiB")
    hub = values_of(job.hub, job.topic, tool.hub_partitions(work))
    return Outcome(found, {}, check(load.sent, hub))


def kill(tool: Tool, job: Job, values: Values, progress: Progress) -> Outcome:
    """Kill -9 when it has run for a while, and a new start at once.

    Caught up it is with the last record that came more than `LATE_MS` after its timestamp.
    """
    work = job.work
    with (
        Tail(job.hub, job.topic, tool.hub_partitions(work)) as tail,
        steady(job.sources, job.topic, work.rate, values) as load,
    ):
        first = start(tool, job)
        try:
            wait_for(first, lambda: tail.count > 0, START_SECONDS, "no record in the hub")
            let_work(first, work.warm_up)
        finally:
            first.kill()
        killed = time.monotonic()
        progress("  killed; starting again")
        with running(tool, job) as child:
            wait_for(child, lambda: not members(first.pid), START_SECONDS, "its child lives", FINE)
            before, tail.late_at = tail.count, killed
            wait_for(child, lambda: tail.count > before, START_SECONDS, "no record", FINE)
            again = time.monotonic() - killed
            wait_for(
                child,
                lambda: time.monotonic() - tail.late_at > CALM_SECONDS,
                STALL_SECONDS,
                "not caught up",
            )
            let_work(child, work.seconds)
            caught_up = tail.late_at - killed
            load.stop()
            wait_for(
                child, lambda: tail.distinct >= load.total, STALL_SECONDS, "not all in the hub"
            )
            let_work(child, LATE_MS / 1000)
        tail.latencies()
    result = check(load.sent, values_of(job.hub, job.topic, tool.hub_partitions(work)))
    found = {"first_record_seconds": again, "caught_up_seconds": caught_up}
    found["twice"] = float(result.twice)
    progress(f"  first record {again:.1f} s, caught up {caught_up:.1f} s, twice: {result.twice:,}")
    return Outcome(found, {}, result, doubles_allowed=tool.name != OURS)
