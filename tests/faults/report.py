"""Writes what a campaign did and found: as a page, and as JSON. Pure but for the two files."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from aggregator.extras.demo.verdict import percentile
from faults.campaign import Round
from faults.judge import Verdict
from faults.usage import trends

RAW = Path("build/results")
"""Folder of the raw figures, which are not committed."""
WANTED_SECONDS = 15.0
"""The first record after a restart is to come within this."""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole campaign: its day, the machine, the versions, the command, and every round."""

    date: str
    machine: Mapping[str, object]
    command: str
    rounds: Sequence[Round]

    @property
    def good(self) -> bool:
        """Whether every round was."""
        return all(each.good for each in self.rounds)


def machine() -> dict[str, object]:
    """What figures depend on, without anything that names the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return {
        "cores": os.cpu_count(),
        "memory": f"{memory:.0f} GiB",
        "kernel": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "Python": platform.python_version(),
        "load average before": f"{load:.1f}",
    }


def to_json(report: Report) -> str:
    """The report as JSON."""
    tree = {**asdict(report), "good": report.good}
    for each in tree["rounds"]:
        # A folder of this machine.
        del each["folder"]
    return json.dumps(tree, indent=2) + "\n"


def to_markdown(report: Report) -> str:
    """The report as a page."""
    lines = [f"# Faults of {report.date}", ""]
    lines += [f"`{report.command}`", ""]
    lines += [f"- {name}: {value}" for name, value in report.machine.items()]
    lines += ["", f"**{'All good' if report.good else 'NOT GOOD'}.**", ""]
    lines += [
        "| round | faults | minutes | acknowledged | in the sources | in the hub | lost | twice "
        "| altered | out of order | foreign | other failures |",
        "|---" * 12 + "|",
        *map(_summary, report.rounds),
    ]
    for each in report.rounds:
        lines += _round(each)
    return "\n".join(lines) + "\n"


def write(report: Report, pages: Path, raw: Path) -> list[Path]:
    """Write page and JSON; a second report of a day gets a number, and none is overwritten."""
    pages.mkdir(parents=True, exist_ok=True)
    raw.mkdir(parents=True, exist_ok=True)
    name, number = f"{report.date}-faults", 1
    while (pages / f"{name}.md").exists() or (raw / f"{name}.json").exists():
        number += 1
        name = f"{report.date}-faults-{number}"
    paths = [pages / f"{name}.md", raw / f"{name}.json"]
    for path, text in zip(paths, (to_markdown(report), to_json(report)), strict=True):
        path.write_text(text, "utf-8")
    return paths


def _summary(each: Round) -> str:
    found = each.verdict
    cells = [each.name, f"{len(each.struck)}", f"{each.seconds / 60:.1f}"]
    counts = (found.acknowledged, found.in_sources, found.in_hub)
    wrong = (found.lost, found.twice, found.altered, found.out_of_order, found.foreign)
    cells += [f"{count:,}" for count in (*counts, *wrong)]
    cells.append(str(len(each.failures) + bool(found.lost_at_source)))
    return f"| {' | '.join(cells)} |"


def _round(each: Round) -> list[str]:
    lines = ["", f"## {each.name}", "", f"{each.says}. Began {each.began}.", ""]
    settings = ", ".join(f"{name} {value}" for name, value in asdict(each.settings).items())
    lines += [f"Settings: {settings}.", ""]
    if each.drained is not None:
        lines += [f"Drained {each.drained:g} s after the load had ended.", ""]
    lines += [f"- {note}" for note in each.notes]
    lines += [f"- FAILURE: {failure}" for failure in each.failures]
    lines += _problems(each.verdict)
    lines += _restarts(each)
    lines += _usages(each)
    if each.struck:
        lines += ["", "| at, s | fault | until records flowed again, s |", "|---|---|---|"]
        lines += [f"| {it.at:.0f} | {it.what} | {it.seconds:.1f} |" for it in each.struck]
    return lines


def _problems(verdict: Verdict) -> list[str]:
    return [
        f"- {kind.replace('_', ' ')}: {count:,}, such as {'; '.join(verdict.examples[kind][:3])}"
        for kind, count in verdict.problems.items()
    ]


def _usages(each: Round) -> list[str]:
    """What long lives held at first and last, by a fitted line; and the state at both ends."""
    found = trends(each.usages)
    if not found:
        return []
    begin, end = each.usages[0], each.usages[-1]
    return [
        "",
        f"Files of the state: {begin.files} with {begin.size:,} bytes after {begin.at:.0f} s, "
        f"{end.files} with {end.size:,} bytes after {end.at:.0f} s.",
        "",
        "| life | measured, min | what it holds | first | last |",
        "|---|---|---|---|---|",
        *(
            f"| {it.life} | {it.minutes:.0f} | {it.measure} | {_amount(it.first)} | "
            f"{_amount(it.last)} |"
            for it in found
        ),
    ]


def _amount(value: float) -> str:
    """With a decimal where it is small, such as a time."""
    return f"{value:,.{1 if value < 100 else 0}f}"


def _restarts(each: Round) -> list[str]:
    found = [it.first_record for it in each.restarts if it.first_record is not None]
    if not found:
        return []
    late = sum(seconds > WANTED_SECONDS for seconds in found)
    median, worst = percentile(found, 0.5), max(found)
    return [
        "",
        f"{len(each.restarts)} starts of the application, {len(found)} to be followed by records. "
        f"Seconds from a start to its first record in the hub: median {median:.1f}, most "
        f"{worst:.1f}; more than {WANTED_SECONDS:.0f} s: {late}.",
        "",
        "| at, s | after | first record, s |",
        "|---|---|---|",
        *(
            f"| {it.at:.0f} | {it.why} | {'-' if it.first_record is None else it.first_record} |"
            for it in each.restarts
        ),
    ]
