"""Figures become the two result files, Markdown and JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.measure import LABELS, OURS, Run, Spread, ratio, spread
from bench.works import CURVES, Work

INTRODUCTION = """\
Each run starts its tool again; the tools take turns, and every second round begins with the other
one. Brokers, load and reader share the cores with the tool. After each run a plain consumer counted
what is in the hub: a run that lost, doubled or made up a record has failed, and does not count (the
kill of a tool that promises no more than at-least-once apart: there doubles are a figure)."""


@dataclass(frozen=True, slots=True)
class Result:
    """When, on what, the works with their settings, and every run so far."""

    date: str
    machine: Mapping[str, object]
    versions: Mapping[str, str]
    works: Sequence[Work]
    settings: Mapping[str, Mapping[str, object]]
    runs: Sequence[Run]


def measures_of(runs: Sequence[Run], work: str) -> list[str]:
    """The measures that runs of a work have, in the order of `LABELS`."""
    have = {name for run in runs if run.work == work for name in run.values}
    return [name for name in LABELS if name in have]


def to_json(result: Result) -> str:
    """The result as JSON, medians and ratios included."""
    tree = {**asdict(result), "summary": {it.name: _summary(result, it) for it in result.works}}
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def _summary(result: Result, work: Work) -> dict[str, object]:
    tree: dict[str, object] = {}
    for measure in measures_of(result.runs, work.name):
        found = {tool: spread(result.runs, work.name, tool, measure) for tool in work.tools}
        tree[measure] = {
            "tools": {tool: it and it._asdict() for tool, it in found.items()},
            "ratios": {tool: ratio(found[OURS], found[tool]) for tool in work.tools[1:]},
        }
    return tree


def to_markdown(result: Result) -> str:
    """The result as a page: goals, then each work with its medians and runs, then settings."""
    lines = [f"# Benchmark of {result.date}", "", INTRODUCTION, ""]
    lines += [f"- {name}: {words}" for name, words in {**result.machine, **result.versions}.items()]
    lines += ["", "## Goals", "", *_goals_table(result)]
    for work in result.works:
        if any(run.work == work.name for run in result.runs):
            lines += ["", f"## {work.name}", "", f"{work.says[0].upper()}{work.says[1:]}.", ""]
            lines += [*_medians_table(result.runs, work), "", *_runs_table(result.runs, work)]
    lines += _curves(result)
    failed = [run for run in result.runs if run.failure]
    lines += ["", f"## Failures: {len(failed)}", ""]
    lines += [f"- {run.work}, round {run.round}, {run.tool}: {run.failure}" for run in failed]
    lines += ["", "## Settings", "", "```json"]
    works = [asdict(work) for work in result.works]
    lines += [json.dumps({"works": works, **result.settings}, indent=2), "```"]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _goals_table(result: Result) -> list[str]:
    lines = [
        "| work | figure | against | ours / theirs | goal | reached |",
        "|---|---|---|---|---|---|",
    ]
    for work in result.works:
        for goal in work.goals:
            both = [spread(result.runs, work.name, it, goal.measure) for it in (OURS, goal.against)]
            quotient = ratio(*both)
            label, better = LABELS[goal.measure]
            words = f"at {'least' if better == 'higher' else 'most'} {goal.factor:.2g}"
            known = quotient is not None
            cells = [work.name, label, goal.against, f"{quotient:.2f}" if known else "-", words]
            cells.append("not measured" if quotient is None else _yes(goal.reached(quotient)))
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _curves(result: Result) -> list[str]:
    """A table for each growth curve that has a point: what a record costs, against the least."""
    lines = []
    for curve, words in CURVES.items():
        points = [
            (work, cost)
            for work in result.works
            if work.curve == curve
            and (cost := spread(result.runs, work.name, OURS, "cpu_per_million")) is not None
        ]
        if not points:
            continue
        least = min(cost.median for _, cost in points)
        lines += ["", f"## Growth: {words}", ""]
        lines += [
            "| at | CPU seconds per million records | against the least | p50, ms | p99, ms "
            "| records/s | memory, MiB |",
            "|---|---|---|---|---|---|---|",
        ]
        for work, cost in points:
            others = [
                _number(found.median if found else None)
                for name in ("p50_ms", "p99_ms", "records_per_second", "memory_mib")
                for found in [spread(result.runs, work.name, OURS, name)]
            ]
            cells = [f"{work.at:,.0f}", _number(cost.median), f"{cost.median / least:.2f}"]
            lines.append(f"| {' | '.join([*cells, *others])} |")
    return lines


def _medians_table(runs: Sequence[Run], work: Work) -> list[str]:
    """A row for each tool, and below them what ours is divided by each of the others."""
    measures = measures_of(runs, work.name)
    found = {
        tool: [spread(runs, work.name, tool, measure) for measure in measures]
        for tool in work.tools
    }
    heads = [f"{LABELS[it][0]} ({LABELS[it][1]} is better)" for it in measures]
    lines = [f"| median (min - max; runs) | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for tool, spreads in found.items():
        lines.append(f"| {' | '.join([tool, *map(_cell, spreads)])} |")
    ours = found[work.tools[0]]
    for tool in work.tools[1:]:
        quotients = [ratio(*both) for both in zip(ours, found[tool], strict=True)]
        cells = ["-" if it is None else f"{it:.2f}" for it in quotients]
        lines.append(f"| {' | '.join([f'{work.tools[0]} / {tool}', *cells])} |")
    return lines


def _runs_table(runs: Sequence[Run], work: Work) -> list[str]:
    own = [run for run in runs if run.work == work.name]
    measures = measures_of(runs, work.name)
    notes = list(dict.fromkeys(name for run in own for name in run.notes))
    head = ["round", "tool", "load average before", *measures, *notes]
    head += ["sent", "missing", "doubled", "strangers", "failed"]
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
        lines.append(f"| {' | '.join([*cells, _yes(bool(run.failure))])} |")
    return lines


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"


def _cell(found: Spread | None) -> str:
    if found is None:
        return "-"
    low, high = _number(found.low), _number(found.high)
    return f"{_number(found.median)} ({low} - {high}; {found.runs})"


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}"
