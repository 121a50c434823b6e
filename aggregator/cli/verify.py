"""`aggregator verify`: is everything in the hub, once, unaltered and in order?"""

from __future__ import annotations

import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.audits.table import NOT_JUDGED
from aggregator.cli.logs import event_log
from aggregator.cli.options import (
    ConfigFile,
    OutputOption,
    Sets,
    SourceOption,
    load_config,
    masked,
    warn,
)
from aggregator.cli.render import Output, Report, Table, show
from aggregator.cli.run import in_thread
from aggregator.cli.signals import stop_on_signals
from aggregator.cli.submit import as_submitted
from aggregator.config.node import timestamp_to_millis
from aggregator.config.values import parse_duration
from aggregator.errors import EXIT_DATA, EXIT_OTHER, CheckpointError
from aggregator.verify.core import Scope, Standing
from aggregator.verify.report import VerifyReport

if TYPE_CHECKING:
    from aggregator.config.schema import Config
    from aggregator.verify.run import Progress

EXAMPLES = (
    "aggregator verify -c aggregator.yaml",
    "aggregator verify -c aggregator.yaml --last 1h",
    "aggregator verify --source eu --topic orders --partition 0 --from-offset 1000",
    "aggregator verify -o json --no-record | jq '.totals'",
)
HARD = "stopped at once by a second signal; nothing was recorded\n"
COUNTS = ("expected", "present", "missing", "twice", "altered", "out_of_order", "foreign")
REASONS = (*("superseded", "accounted"), *NOT_JUDGED, "ahead")
BY_NUMBER = frozenset({"partition", "from", "to", "offsets", "hub partition", "hub offset"})


