"""`aggregator config`: the effective config, its schema, its options; secrets never shown."""

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.render import Output, Report, named, show, table, to_json
from aggregator.config.mask import masked
from aggregator.config.render import json_schema, masked_yaml, options_table


class ConfigOutput(StrEnum):
    """How the config is printed."""

    YAML = "yaml"
    TABLE = "table"
    JSON = "json"


Form = Annotated[ConfigOutput, typer.Option("-o", "--output", help="YAML, or JSON for programs.")]


@command(
    "aggregator config -c aggregator.yaml",
    "aggregator config -c aggregator.yaml -o json | jq .sources",
    "aggregator config --schema > aggregator.schema.json",
    "aggregator config --defaults",
)
def config(
    call: Call,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema.")] = False,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="List every option with its default and meaning.")
    ] = False,
    output: Form = ConfigOutput.YAML,
) -> None:
    """Print the effective config, defaults included, secrets masked.

    The JSON Schema and the list of options need no config.
    """
    if schema:
        typer.echo(to_json(json_schema()))
    elif defaults:
        show(report_of_options(), Output.JSON if output is ConfigOutput.JSON else Output.TABLE)
    else:
        call.warn(call.config)
        if output is ConfigOutput.JSON:
            typer.echo(to_json(masked(call.config)))
        else:
            typer.echo(masked_yaml(call.config), nl=False)


def report_of_options() -> Report:
    """Every option of the config as a report."""
    columns = named("option=path, takes=type, default, meaning=description")
    rows = options_table()
    return Report([asdict(row) for row in rows], (table("Options", columns, rows),))
