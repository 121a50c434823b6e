"""`aggregator peek`: the newest records of a topic at the hub or a source, decoded; no Spark."""

import json
from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.options import Follow, PartitionOption, check_source
from aggregator.cli.render import Columns, Output, Report, cell, moment_of, named, report, table
from aggregator.features.peek.read_topic import follow as follow_topic
from aggregator.features.peek.read_topic import look_at
from aggregator.features.peek.topic_report import PeekedRecord, TopicLook

MOST_SHOWN = 300
"""How much of a key or value a table shows; -o json has all of it."""


@command(
    "aggregator peek orders                          the newest 10 at the hub",
    "aggregator peek orders --source eu --partition 3 --limit 50",
    "aggregator peek orders --follow -o json | jq .value",
)
def peek(
    call: Call,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic at that cluster.")],
    source: Annotated[
        str | None, typer.Option(metavar="ALIAS", help="At this source; without it at the hub.")
    ] = None,
    partition: PartitionOption = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, max=1_000, help="How many, the newest.")
    ] = 10,
    follow: Follow = False,
) -> Report | None:
    """Show the newest records of a topic, decoded, and where each came from.

    JSON and text are shown as they are; Avro, Protobuf and JSON with a schema id by the registry in
    hub.schemas or sources.ALIAS.schemas; all else as bytes in hexadecimal, with the reason. Reads
    by assignment: no group is joined. With --follow a line each; with -o json each is an object.
    """
    config = call.config
    check_source(config, source, "--source")
    most = None if call.output is Output.JSON else MOST_SHOWN
    look = look_at(config, source, topic, limit, partition=partition, most=most)
    if not follow:
        return report_of_look(look)
    for note in look.notes:
        call.say(f"warning: {note}")
    for record in reversed(look.records):
        typer.echo(_line(record, call.output))
    try:
        for record in follow_topic(config, look, most):
            typer.echo(_line(record, call.output))
    except KeyboardInterrupt:
        pass
    return None


def report_of_look(look: TopicLook) -> Report:
    """The records, the newest first; and what could not be read."""
    where = "the hub" if look.source is None else look.source
    if not look.records:
        none = f"None of the newest offsets of {look.topic} at {where} holds a record."
        return report(look, none, *look.notes)
    columns = dict(COLUMNS)
    if all(it.origin is None for it in look.records):
        del columns["origin"]
    title = f"The newest records of {look.topic} at {where}"
    return report(look, table(title, columns, look.records), *look.notes)


def _value(record: PeekedRecord) -> str | None:
    value = record.value
    if value is not None and record.value_format == "bytes":
        value = f"{value} ({record.value_bytes:,} bytes)"
    return f"{cell(value)}\n{record.problem}" if record.problem else value


COLUMNS: Columns = {
    "at (UTC)": lambda it: moment_of(it.timestamp_ms),
    **named("partition, offset, origin, key"),
    "value": _value,
    "read as": lambda it: (
        it.value_format if it.value_schema is None else f"{it.value_format} {it.value_schema}"
    ),
}


def _line(record: PeekedRecord, output: Output) -> str:
    if output is Output.JSON:
        return json.dumps(record.model_dump(mode="json"), ensure_ascii=False)
    place = f"{cell(moment_of(record.timestamp_ms))}  {record.partition}@{record.offset}"
    origin = f"  {record.origin}" if record.origin is not None else ""
    return f"{place}{origin}  {cell(record.key)}  {cell(_value(record))}"
