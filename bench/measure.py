"""What was measured becomes figures, and figures become the two result files. Pure.

A `Run` is one launch of one tool. Medians, minima, maxima and ratios are taken over the runs that
did not fail; the failed ones stay in the result, with their reason.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from aggregator.embedded.oracle import percentile

OURS = "aggregator"
THEIRS = "MirrorMaker 2"
TOOLS = (OURS, THEIRS)

SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}

LABELS = {
    "records_per_second": ("records/s, first to last record in the hub", "higher"),
    "startup_seconds": ("start-up: launch to first record, s", "lower"),
    "p50_ms": ("latency p50, ms", "lower"),
    "p95_ms": ("latency p95, ms", "lower"),
    "p99_ms": ("latency p99, ms", "lower"),
    "p999_ms": ("latency p99.9, ms", "lower"),
}
"""Measure -> what it is called, and which way is better."""

SHARED = """\
This is a smoke result, not a claim: the machine was shared with other work, the brokers and the
load generator ran on it beside the tool, and the rounds are few. The load average before each run
says how busy it was. Ratios of runs with different load averages mean little."""


class Sample(NamedTuple):
    """How many records the hub topic held at a moment, in seconds since the tool's launch."""

    seconds: float
    records: int


@dataclass(frozen=True, slots=True)
class Check:
    """What a plain consumer found in the hub. `strangers` are records nobody sent."""

    sent: int
    found: int
    missing: int
    twice: int
    strangers: int

    @property
    def perfect(self) -> bool:
        """Whether each record is there once, and nothing else is."""
        return not (self.missing or self.twice or self.strangers)


@dataclass(frozen=True, slots=True)
class Run:
    """One launch of one tool. `failure` is empty when it did what it should."""

    benchmark: str
    tool: str
    round: int
    load_average: float
    values: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, float] = field(default_factory=dict)
    check: Check | None = None
    failure: str = ""


class Spread(NamedTuple):
    """Median, minimum and maximum of one measure over so many runs."""

    median: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True, slots=True)
class Result:
    """All of one benchmark: when, on what, with which settings, and every run."""

    date: str
    machine: Mapping[str, object]
    versions: Mapping[str, str]
    options: Mapping[str, object]
    settings: Mapping[str, Mapping[str, object]]
    runs: Sequence[Run]


def throughput(samples: Iterable[Sample], expected: int) -> dict[str, float]:
    """Records per second between the first and the last record, and the seconds until the first.

    The records that the first non-empty sample already holds came before the interval, so they do
    not count. ValueError when the end is not among the samples, or all came within one sample.
    """
    filled = [sample for sample in samples if sample.records > 0]
    last = next((sample for sample in filled if sample.records >= expected), None)
    if last is None:
        raise ValueError(f"{filled[-1].records if filled else 0} of {expected} records arrived")
    first = filled[0]
    if last is first:
        raise ValueError("all records arrived between two looks: take more records")
    return {
        "records_per_second": (last.records - first.records) / (last.seconds - first.seconds),
        "startup_seconds": first.seconds,
    }


def latencies(milliseconds: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and p99.9; ValueError when nothing was measured."""
    ordered = sorted(milliseconds)
    found = {name: percentile(ordered, share) for name, share in SHARES.items()}
    values = {name: value for name, value in found.items() if value is not None}
    if len(values) < len(SHARES):
        raise ValueError("no latency was measured")
    return values


def record_id(value: bytes | None) -> tuple[str, int] | None:
    """Source and number that a value begins with (`eu:0000000012:`); None for a stranger's."""
    parts = (value or b"").split(b":", 2)
    if len(parts) != 3 or not parts[1].isdigit():
        return None
    return parts[0].decode("utf-8", "replace"), int(parts[1])


def check(sent: Mapping[str, int], values: Iterable[bytes | None]) -> Check:
    """Compare hub values with what each source was sent: the numbers 0 to `sent` - 1."""
    seen = {source: bytearray(count) for source, count in sent.items()}
    found = twice = strangers = 0
    for value in values:
        identity = record_id(value)
        if identity is None or identity[1] >= sent.get(identity[0], 0):
            strangers += 1
            continue
        source, number = identity
        if seen[source][number]:
            twice += 1
        else:
            seen[source][number] = 1
            found += 1
    total = sum(sent.values())
    return Check(total, found, total - found, twice, strangers)


def spread(runs: Iterable[Run], benchmark: str, tool: str, measure: str) -> Spread | None:
    """One measure over the runs of one tool that did not fail; None when there is none."""
    values = [
        run.values[measure]
        for run in runs
        if (run.benchmark, run.tool) == (benchmark, tool) and not run.failure
    ]
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values), len(values))


