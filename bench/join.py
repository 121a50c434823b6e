"""`python -m bench.join FILE.json...`: results of several campaigns become one, with all rounds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from bench.files import RAW, new_files, read, write
from bench.measure import Run
from bench.report import Result
from bench.works import WORKS, Work


def joined(results: Sequence[Result]) -> Result:
    """One result of some; a work that several have gets the rounds of all, numbered on.

    ValueError, which says all that differs, when they are not of the same machine and versions, or
    when a work was not the same or not with the same settings in two of them.
    """
    first = results[0]
    works: dict[str, Work] = {}
    settings = {name: value for result in results for name, value in result.settings.items()}
    runs: list[Run] = []
    problems: list[str] = []
    for result in results:
        problems += _differences("", asdict(first), asdict(result), ("machine", "versions"))
        for work in result.works:
            own = [run for run in result.runs if run.work == work.name]
            if not own:
                continue
            known = works.get(work.name)
            if known:
                names = [name for name in asdict(work) if name not in ("rounds", "goals", "says")]
                problems += _differences(f"{work.name}: ", asdict(known), asdict(work), names)
            if settings[work.name] != result.settings[work.name]:
                problems.append(f"the settings of {work.name} differ")
            done = max((run.round for run in runs if run.work == work.name), default=0)
            runs += [replace(run, round=run.round + done) for run in own]
            works[work.name] = replace(work, rounds=max(run.round for run in runs[-len(own) :]))
    if problems:
        raise ValueError("; ".join(dict.fromkeys(problems)))
    order = list(WORKS)
    return Result(
        ", ".join(sorted({day for result in results for day in result.date.split(", ")})),
        first.machine,
        first.versions,
        sorted(works.values(), key=lambda work: order.index(work.name)),
        {name: settings[name] for name in order if name in works},
        runs,
    )


def _differences(
    where: str, one: Mapping[str, object], other: Mapping[str, object], names: Iterable[str]
) -> list[str]:
    """What is not the same in both, of these names."""
    return [
        f"{where}{name} is {one[name]!r} and {other[name]!r}"
        for name in names
        if one[name] != other[name]
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Join them; 0 when the files are written, 1 when they cannot be joined."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.join",
        description="Make one result of several, with the rounds of all.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder of the page")
    parser.add_argument("--raw", type=Path, default=RAW, help="folder of the raw figures, as JSON")
    given = parser.parse_args(arguments)
    try:
        result = joined([read(path) for path in given.files])
        paths = new_files(given.out, given.raw, datetime.now(UTC).date().isoformat())
        write(result, paths)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in paths:
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
