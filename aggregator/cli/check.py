"""`aggregator check`: can every cluster be reached and used? Reads and writes no record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

import typer

from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config, masked
from aggregator.cli.render import Output, Report, Table, show
from aggregator.config.checks import warnings
from aggregator.config.schema import Config
from aggregator.discover import HUB, CheckResult, check_cluster
from aggregator.discover.parallel import ask_all
from aggregator.errors import EXIT_CLUSTER

QUESTIONS = 3
"""Questions put to a cluster one after the other, each with its own deadline."""

EXAMPLES = (
    "aggregator check -c aggregator.yaml",
    "aggregator check -c aggregator.yaml -o json",
)


def check(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check reach, rights and limits of every cluster.

    All clusters are asked at once; nothing is read or written. Ends with 3 when anything is not
    well.
    """
    config = load_config(ctx, config_file, sets)
    results = check_all(config)
    notes = [masked(ctx, warning) for warning in warnings(config)]
    clean = [
        CheckResult(it.cluster, it.name, it.ok, masked(ctx, it.detail), masked(ctx, it.hint))
        for it in results
    ]
    show(report_of_checks(clean, notes), output)
    if not all(result.ok for result in results):
        raise typer.Exit(EXIT_CLUSTER)


def check_all(config: Config) -> list[CheckResult]:
    """The results of all clusters, the hub first; who gives none at all is a result too."""
    timeout = config.supervision.connect_timeout

    def ask(alias: str) -> Callable[[], list[CheckResult]]:
        return lambda: check_cluster(config, alias, timeout)

    jobs = {alias: ask(alias) for alias in (HUB, *config.sources)}
    return flattened(ask_all(jobs, QUESTIONS * timeout + 1))


def flattened(answers: Mapping[str, list[CheckResult] | Exception]) -> list[CheckResult]:
    """All results in the order of the clusters; an error is a result that is not ok."""
    results: list[CheckResult] = []
    for alias, answer in answers.items():
        if isinstance(answer, Exception):
            results.append(CheckResult(alias, "reachable", False, str(answer)))
        else:
            results.extend(answer)
    return results


def report_of_checks(results: Sequence[CheckResult], notes: Sequence[str]) -> Report:
    """Results and config warnings as a report."""
    bad = sum(not result.ok for result in results)
    table = Table(
        "Checks",
        ("cluster", "check", "ok", "found", "what to do"),
        [(it.cluster, it.name, it.ok, it.detail, it.hint or None) for it in results],
    )
    data = {
        "ok": bad == 0,
        "checks": [asdict(result) for result in results],
        "warnings": list(notes),
    }
    end = "All is well." if bad == 0 else f"{bad} of {len(results)} checks failed."
    return Report(data, (table, *(f"warning: {note}" for note in notes), end))
