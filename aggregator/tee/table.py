"""The Delta table of one hub topic: what has landed, and appending a batch."""

from __future__ import annotations

import json
from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from aggregator.checkpoint.delta import local_path, table_uri
from aggregator.tee.core import Batch, Landed, app_id, from_history, from_rows, to_metadata
from aggregator.tee.core_columns import EMPTY, Struct
from aggregator.tee.frames import DAY, DECODED, ERROR

LAST_VERSION = "spark.databricks.delta.lastCommitVersionInSession"
"""Delta sets it in the session after each of its commits."""
SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"
"""Delta reads its log anew behind each commit, by default in fifty tasks."""
ALL_DIFFERENT = ("value", "offset", "timestamp", "origin_offset", "origin_timestamp")
SETTINGS = {
    SNAPSHOT_PARTITIONS: "2",
    # The records of a batch are of a few days: a file open for each costs less than sorting them.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # Each open file keeps a group of rows in memory; by default 128 MB.
    "parquet.block.size": str(32 << 20),
    # Eight bytes with a known order; by default twelve, which tell readers no least and no most.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Where hardly two are alike, a dictionary is made, and then thrown away: a small one sooner.
    "parquet.dictionary.page.size": str(64 << 10),
    **{f"parquet.enable.dictionary#{name}": "false" for name in ALL_DIFFERENT},
}
"""Of the session that appends: what Parquet costs is most of what a batch costs."""
LATEST = 50
"""Among so many commits there is one of ours, unless people have worked on the table."""
PROPERTIES = {
    # A commit every few seconds: at Delta's 10 and 30 days its log would be most of its files.
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.deletedFileRetentionDuration": "interval 1 days",
}
"""Of a new table; people may set others."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What a commit has added: records, and those of them that could not be decoded."""

    version: int
    records: int
    undecoded: int


class LandingTable:
    """One topic's table, with a session of its own, whose settings are this table's alone.

    Guarantee: `append` adds all records of a batch and the positions behind them in one commit, or
    nothing. Every method may raise PySparkException or Py4JJavaError.
    """

    def __init__(self, spark: SparkSession, path: str, name: str, topic: str) -> None:
        self.uri = table_at(path, topic)
        self.topic = topic
        self.spark = spark.newSession()
        for setting, value in SETTINGS.items():
            self.spark.conf.set(setting, value)
        self._app = name

    def exists(self) -> bool:
        """Whether there is a table."""
        return bool(DeltaTable.isDeltaTable(self.spark, self.uri))

    def landed(self) -> Landed:
        """What has landed, by the table's own commits; if none is left, by its rows."""
        if not self.exists():
            return Landed()
        history = f"DESCRIBE HISTORY {self._named}"
        found = self._said(f"{history} LIMIT {LATEST}") or self._said(history)
        if found is not None:
            return found
        highest = self._frame().groupBy("partition").agg(F.max("offset").alias("highest"))
        return from_rows([(row["partition"], row["highest"]) for row in highest.collect()], "")

    def _said(self, history: str) -> Landed | None:
        rows = self.spark.sql(history).collect()
        return from_history(
            (it["version"], it["operation"], it["userMetadata"], it["operationParameters"] or {})
            for it in sorted(rows, key=lambda row: row["version"], reverse=True)
        )

    def columns(self) -> Struct:
        """The struct of what was decoded so far."""
        if not self.exists():
            return EMPTY
        schema = json.loads(self._frame().schema.json())
        return next((it["type"] for it in schema["fields"] if it["name"] == DECODED), EMPTY)

    def append(self, rows: DataFrame, batch: Batch) -> Appended | None:
        """Append a batch and its positions; None when somebody else has landed it meanwhile."""
        self.spark.conf.unset(LAST_VERSION)
        watch = Observation()
        wrong = F.count(ERROR) if ERROR in rows.columns else F.lit(0).cast("bigint")
        observed = rows.coalesce(batch.files).observe(
            watch, F.count(F.lit(1)).alias("records"), wrong.alias("undecoded")
        )
        (
            observed.write.format("delta")
            .mode("append")
            .options(**PROPERTIES)
            .option("mergeSchema", "true")
            .option("txnAppId", app_id(self._app, batch.after.topic_id))
            .option("txnVersion", str(batch.after.number))
            .option("userMetadata", to_metadata(batch))
            .partitionBy(DAY)
            .save(self.uri)
        )
        version = self.spark.conf.get(LAST_VERSION, None)
        if version is None:
            return None
        counts = watch.get
        return Appended(int(version), int(counts["records"]), int(counts["undecoded"]))

    def _frame(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.uri)

    @property
    def _named(self) -> str:
        return f"delta.`{self.uri}`"


def table_at(path: str, topic: str) -> str:
    """Where the table of a topic lies under tee.path."""
    uri = table_uri(path, topic)
    folder = local_path(uri)
    return str(folder.absolute()) if folder is not None else uri
