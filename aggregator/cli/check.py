"""`aggregator check`: can every cluster be reached and used? Reads and writes no record."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial

from aggregator.cli.command import Call, command
from aggregator.cli.render import Report, named, table
from aggregator.config.checks import warnings
from aggregator.config.schema import Config
from aggregator.kafka.admin import HUB, CheckResult, check_cluster
from aggregator.kafka.admin.parallel import LATE_SECONDS, Replies, ask_all
from aggregator.model.errors import EXIT_CLUSTER, EXIT_CONFIG, EXIT_DONE, ClusterError

QUESTIONS = 3
"""Questions put to a cluster one after the other, each with its own deadline."""


@command("aggregator check -c aggregator.yaml", "aggregator check -c aggregator.yaml -o json")
def check(call: Call) -> Report:
    """Check reach, rights and limits of every cluster, and whether the plan would be refused.

    All clusters are asked at once; nothing is read or written. Ends with 3 when a cluster is not
    well, with 2 when the plan is refused, or leaves out a topic that is selected.
    """
    config, mask = call.config, call.masked
    results = [replace(it, detail=mask(it.detail), hint=mask(it.hint)) for it in check_all(config)]
    notes = [mask(warning) for warning in warnings(config)]
    refusals, refused, more = ([*map(mask, texts)] for texts in _planned(config))
    notes += [it for it in more if it not in notes]
    return report_of_checks(results, notes, refusals, refused)


def _planned(config: Config) -> tuple[list[str], list[str], list[str]]:
    """What the plan would say: refusals, topics that are not taken, and warnings."""
    from aggregator.kafka.discovery.prepare import ahead, prepare

    try:
        plan = ahead(config, prepare(config))
    except ClusterError:
        # The hub does not answer: the checks say so.
        return [], [], []
    return [*plan.refusals], [str(it) for it in plan.refused], [*plan.warnings]


def check_all(config: Config) -> list[CheckResult]:
    """The results of all clusters, the hub first; who gives none at all is a result too."""
    timeout = config.supervision.connect_timeout

    jobs = {it: partial(check_cluster, config, it, timeout) for it in (HUB, *config.sources)}
    replies = ask_all(jobs, QUESTIONS * timeout + LATE_SECONDS)
    return [it for alias in jobs for it in results_of(replies, alias)]


def results_of(replies: Replies[list[CheckResult]], alias: str) -> list[CheckResult]:
    """The results of a cluster; one that is not ok where it did not answer."""
    error = replies.failed.get(alias)
    if error is not None:
        return [CheckResult(alias, "reachable", False, str(error))]
    return replies.ok[alias]


def report_of_checks(
    results: Sequence[CheckResult],
    notes: Sequence[str],
    refusals: Sequence[str] = (),
    refused: Sequence[str] = (),
) -> Report:
    """Results and warnings as a report, with the plan's refusals, of all and of single topics."""
    bad = sum(not result.ok for result in results)
    columns = named("cluster, check=name, ok, found=detail, what to do=hint")
    data = {
        "ok": bad == 0 and not refusals and not refused,
        "checks": [asdict(result) for result in results],
        "warnings": list(notes),
        "refusals": list(refusals),
        "refused_topics": list(refused),
    }
    lines = [f"warning: {note}" for note in notes]
    lines += [f"not taken: {it}" for it in refused]
    lines += [f"refused: {it}" for it in refusals]
    if bad:
        lines.append(f"{bad} of {len(results)} checks failed.")
    if refusals:
        lines.append("The plan is refused: nothing would be started.")
    elif refused:
        lines.append("What is not taken is left out; all else would run.")
    elif not bad:
        lines.append("All is well.")
    code = EXIT_CLUSTER if bad else EXIT_CONFIG if refusals or refused else EXIT_DONE
    return Report(data, (table("Checks", columns, results), *lines), code)
