"""A session for those who do something to a landing table by SQL of their own."""

from __future__ import annotations

from pyspark.sql import SparkSession

from aggregator.features.delta_sink.landing_table import SNAPSHOT_PARTITIONS
from support.small_plans import SMALL_PLANS

SETTINGS = {
    **SMALL_PLANS,
    SNAPSHOT_PARTITIONS: "2",
    # A few rows are read sooner than code for that is compiled.
    "spark.sql.codegen.wholeStage": "false",
    # VACUUM lists a table in this number of tasks, by default 10,000.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
"""By default what they do is many tasks without work."""


def session_of_people(spark: SparkSession) -> SparkSession:
    """A session beside this one, which keeps its own settings."""
    session = spark.newSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session