def ratio(ours: Spread | None, theirs: Spread | None) -> float | None:
    """Our median divided by theirs; None when one is not there or theirs is 0."""
    if ours is None or theirs is None or not theirs.median:
        return None
    return ours.median / theirs.median


def measures_of(runs: Sequence[Run], benchmark: str) -> list[str]:
    """The measures that runs of a benchmark have, in the order of `LABELS`."""
    have = {name for run in runs if run.benchmark == benchmark for name in run.values}
    return [name for name in LABELS if name in have]


def benchmarks_of(runs: Sequence[Run]) -> list[str]:
    """The benchmarks that were run, in their order."""
    return list(dict.fromkeys(run.benchmark for run in runs))


def to_json(result: Result) -> str:
    """The result as JSON, medians included."""
    tree = {**asdict(result), "summary": _summary(result.runs)}
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def _summary(runs: Sequence[Run]) -> dict[str, dict[str, object]]:
    tree: dict[str, dict[str, object]] = {}
    for benchmark in benchmarks_of(runs):
        for measure in measures_of(runs, benchmark):
            both = {tool: spread(runs, benchmark, tool, measure) for tool in TOOLS}
            shown = {tool: found and found._asdict() for tool, found in both.items()}
            tree.setdefault(benchmark, {})[measure] = {
                **shown,
                "ratio": ratio(both[OURS], both[THEIRS]),
            }
    return tree


def to_markdown(result: Result) -> str:
    """The result as a page: summary, every run, settings."""
    lines = [f"# Benchmark of {result.date}", "", SHARED, ""]
    for name, words in {**result.machine, **result.versions}.items():
        lines.append(f"- {name}: {words}")
    for benchmark in benchmarks_of(result.runs):
        lines += ["", f"## {benchmark.capitalize()}", "", *_summary_table(result.runs, benchmark)]
        lines += ["", *_runs_table(result.runs, benchmark)]
    failed = [run for run in result.runs if run.failure]
    lines += ["", f"## Failures: {len(failed)}", ""]
    lines += [f"- {run.benchmark}, round {run.round}, {run.tool}: {run.failure}" for run in failed]
    lines += ["", "## Settings", "", "```json"]
    lines += [json.dumps({"options": result.options, **result.settings}, indent=2), "```"]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _summary_table(runs: Sequence[Run], benchmark: str) -> list[str]:
    lines = [
        f"| median (min - max; runs) | {OURS} | {THEIRS} | ratio of medians | better |",
        "|---|---|---|---|---|",
    ]
    for measure in measures_of(runs, benchmark):
        both = [spread(runs, benchmark, tool, measure) for tool in TOOLS]
        label, better = LABELS[measure]
        quotient = ratio(*both)
        cells = [label, *map(_cell, both), "-" if quotient is None else f"{quotient:.2f}", better]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _runs_table(runs: Sequence[Run], benchmark: str) -> list[str]:
    own = [run for run in runs if run.benchmark == benchmark]
    measures = measures_of(runs, benchmark)
    notes = list(dict.fromkeys(name for run in own for name in run.notes))
    head = ["round", "tool", "load average before", *measures, *notes]
    head += ["sent", "missing", "twice", "strangers", "failed"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for run in own:
        counts = run.check and (
            *(run.check.sent, run.check.missing),
            *(run.check.twice, run.check.strangers),
        )
        cells = [str(run.round), run.tool, f"{run.load_average:.1f}"]
        cells += [_number(run.values.get(name)) for name in measures]
        cells += [_number(run.notes.get(name)) for name in notes]
        cells += [f"{count:,}" for count in counts] if counts else ["-"] * 4
        lines.append(f"| {' | '.join([*cells, 'yes' if run.failure else 'no'])} |")
    return lines


def _cell(found: Spread | None) -> str:
    if found is None:
        return "-"
    low, high = _number(found.low), _number(found.high)
    return f"{_number(found.median)} ({low} - {high}; {found.runs})"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"
