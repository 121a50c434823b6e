"""`aggregator maintain`: merges files and deletes old rows of Delta tables that nothing writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aggregator.cli.command import Call, command
from aggregator.cli.render import Columns, Report, named, report, table
from aggregator.cli.run import in_thread
from aggregator.cli.submit import as_submitted

if TYPE_CHECKING:
    from aggregator.features.maintenance.maintain_all import Upkeep


@command(
    "aggregator maintain -c aggregator.yaml",
    "aggregator maintain -o json | jq '.tables[] | select(.failed != \"\")'",
)
def maintain(call: Call) -> Report:
    """Merge small files of all Delta tables, and delete what is too old.

    The checkpoint, history and events, and the tables that "aggregator tee" lands in. A running
    writer maintains its own tables: this is for those without a writer, and leaves the others
    alone. Changes nothing in Kafka.
    """
    config = as_submitted(call.config)

    def work() -> Upkeep:
        from aggregator.features.maintenance.maintain_all import maintain_all

        return maintain_all(config)

    columns: Columns = {
        "table": "table",
        "state": lambda it: call.masked(it.failed) or it.left or "maintained",
        **named(
            "files before=files_before, files after=files_after, rows deleted=rows_deleted",
            "seconds",
        ),
    }
    done = in_thread(work)
    return report(done, table("Tables", columns, done.tables), exit_code=done.exit_code)
