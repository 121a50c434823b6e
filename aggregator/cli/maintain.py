"""`aggregator maintain`: few files and nothing too old in all Delta tables, while nothing runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from aggregator.cli.options import ConfigFile, OutputOption, Sets, load_config, masked
from aggregator.cli.render import Output, Report, Table, show
from aggregator.cli.run import in_thread
from aggregator.cli.submit import as_submitted

if TYPE_CHECKING:
    from aggregator.upkeep.run import Upkeep

EXAMPLES = (
    "aggregator maintain -c aggregator.yaml",
    "aggregator maintain -o json | jq '.tables[] | select(.failed != \"\")'",
)
COLUMNS = ("table", "state", "files before", "files after", "rows deleted", "seconds")


def maintain(
    ctx: typer.Context,
    config_file: ConfigFile = None,
    sets: Sets = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Merge small files of all Delta tables, and delete what is too old.

    The checkpoint, history and events, and the tables that "aggregator tee" lands in. Whoever
    writes tables maintains them by the way: this is for those that nobody writes just now, and
    leaves the others alone. Changes nothing in Kafka.
    """
    config = as_submitted(load_config(ctx, config_file, sets))

    def work() -> Upkeep:
        from aggregator.upkeep.run import maintain_all

        return maintain_all(config)

    done = in_thread(work)
    rows = [
        (
            it.table,
            masked(ctx, it.failed) or it.left or "maintained",
            it.files_before,
            it.files_after,
            it.rows_deleted,
            it.seconds,
        )
        for it in done.tables
    ]
    show(
        Report(
            done.model_dump(mode="json"), (Table("Tables", COLUMNS, rows, frozenset(COLUMNS[2:])),)
        ),
        output,
    )
    raise typer.Exit(done.exit_code)
