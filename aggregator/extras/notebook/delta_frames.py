"""The Delta tables beside the checkpoint as frames, also as they were at an earlier moment."""

from datetime import datetime

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.config.schema import Config
from aggregator.features.completeness.claim_table import TABLE as COMPLETENESS
from aggregator.features.timeline.past_queries import EVENTS, HISTORY
from aggregator.features.verify.audit_table import TABLE as AUDITS
from aggregator.model.errors import CheckpointError
from aggregator.store.delta import TABLE as CHECKPOINTS
from aggregator.store.delta import local_path, table_uri
from aggregator.store.gaps import TABLE as GAPS

TABLES = (CHECKPOINTS, GAPS, HISTORY, EVENTS, AUDITS, COMPLETENESS)


def read_table(
    spark: SparkSession,
    config: Config,
    table: str,
    *,
    version: int | None = None,
    as_of: datetime | None = None,
) -> DataFrame:
    """A table as it is, or as it was at a version, or at a moment.

    Raises CheckpointError when there is no such table yet.
    """
    uri = table_uri(config.checkpoint.path, table)
    folder = local_path(uri)
    path = str(folder.absolute()) if folder is not None else uri
    if not DeltaTable.isDeltaTable(spark, path):
        raise CheckpointError(
            f"checkpoint.path {config.checkpoint.path}: there is no table of {table} yet"
        )
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    elif as_of is not None and (found := _version_at(spark, path, as_of)) is not None:
        reader = reader.option("versionAsOf", found)
    return reader.load(path)


def _version_at(spark: SparkSession, path: str, as_of: datetime) -> int | None:
    """The last version that was there at a moment; None for the newest.

    CheckpointError when the table's history begins later.
    """
    moment = F.timestamp_millis(F.lit(int(as_of.timestamp() * 1000)))
    past = DeltaTable.forPath(spark, path).history()
    newest = past.where(F.col("timestamp") <= moment).agg(F.max("version")).first()
    if newest is None or newest[0] is None:
        raise CheckpointError(f"{path}: nothing of it is kept from {as_of.isoformat()} or before")
    return int(newest[0])
