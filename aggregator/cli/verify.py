"""`aggregator verify`: is everything in the hub, once, unaltered and in order?"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.options import (
    PartitionOption,
    SourceOption,
    TopicOption,
    check_source,
    duration,
    moment_ms,
)
from aggregator.cli.render import Columns, Report, Table, named, report, show, table
from aggregator.cli.run import in_thread
from aggregator.cli.signals import stop_on_signals
from aggregator.cli.submit import as_submitted
from aggregator.features.verify.audit_report import NOT_JUDGED, SUMS, VerifyReport
from aggregator.features.verify.audit_scope import Scope, Standing
from aggregator.model.alike import made_of
from aggregator.model.errors import EXIT_DATA, EXIT_OTHER, CheckpointError

if TYPE_CHECKING:
    from aggregator.config.schema import Config

HARD = "stopped at once by a second signal; nothing was recorded\n"
REASONS = ("superseded", "accounted", *NOT_JUDGED, "ahead")
FOREIGN = ("foreign", "no_origin", "unknown_source", "other_topic", "no_such_record")
FINDINGS: Columns = {
    "finding": lambda it: it.kind.replace("_", " "),
    **named(
        "source=cluster, topic, partition, offset, hub topic=hub_topic",
        "hub partition=hub_partition, hub offset=hub_offset, what=detail",
    ),
}


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What is judged."""

    source: SourceOption = None
    topic: TopicOption = None
    partition: PartitionOption = None
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: 2026-01-31T12:00:00Z.")
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Up to then, as the records say.")
    ] = None
    last: Annotated[
        str | None, typer.Option(metavar="1h", help="From this long ago on; instead of --since.")
    ] = None
    from_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="From here on; needs --partition.")
    ] = None
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Up to here, not included.")
    ] = None


@command(
    "aggregator verify -c aggregator.yaml",
    "aggregator verify -c aggregator.yaml --last 1h",
    "aggregator verify --source eu --topic orders --partition 0 --from-offset 1000",
    "aggregator verify -o json --no-record | jq '.totals'",
)
def verify(
    call: Call,
    asked: AuditOptions,
    examples: Annotated[
        int, typer.Option(metavar="N", min=0, max=10_000, help="How many of each finding to list.")
    ] = 5,
    allow_foreign: Annotated[
        bool,
        typer.Option("--allow-foreign", help="Others may write into the hub topics as well."),
    ] = False,
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Append the result to the audits.")
    ] = True,
) -> None:
    """Compare the hub with its sources, record by record.

    Per source partition: what is missing, there twice, altered, out of order; per hub topic: what
    is in no source. Everything below the checkpoint's positions is judged, or the range that is
    asked for. May run beside an instance; changes nothing in Kafka. The result is appended to the
    table "audits" beside the checkpoint.

    Ends with 4 when something is wrong, with 3 when a source could not be reached.
    """
    scope = _scope(asked)
    config = as_submitted(call.config)
    check_source(config, scope.source, "--source")
    call.warn(config)
    found = _audit(call, config, scope, examples=examples, allow_foreign=allow_foreign)
    unwritten = _record(config, found) if record else ""
    show(report_of_audit(found, call.masked), call.output)
    if unwritten:
        call.say(f"error: {unwritten}")
    code = EXIT_OTHER if unwritten and found.exit_code != EXIT_DATA else found.exit_code
    raise typer.Exit(code)


def _audit(
    call: Call, config: Config, scope: Scope, *, examples: int, allow_foreign: bool
) -> VerifyReport:
    stop = threading.Event()

    def work() -> VerifyReport:
        from aggregator.features.verify.audit import VerifyRequest
        from aggregator.features.verify.audit import verify as run_verify

        request = VerifyRequest(scope, examples=examples, allow_foreign=allow_foreign)
        return run_verify(
            config, request, stop=stop, progress=lambda line: call.log("verifying", line)
        )

    with stop_on_signals(stop, call.log, HARD):
        return in_thread(work)


def report_of_audit(audit: VerifyReport, mask: Callable[[str], str]) -> Report:
    """An audit as tables: what was judged, what is wrong, and some examples of it."""
    lines = [f"note: {note}" for note in audit.notes]
    lines += [f"unreachable: {mask(reason)}" for reason in audit.unreachable.values()]
    if ahead := audit.totals.ahead:
        lines.append(f"note: {ahead:,} offsets above the checkpoint's positions are not judged yet")
    spent = f"{audit.totals.expected:,} records judged in {audit.seconds:,.1f} s."
    hub = {"hub topic": "topic", "offsets": "offsets", **_named(FOREIGN)}
    findings = table("The first of each finding", FINDINGS, audit.findings)
    return report(
        audit,
        _partitions(audit),
        table("Hub topics", hub, audit.hub_topics),
        findings,
        *lines,
        f"{spent} {_verdict(audit)}",
    )


def _verdict(audit: VerifyReport) -> str:
    """How it ends, and what it does not say anything about."""
    totals = audit.totals
    counts = {name: getattr(totals, name) for name in NOT_JUDGED}
    named = ", ".join(
        f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count
    )
    end = {0: "All is well.", 3: "Not everything could be looked at."}
    if not named:
        return end.get(audit.exit_code, "Something is wrong.")
    end[0] = "Nothing is wrong in what could be judged."
    return f"{end.get(audit.exit_code, 'Something is wrong.')} Not judged: {named}."


def _partitions(audit: VerifyReport) -> Table:
    used = (it for it in REASONS if getattr(audit.totals, it))
    columns: Columns = {
        **named("source=cluster, topic, partition, from=from_offset, to=to_offset"),
        **_named((*SUMS, *used)),
        "why not": lambda it: (
            it.reason or (None if it.standing is Standing.COMPARED else it.standing)
        ),
    }
    return table("Source partitions", columns, audit.partitions)


def _named(fields: tuple[str, ...]) -> dict[str, str]:
    return {name.replace("_", " "): name for name in fields}


def _record(config: Config, report: VerifyReport) -> str:
    """Record the report; returns why it could not be. It is shown all the same."""
    from aggregator.features.verify.audit_table import record

    try:
        record(config, report)
    except CheckpointError as error:
        return f"{error}; with --no-record nothing is written"
    return ""


def _scope(asked: AuditOptions) -> Scope:
    """A usage error for a range that is none."""
    if asked.since is not None and asked.last is not None:
        raise typer.BadParameter("give --since or --last, not both")
    if (asked.from_offset, asked.to_offset) != (None, None):
        if None in (asked.source, asked.topic, asked.partition):
            raise typer.BadParameter(
                "--from-offset and --to-offset are of one partition: name it with --source, "
                "--topic and --partition"
            )
        if (asked.since, asked.until, asked.last) != (None, None, None):
            raise typer.BadParameter("give a range by offset or by time, not both")
    since_ms = moment_ms("--since", asked.since)
    if asked.last is not None:
        since_ms = int((time.time() - duration("--last", asked.last)) * 1000)
    return made_of(Scope, asked, since_ms=since_ms, until_ms=moment_ms("--until", asked.until))