def verify(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: SourceOption = None,
    topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this source topic.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From then on: 2026-01-31T12:00:00Z.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Up to then, as the records say.")
    ] = None,
    last: Annotated[
        str | None, typer.Option(metavar="1h", help="So far back from now; instead of --since.")
    ] = None,
    from_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="From here on; needs --partition.")
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Up to here, without it.")
    ] = None,
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
    came from nowhere. Everything below the checkpoint's positions is judged, or the range that is
    asked for. May run beside an instance; changes nothing in Kafka. The result is appended to the
    table "audits" beside the checkpoint.

    Ends with 4 when something is wrong, with 3 when a source could not be reached.
    """
    scope = _scope(source, topic, partition, since, until, last, from_offset, to_offset)
    config = as_submitted(load_config(ctx, config_file, sets))
    if source is not None and source not in config.sources:
        raise typer.BadParameter(f"--source {source}: sources are {', '.join(config.sources)}")
    warn(config, ctx)
    log = event_log(lambda text: masked(ctx, text))
    stop = threading.Event()
    with stop_on_signals(stop, log, HARD):
        report = in_thread(
            lambda: _run(
                config,
                scope,
                (examples, allow_foreign),
                stop,
                lambda line: log("verifying", line),
            )
        )
    unwritten = _record(config, report) if record else ""
    show(report_of_audit(ctx, report), output)
    if unwritten:
        typer.echo(f"error: {masked(ctx, unwritten)}", err=True)
    if unwritten and report.exit_code != EXIT_DATA:
        raise typer.Exit(EXIT_OTHER)
    raise typer.Exit(report.exit_code)


def report_of_audit(ctx: typer.Context, audit: VerifyReport) -> Report:
    """An audit as tables: what was judged, what is wrong, and some examples of it."""
    lines = [f"note: {note}" for note in audit.notes]
    lines += [f"unreachable: {masked(ctx, reason)}" for reason in audit.unreachable.values()]
    spent = f"{audit.totals.expected:,} records judged in {audit.seconds:,.1f} s."
    if ahead := audit.totals.ahead:
        lines.append(f"note: {ahead:,} offsets above the checkpoint's positions are not judged yet")
    return Report(
        audit.model_dump(mode="json"),
        (
            _partitions(audit),
            _hub_topics(audit),
            _findings(audit),
            *lines,
            f"{spent} {_verdict(audit)}",
        ),
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
    used = tuple(it for it in REASONS if getattr(audit.totals, it))
    shown = (*COUNTS, *used)
    rows = [
        (
            it.cluster,
            it.topic,
            it.partition,
            it.from_offset,
            it.to_offset,
            *(getattr(it, name) for name in shown),
            it.reason or (None if it.standing is Standing.COMPARED else it.standing),
        )
        for it in audit.partitions
    ]
    names = tuple(name.replace("_", " ") for name in shown)
    columns = ("source", "topic", "partition", "from", "to", *names, "why not")
    return Table("Source partitions", columns, rows, BY_NUMBER | set(names))


def _hub_topics(audit: VerifyReport) -> Table:
    names = ("no_origin", "unknown_source", "other_topic", "no_such_record")
    rows = [
        (it.topic, it.offsets, it.foreign, *(getattr(it, name) for name in names))
        for it in audit.hub_topics
    ]
    columns = ("hub topic", "offsets", "foreign", *(name.replace("_", " ") for name in names))
    return Table("Hub topics", columns, rows, BY_NUMBER | set(columns[1:]))


def _findings(audit: VerifyReport) -> Table:
    rows = [
        (
            it.kind.replace("_", " "),
            it.cluster,
            it.topic,
            it.partition,
            it.offset,
            it.hub_topic,
            it.hub_partition,
            it.hub_offset,
            it.detail or None,
        )
        for it in audit.findings
    ]
    where = ("hub topic", "hub partition", "hub offset", "what")
    columns = ("finding", "source", "topic", "partition", "offset", *where)
    return Table("The first of each finding", columns, rows, BY_NUMBER | {"offset"})


def _run(
    config: Config,
    scope: Scope,
    how: tuple[int, bool],
    stop: threading.Event,
    progress: Progress,
) -> VerifyReport:
    from aggregator.verify.run import VerifyRequest
    from aggregator.verify.run import verify as run_verify

    examples, allow_foreign = how
    request = VerifyRequest(scope, examples=examples, allow_foreign=allow_foreign)
    return run_verify(config, request, stop=stop, progress=progress)


def _record(config: Config, report: VerifyReport) -> str:
    """Record the report; returns why it could not be. It is shown all the same."""
    from aggregator.verify.record import record

    try:
        record(config, report)
    except CheckpointError as error:
        return f"{error}; with --no-record nothing is written"
    return ""


def _scope(
    source: str | None,
    topic: str | None,
    partition: int | None,
    since: str | None,
    until: str | None,
    last: str | None,
    from_offset: int | None,
    to_offset: int | None,
) -> Scope:
    if since is not None and last is not None:
        raise typer.BadParameter("give --since or --last, not both")
    if (from_offset, to_offset) != (None, None):
        if None in (source, topic, partition):
            raise typer.BadParameter(
                "--from-offset and --to-offset are of one partition: name it with --source, "
                "--topic and --partition"
            )
        if (since, until, last) != (None, None, None):
            raise typer.BadParameter("give a range by offset or by time, not both")
    since_ms = parse_moment("--since", since)
    if last is not None:
        try:
            since_ms = int((time.time() - parse_duration(last)) * 1000)
        except ValueError as error:
            raise typer.BadParameter(f"--last {error}") from error
    return Scope(
        source=source,
        topic=topic,
        partition=partition,
        since_ms=since_ms,
        until_ms=parse_moment("--until", until),
        from_offset=from_offset,
        to_offset=to_offset,
    )


def parse_moment(option: str, text: str | None) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 time with a UTC offset; a usage error otherwise."""
    if text is None:
        return None
    try:
        return int(timestamp_to_millis(datetime.fromisoformat(text)))
    except ValueError as error:
        raise typer.BadParameter(
            f"{option} {text}: {error}; write 2026-01-31T12:00:00Z or 2026-01-31T13:00:00+01:00"
        ) from error
