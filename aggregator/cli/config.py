"""`aggregator config`: the effective config, its schema, its options; secrets never shown."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from aggregator.cli.options import ConfigFile, Sets, load_config, warn
from aggregator.cli.render import Output, Report, Table, show, to_json
from aggregator.config.mask import masked
from aggregator.config.render import json_schema, masked_yaml, options_table

EXAMPLES = (
    "aggregator config -c aggregator.yaml",
    "aggregator config -c aggregator.yaml -o json | jq .sources",
    "aggregator config --schema > aggregator.schema.json",
    "aggregator config --defaults",
)


class ConfigOutput(StrEnum):
    """How the config is printed."""

    YAML = "yaml"
    TABLE = "table"
    JSON = "json"


def config(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema.")] = False,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="List every option with its default and meaning.")
    ] = False,
    output: Annotated[
        ConfigOutput, typer.Option("-o", "--output", help="YAML, or JSON for programs.")
    ] = ConfigOutput.YAML,
) -> None:
    """Print the effective config, defaults included, secrets masked.

    The JSON Schema and the list of options need no config.
    """
    if schema:
        typer.echo(to_json(json_schema()))
        return
    if defaults:
        form = Output.JSON if output is ConfigOutput.JSON else Output.TABLE
        show(report_of_options(), form)
        return
    found = load_config(ctx, config_file, sets)
    warn(found, ctx)
    if output is ConfigOutput.JSON:
        typer.echo(to_json(masked(found)))
    else:
        typer.echo(masked_yaml(found), nl=False)


def report_of_options() -> Report:
    """Every option of the config as a report."""
    rows = options_table()
    table = Table(
        "Options",
        ("option", "takes", "default", "meaning"),
        [(row.path, row.type, row.default, row.description) for row in rows],
    )
    return Report([asdict(row) for row in rows], (table,))
