"""`aggregator peek`: the newest records of a topic at the hub or a source, decoded; no Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config
from aggregator.cli.render import Cell, Output, Report, Table, cell, moment_of, show
from aggregator.config.schema import Config
from aggregator.peek.document import PeekedRecord, TopicLook
from aggregator.peek.follow import follow as follow_topic
from aggregator.peek.read import look_at

EXAMPLES = (
    "aggregator peek orders                          the newest 10 at the hub",
    "aggregator peek orders --source eu --partition 3 --limit 50",
    "aggregator peek orders --follow -o json | jq .value",
)
MOST_SHOWN = 300
"""So much of a key or value stands in a table; -o json has all of it."""


def peek(
    ctx: typer.Context,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="A topic at that cluster.")],
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
    source: Annotated[
        str | None, typer.Option(metavar="ALIAS", help="At this source; without it at the hub.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this partition.")] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=0, max=1_000, help="How many, the newest.")
    ] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")
    ] = False,
) -> None:
    """Show the newest records of a topic, decoded, and where each came from.

    JSON and text are shown as they are; Avro, Protobuf and JSON with a schema id by the registry in
    hub.schemas or sources.ALIAS.schemas; all else as bytes in hexadecimal, with the reason. Reads
    by assignment: no group is joined. With --follow a line each; with -o json each is an object.
    """
    config = load_config(ctx, config_file, sets)
    if source is not None and source not in config.sources:
        raise typer.BadParameter(f"--source {source}: sources are {', '.join(config.sources)}")
    most = None if output is Output.JSON else MOST_SHOWN
    look = look_at(config, source, topic, limit, partition=partition, most=most)
    if not follow:
        show(report_of_look(look), output)
        return
    for note in look.notes:
        typer.echo(f"warning: {note}", err=True)
    _follow(config, look, output, most)


def _follow(config: Config, look: TopicLook, output: Output, most: int | None) -> None:
    for record in reversed(look.records):
        typer.echo(_line(record, output))
    try:
        for record in follow_topic(config, look, most):
            typer.echo(_line(record, output))
    except KeyboardInterrupt:
        return


def report_of_look(look: TopicLook) -> Report:
    """The records, the newest first; and what could not be read."""
    data = look.model_dump(mode="json")
    where = "the hub" if look.source is None else look.source
    parts: list[Table | str] = []
    if look.records:
        with_origin = any(it.origin is not None for it in look.records)
        columns = ("at (UTC)", "partition", "offset", *(("origin",) if with_origin else ()))
        rows = [_row(it, with_origin=with_origin) for it in look.records]
        title = f"The newest records of {look.topic} at {where}"
        right = frozenset({"partition", "offset"})
        parts.append(Table(title, (*columns, "key", "value", "read as"), rows, right))
    else:
        parts.append(f"None of the newest offsets of {look.topic} at {where} holds a record.")
    return Report(data, (*parts, *look.notes))


def _row(record: PeekedRecord, *, with_origin: bool) -> Sequence[Cell]:
    place = (moment_of(record.timestamp_ms), record.partition, record.offset)
    said = (record.key, _value(record), _format(record))
    return (*place, *((record.origin,) if with_origin else ()), *said)


def _value(record: PeekedRecord) -> str | None:
    value = record.value
    if value is not None and record.value_format == "bytes":
        value = f"{value} ({record.value_bytes:,} bytes)"
    return f"{cell(value)}\n{record.problem}" if record.problem else value


def _format(record: PeekedRecord) -> str:
    schema = f" {record.value_schema}" if record.value_schema is not None else ""
    return f"{record.value_format}{schema}"


def _line(record: PeekedRecord, output: Output) -> str:
    if output is Output.JSON:
        return json.dumps(record.model_dump(mode="json"), ensure_ascii=False)
    place = f"{cell(moment_of(record.timestamp_ms))}  {record.partition}@{record.offset}"
    origin = f"  {record.origin}" if record.origin is not None else ""
    return f"{place}{origin}  {cell(record.key)}  {cell(_value(record))}"
