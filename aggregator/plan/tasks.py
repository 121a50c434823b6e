"""Whether live tasks write code for their rows or interpret them: by how many there are. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from aggregator.config.schema import Config

HOW = "spark.sql.codegen.factoryMode"
INTERPRETED = "NO_CODEGEN"
MANY_TASKS = 500
"""From so many partitions in all on, live tasks interpret their rows.

A task starts anew with each batch and writes the source code of its projections again, though what
is compiled of it is kept: two fifths of what the start of a task costs in the first minutes. With
1,000 partitions that is most of what a batch's end is then. With 200 nothing is gained, and a
record that is interpreted costs more (docs/results/2026-11-23-tuning.md).
"""


def live_conf(config: Config, partitions: int) -> Mapping[str, str]:
    """Spark settings for real-time lanes when so many partitions are read in all.

    Empty with few partitions, and when the user's own `spark.conf` decides it.
    """
    if partitions < MANY_TASKS or HOW in config.spark.conf:
        return {}
    return {HOW: INTERPRETED}
