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
from aggregator.errors import EXIT_CLUSTER, EXIT_CONFIG, ClusterError

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
    """Check reach, rights and limits of every cluster, and whether the plan would be refused.

    All clusters are asked at once; nothing is read or written. Ends with 3 when a cluster is not
    well, with 2 when the plan is refused, or leaves out a topic that is selected.
    """
    config = load_config(ctx, config_file, sets)
    results = check_all(config)
    notes = [masked(ctx, warning) for warning in warnings(config)]
    clean = [
        CheckResult(it.cluster, it.name, it.ok, masked(ctx, it.detail), masked(ctx, it.hint))
        for it in results
    ]
    refusals, refused, more = _planned(config)
    said = tuple(masked(ctx, it) for it in refusals)
    left_out = tuple(masked(ctx, it) for it in refused)
    notes += [text for it in more if (text := masked(ctx, it)) not in notes]
    show(report_of_checks(clean, notes, said, left_out), output)
    if not all(result.ok for result in results):
        raise typer.Exit(EXIT_CLUSTER)
    if said or left_out:
        raise typer.Exit(EXIT_CONFIG)


def _planned(config: Config) -> tuple[list[str], list[str], list[str]]:
    """What the plan would say: refusals, topics that are not taken, and warnings."""
    from aggregator.clusters.prepare import ahead, prepare

    try:
        plan = ahead(config, prepare(config))
    except ClusterError:
        # The hub does not answer: the checks say so.
        return [], [], []
    return [*plan.refusals], [str(it) for it in plan.refused], [*plan.warnings]


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


def report_of_checks(
    results: Sequence[CheckResult],
    notes: Sequence[str],
    refusals: Sequence[str] = (),
    refused: Sequence[str] = (),
) -> Report:
    """Results and warnings as a report, with the plan's refusals, of all and of single topics."""
    bad = sum(not result.ok for result in results)
    table = Table(
        "Checks",
        ("cluster", "check", "ok", "found", "what to do"),
        [(it.cluster, it.name, it.ok, it.detail, it.hint or None) for it in results],
    )
    data = {
        "ok": bad == 0 and not refusals and not refused,
        "checks": [asdict(result) for result in results],
        "warnings": list(notes),
        "refusals": list(refusals),
        "refused_topics": list(refused),
    }
    ends = [f"{bad} of {len(results)} checks failed."] if bad else []
    if refusals:
        ends.append("The plan is refused: nothing would be started.")
    elif refused:
        ends.append("What is not taken is left out; all else would run.")
    return Report(
        data,
        (
            table,
            *(f"warning: {note}" for note in notes),
            *(f"not taken: {it}" for it in refused),
            *(f"refused: {it}" for it in refusals),
            *(ends or ["All is well."]),
        ),
    )
