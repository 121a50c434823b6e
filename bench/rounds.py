"""Runs the works: each tool in turn, in every second round the other way round."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from confluent_kafka import KafkaException

from aggregator.model.errors import AggregatorError
from bench.bed import Bed, Progress
from bench.copying import copy
from bench.flowing import flow, idle, kill
from bench.job import Job, Tool
from bench.load import Values
from bench.measure import LOOP_ORIGIN, Outcome, Run
from bench.migrating import migrate
from bench.tools import TOOLS
from bench.works import Kind, Work

LOG_LINES = 30


def run_works(works: Sequence[Work], progress: Progress) -> Iterator[Run]:
    """All rounds of all works, one run after the other; failed runs as well."""
    for work in works:
        progress(f"{work.name}: {work.says}")
        with ExitStack() as opened:
            try:
                bed = opened.enter_context(Bed(work, progress))
            except (AggregatorError, KafkaException) as error:
                yield from _without_bed(work, _first_line(error), progress)
                continue
            warmed = _warm_up(bed, progress)
            if warmed.failure:
                # No round counts it, but who reads the figures has to know of it.
                yield warmed
            for number in range(1, work.rounds + 1):
                for name in work.tools if number % 2 else work.tools[::-1]:
                    progress(f"{work.name}, round {number} of {work.rounds}: {name}")
                    yield run_one(bed, TOOLS[name], number, progress)


def _without_bed(work: Work, failure: str, progress: Progress) -> Iterator[Run]:
    """A failed run of each tool, when there are no clusters to run on; other works continue."""
    progress(f"FAILED: {failure}")
    for name in work.tools:
        yield Run(work.name, name, 1, round(os.getloadavg()[0], 1), failure=failure)


def _warm_up(bed: Bed, progress: Progress) -> Run:
    """Let the loop with five headers copy for a while without counting it, as round 0.

    Brokers that have just started compile what they do: eleven of them took three quarters of two
    cores in the first minute, from records that no tool had read yet. The tool that runs first
    would pay for that: six of them with 1,000 partitions had not finished in a minute.
    What is copied as a whole is copied once, so that it has reached the disk as well. With headers,
    as most tools send some: a hub that had seen none compiled again for the first of them, for 1.3
    of its 4.4 s per million records of 1 kB.
    """
    work = bed.work
    if work.kind is Kind.MIGRATE:
        # One of its topics.
        records = work.records_of_topic
        work = replace(work, kind=Kind.COPY, topics=1, groups=0, records=records)
    elif work.kind is not Kind.COPY:
        work = replace(work, kind=Kind.FLOW, warm_up=work.brokers_warm_up, seconds=1.0)
    progress(f"{work.name}: {LOOP_ORIGIN}, not counted, to warm the brokers up")
    return run_one(bed, TOOLS[LOOP_ORIGIN], 0, progress, work)


def run_one(bed: Bed, tool: Tool, number: int, progress: Progress, work: Work | None = None) -> Run:
    """One run of one tool, with what was wrong with it; nothing of it is left on the bed."""
    busy = round(os.getloadavg()[0], 1)
    name = bed.work.name
    with bed.job(tool) as job:
        try:
            outcome = _measured(tool, replace(job, work=work or job.work), bed.values, progress)
        except (AggregatorError, KafkaException, ValueError) as error:
            failure = _first_line(error)
            progress(
                f"FAILED: {failure}; the end of the tool's log:\n{_tail(job.folder / 'tool.log')}"
            )
            return Run(name, tool.name, number, busy, failure=failure)
    return Run(
        name,
        tool.name,
        number,
        busy,
        outcome.values,
        outcome.notes,
        outcome.check,
        outcome.failure,
    )


def _measured(tool: Tool, job: Job, values: Values, progress: Progress) -> Outcome:
    match job.work.kind:
        case Kind.COPY:
            return copy(tool, job, progress)
        case Kind.FLOW:
            return flow(tool, job, values, progress)
        case Kind.IDLE:
            return idle(tool, job, values, progress)
        case Kind.KILL:
            return kill(tool, job, values, progress)
        case Kind.MIGRATE:
            return migrate(tool, job, progress)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or ["no reason"])[0]


def _tail(log: Path) -> str:
    text = log.read_text("utf-8", "replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-LOG_LINES:])
