"""Keeps a landing table fast: few large files, no days that are too old, no unused files."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from aggregator.config.tee import TeeConfig
from aggregator.features.delta_sink.landing_rows import DAY
from aggregator.features.delta_sink.landing_table import (
    SNAPSHOT_PARTITIONS,
    USER_METADATA,
    LandingTable,
)
from aggregator.store.delta import table_at

CARE = {
    SNAPSHOT_PARTITIONS: "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # A quiet table gets no commits that would push those out of its log that say what has landed.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    # The number of tasks that list the files of a table: by default 10,000 even for few days.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # Larger ones are left: with Delta's 1 GB the files of a day would be written again all day.
    "spark.databricks.delta.optimize.minFileSize": str(64 << 20),
    "spark.databricks.delta.optimize.maxFileSize": str(256 << 20),
}
"""Settings of the session that maintains tables."""


@dataclass(frozen=True, slots=True)
class Cared:
    """What one call did: files before and after, and days that were too old."""

    files_before: int
    files_after: int
    seconds: float


def care(
    spark: SparkSession, config: TeeConfig, topic: str, *, alone: bool = False
) -> Cared | None:
    """Maintain the table of a topic while it is appended to; None when there is no table.

    `alone`: the caller holds the folder, so that nothing lands meanwhile. Then a commit that
    deletes old days says again what has landed: in a quiet table a hundred of them, one a day, push
    the last commit that says it out of the log.

    Raises PySparkException or Py4JJavaError, also when another writer has changed the same files.
    """
    began = time.monotonic()
    uri = table_at(config.path, topic)
    # A session of its own: what it sets is not for others, and others ask theirs for commits.
    session = spark.newSession()
    if not DeltaTable.isDeltaTable(session, uri):
        return None
    for name, value in CARE.items():
        session.conf.set(name, value)
    table = f"delta.`{uri}`"
    before = _files(session, table)
    if config.keep is not None:
        oldest = (datetime.now(UTC) - timedelta(seconds=config.keep)).date()
        said = LandingTable(spark, config.path, topic).restated() if alone else None
        if said is not None:
            session.conf.set(USER_METADATA, said)
        session.sql(f"DELETE FROM {table} WHERE {DAY} < DATE'{oldest.isoformat()}'").collect()
        session.conf.unset(USER_METADATA)
    session.sql(f"OPTIMIZE {table}").collect()
    session.sql(f"VACUUM {table} RETAIN {config.unused_files / 3600:.4f} HOURS").collect()
    return Cared(before, _files(session, table), round(time.monotonic() - began, 3))


def tables_in(spark: SparkSession, path: str) -> list[str]:
    """The topics that have a folder under tee.path."""
    java = spark._jvm
    assert java is not None
    folder = java.org.apache.hadoop.fs.Path(table_at(path, ""))
    files = folder.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    if not files.exists(folder):
        return []
    return sorted(it.getPath().getName() for it in files.listStatus(folder) if it.isDirectory())


def _files(session: SparkSession, table: str) -> int:
    return int(session.sql(f"DESCRIBE DETAIL {table}").collect()[0]["numFiles"])
