"""The Delta table of one hub topic: what has landed, and appending a batch."""

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from aggregator.features.delta_sink.landed_commits import (
    KEY,
    PROPERTY,
    Cloned,
    RestoredByTime,
    TableCommit,
    Unclear,
    from_history,
    number_of,
    to_metadata,
)
from aggregator.features.delta_sink.landing_rows import DAY, DECODED, ERROR
from aggregator.features.delta_sink.next_batch import NONE, Batch, Landed
from aggregator.features.delta_sink.value_columns import EMPTY, Struct
from aggregator.store.delta import local_path, table_at

LAST_VERSION = "spark.databricks.delta.lastCommitVersionInSession"
"""Delta sets it in the session after each of its commits."""
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
"""What Delta writes into each commit of a session."""
SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"
"""Delta reads its log again after each commit, by default in fifty tasks."""
ALL_DIFFERENT = ("value", "offset", "timestamp", "origin_offset", "origin_timestamp")
SETTINGS = {
    SNAPSHOT_PARTITIONS: "2",
    # The records of a batch are of a few days: a file open for each costs less than sorting them.
    "spark.sql.maxConcurrentOutputFileWriters": "16",
    # Each open file keeps a group of rows in memory; by default 128 MB.
    "parquet.block.size": str(32 << 20),
    # Eight bytes with a known order; by default twelve, which give readers no minimum and no
    # maximum.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Where hardly two are alike, a dictionary is made, and then thrown away: a small one sooner.
    "parquet.dictionary.page.size": str(64 << 10),
    **{f"parquet.enable.dictionary#{name}": "false" for name in ALL_DIFFERENT},
}
"""Of the session that appends: what Parquet costs is most of what a batch costs."""
PLAIN_NAME = re.compile(r"delta\.`[^`]+`|[\w.]+")
"""Of a table that another one is a clone of, as its history has it."""
LATEST = 50
"""Among this many commits one is our own, unless people have worked on the table."""
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

    def __init__(self, spark: SparkSession, path: str, topic: str) -> None:
        self.uri = table_at(path, topic)
        self.name = f"delta.`{self.uri}`"
        self.topic = topic
        self.spark = spark.newSession()
        for setting, value in SETTINGS.items():
            self.spark.conf.set(setting, value)

    def exists(self) -> bool:
        """Whether there is a table."""
        return bool(DeltaTable.isDeltaTable(self.spark, self.uri))

    def landed(self) -> Landed | Unclear:
        """What has landed, by the table's own commits, or those of the table it is a clone of.

        Unclear where these do not say it.
        """
        if not self.exists():
            return Landed()
        said = self._said(self.name)
        if said is not None:
            return said
        commits = self.commits(self.name)
        highest = self._frame().groupBy("partition").agg(F.max("offset").alias("highest"))
        ends = {str(row["partition"]): row["highest"] + 1 for row in highest.collect()}
        if not ends and commits and commits[-1].version == 0:
            # It was created by hand, and nothing has landed yet.
            return Landed()
        return Unclear(
            "the history of its table does not say any more what has landed (move its folder away "
            "to land all from the beginning; or say where it continues, such as behind its "
            f"rows: ALTER TABLE {self.name} SET TBLPROPERTIES ('{PROPERTY}' = "
            f"'{json.dumps(ends)}'))"
        )

    def restated(self) -> str | None:
        """Metadata for a commit that adds no records, so that this one says what has landed.

        Only for a writer that holds the folder: what others land meanwhile is not in it. None where
        the history does not say it, or says it as an earlier release did.
        """
        said = self.landed()
        if not isinstance(said, Landed) or said.version == NONE or not said.whole:
            return None
        return to_metadata(Batch({}, said, follows=said.version))

    def _said(self, name: str, most: int | None = None) -> Landed | Unclear | None:
        """What the history of a table says, up to a version of it; by its name in SQL."""
        restored: dict[int, int] = {}
        limit: int | None = LATEST
        while True:
            commits = [it for it in self.commits(name, limit) if most is None or it.version <= most]
            said = from_history(commits, restored, all_there=limit is None)
            if isinstance(said, RestoredByTime):
                version = self._with_files_of(name, said)
                if version is not None:
                    restored[said.version] = version
                    continue
                said = None
            if isinstance(said, Cloned):
                return self._said_at_source(said)
            if said is not None or limit is None:
                return said
            limit = None

    def _said_at_source(self, clone: Cloned) -> Landed | Unclear | None:
        if not PLAIN_NAME.fullmatch(clone.source):
            return None
        try:
            said = self._said(clone.source, clone.source_version)
        except PySparkException:
            # It is not there any more, or not for us: then this table alone does not know.
            return None
        return replace(said, version=clone.since) if isinstance(said, Landed) else None

    def _with_files_of(self, name: str, restore: RestoredByTime) -> int | None:
        """The version that a table was restored to: it has the same files."""
        have = self._files(name, restore.version)
        same = (it for it in restore.candidates if self._files(name, it) == have)
        return next(same, None) if have is not None else None

    def _files(self, name: str, version: int) -> set[str] | None:
        """The files of a version; None when it cannot be read any more."""
        try:
            frame = self.spark.sql(f"SELECT * FROM {name} VERSION AS OF {version}")
            return set(frame.inputFiles())
        except PySparkException:
            return None

    def commits(self, name: str, limit: int | None = None) -> list[TableCommit]:
        """The newest commits of a table, or all that its log holds, the newest first."""
        rows = self.spark.sql(
            f"DESCRIBE HISTORY {name}" + (f" LIMIT {limit}" if limit is not None else "")
        ).select(
            "version",
            "operation",
            "userMetadata",
            "operationParameters",
            F.unix_millis("timestamp").alias("at"),
        )
        found = [
            TableCommit(it[0], it[1] or "", it[2], it[3] or {}, int(it[4] or 0))
            for it in rows.collect()
        ]
        return sorted(found, key=lambda it: it.version, reverse=True)

    def columns(self) -> Struct:
        """The struct of what was decoded so far."""
        if not self.exists():
            return EMPTY
        schema = json.loads(self._frame().schema.json())
        return next((it["type"] for it in schema["fields"] if it["name"] == DECODED), EMPTY)

    def append(self, rows: DataFrame, batch: Batch) -> Appended | None:
        """Append a batch and its positions; None when it does not begin where the table ends.

        Another writer has landed it, or the table was restored meanwhile.
        """
        if not self._ends_with(batch.follows):
            return None
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
            .option("txnAppId", KEY)
            .option("txnVersion", str(number_of(batch)))
            .option("userMetadata", to_metadata(batch))
            .partitionBy(DAY)
            .save(self.uri)
        )
        version = self.spark.conf.get(LAST_VERSION, None)
        if version is None:
            return None
        counts = watch.get
        return Appended(int(version), int(counts["records"]), int(counts["undecoded"]))

    def _ends_with(self, version: int) -> bool:
        """Whether this version is the one that says what has landed."""
        if not self.exists():
            return version == NONE
        if any(newest.version == version for newest in self.commits(self.name, 1)):
            return True
        said = self.landed()
        return isinstance(said, Landed) and said.version == version

    def _frame(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.uri)


def shared_folders(path: str, topics: Collection[str]) -> dict[str, str]:
    """Of these topics those whose folder is another one's already, and whose.

    So it is where a disk takes names that differ in case alone for the same. Makes the folders of
    topics that do, since it is seen by them.
    """
    folder = local_path(path)
    if folder is None or not folder.is_dir():
        return {}
    there = {entry.name for entry in os.scandir(folder) if not entry.is_symlink()}
    alike: dict[str, set[str]] = {}
    for name in (*there, *topics):
        alike.setdefault(name.lower(), set()).add(name)
    shared: dict[str, str] = {}
    for topic in topics:
        owners: list[str] = []
        for name in sorted(alike[topic.lower()], key=lambda it: (it not in there, it)):
            own = folder / name
            owner = next((it for it in owners if own.exists() and own.samefile(folder / it)), None)
            if owner is None and len(alike[topic.lower()]) > 1:
                own.mkdir(exist_ok=True)
                owners.append(name)
            elif owner is not None and name == topic:
                shared[topic] = owner
    return shared
