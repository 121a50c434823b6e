"""Whatever is done to a landing table between batches, each record is in it once, or a gap says so.

On a real Delta table, with the hub as a model: what it holds is a few numbers.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.config.tee import TeeConfig
from aggregator.features.delta_sink.hub_topics_now import TopicNow
from aggregator.features.delta_sink.land_batch import Attempt, HubReader, TableKnown, land
from aggregator.features.delta_sink.landed_commits import (
    KEY,
    TableCommit,
    Unclear,
    from_history,
    number_of,
    to_metadata,
)
from aggregator.features.delta_sink.landing_rows import with_landing_columns
from aggregator.features.delta_sink.landing_table import LandingTable
from aggregator.features.delta_sink.next_batch import Batch, Landed, plan_batch
from aggregator.features.delta_sink.table_maintenance import care
from aggregator.model.values import OffsetRange, TopicPartition
from support.people import session_of_people
from support.turns import turns

TOPIC = "orders"
PARTITIONS = 2
HOLE = 7
"""Each offset that this divides holds no record, as where a transaction ended."""
WALKS = turns(0, 5)
"""How many walks are drawn, beside one with everything: each takes many seconds."""


class Hub:
    """A topic: what was ever written to it, and what it still holds."""

    def __init__(self) -> None:
        self.written: set[str] = set()
        self._ids = count()
        self.create()

    def create(self) -> None:
        self.topic_id = f"id{next(self._ids)}"
        self.logs = dict.fromkeys(range(PARTITIONS), OffsetRange(0, 0))

    def write(self, rng: random.Random) -> None:
        for partition, log in self.logs.items():
            end = log.latest + rng.randrange(12)
            new = (at for at in range(log.latest, end) if at % HOLE)
            self.written |= {f"{self.topic_id}/{partition}/{at}" for at in new}
            self.logs = {**self.logs, partition: OffsetRange(log.earliest, end)}

    def forget(self, rng: random.Random) -> None:
        partition = rng.randrange(PARTITIONS)
        log = self.logs[partition]
        first = rng.randint(log.earliest, log.latest)
        self.logs = {**self.logs, partition: OffsetRange(first, log.latest)}

    def held(self) -> set[str]:
        """What it still holds."""
        return {
            f"{self.topic_id}/{partition}/{at}"
            for partition, log in self.logs.items()
            for at in range(log.earliest, log.latest)
            if at % HOLE
        }

    def now(self) -> TopicNow:
        return TopicNow(self.topic_id, dict(self.logs))


class Reads(HubReader):
    """Reads a topic of the hub as Spark's Kafka source does; with `fails` not to the end."""

    def __init__(self, topic_id: str, *, fails: bool = False) -> None:
        text = F.concat_ws("/", F.lit(topic_id), "partition", "offset")
        self._value = F.raise_error(F.lit("killed")) if fails else text

    def __call__(
        self, spark: SparkSession, ranges: Mapping[TopicPartition, OffsetRange], headers: bool
    ) -> DataFrame:
        frames = (
            spark.range(log.earliest, log.latest).select(
                F.lit(tp.topic).alias("topic"),
                F.lit(tp.partition).alias("partition"),
                F.col("id").alias("offset"),
            )
            for tp, log in ranges.items()
        )
        there = reduce(DataFrame.unionAll, frames).where(F.col("offset") % HOLE != 0)
        return there.select(
            "topic",
            "partition",
            "offset",
            F.lit(None).cast("binary").alias("key"),
            self._value.cast("string").cast("binary").alias("value"),
            F.timestamp_millis(F.lit(1_795_000_000_000)).alias("timestamp"),
            F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers"),
        )

    def is_helped(self, error: Exception) -> bool:
        """Nothing is refused."""
        return False


class Tee:
    """One instance: what it knows of the table and of the hub, which may be of long ago."""

    def __init__(self, spark: SparkSession, path: Path, now: TopicNow) -> None:
        self.table = LandingTable(spark, str(path), TOPIC)
        self.known: TableKnown | None = None
        self.now = now

    def land(self, limit: int = 20) -> Attempt:
        reads = Reads(self.now.topic_id)
        found = land(reads, self.table, None, self.known, self.now, limit)
        self.known = found.known
        return found


class World:
    """A hub, a table, and two instances that take turns without knowing of each other."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int) -> None:
        self.spark = session_of_people(spark)
        self.rng = random.Random(seed)
        self.hub = Hub()
        self.folder = folder
        self.path = folder / "tee"
        self.clones = 0
        self._start()

    @property
    def uri(self) -> str:
        return str(self.path / TOPIC)

    def _start(self) -> None:
        self.tees = [Tee(self.spark, self.path, self.hub.now()) for _ in range(2)]

    def _sql(self, text: str) -> None:
        # There may be no table yet, no such version any more, or nothing to go back to.
        try:
            self.spark.sql(text.format(f"delta.`{self.uri}`")).collect()
        except (PySparkException, Py4JJavaError):
            assert "RESTORE" in text or not self.tees[0].table.exists(), text

    def write(self) -> None:
        self.hub.write(self.rng)

    def forget(self) -> None:
        self.hub.forget(self.rng)
        self._has_begun()

    def create_again(self) -> None:
        self.hub.create()
        self._has_begun()
        self.hub.write(self.rng)

    def _has_begun(self) -> None:
        """What is gone before anything has landed need not land."""
        if not self.tees[0].table.exists():
            self.hub.written &= self.hub.held()

    def land(self) -> None:
        self.tees[0].now = self.hub.now()
        assert not self.tees[0].land().refused

    def other_lands(self) -> None:
        """It goes by what it knew when it last landed something."""
        assert not self.tees[1].land().refused
        self.tees[1].now = self.hub.now()

    def killed_before_commit(self) -> None:
        tee = self.tees[0]
        tee.now = self.hub.now()
        try:
            land(Reads(tee.now.topic_id, fails=True), tee.table, None, tee.known, tee.now, 20)
        except (PySparkException, Py4JJavaError):
            tee.known = None

    def killed_behind_commit(self) -> None:
        self.land()
        self.tees[0].known = None

    def earlier_release(self) -> None:
        """What has landed was written by the release before this one."""
        tee = self.tees[0]
        landed = tee.table.landed()
        assert isinstance(landed, Landed)
        batch = plan_batch(landed, self.hub.topic_id, self.hub.logs, 1_000)
        if not isinstance(batch, Batch) or batch.follows >= 0:
            return
        ranges = {TopicPartition(TOPIC, at): log for at, log in batch.ranges.items()}
        rows = with_landing_columns(Reads(self.hub.topic_id)(self.spark, ranges, True))
        ends = {str(at): it for at, it in batch.after.positions.items() if at in batch.ranges}
        said = {KEY: {"topic_id": self.hub.topic_id, "next": ends, "lost": []}}
        rows.write.format("delta").option("txnAppId", f"{KEY}/hub/{self.hub.topic_id}").option(
            "txnVersion", str(sum(ends.values()))
        ).option("userMetadata", json.dumps(said)).partitionBy("day").save(self.uri)

    def restore_version(self) -> None:
        if commits := self._commits()[1:]:
            self._sql(f"RESTORE TABLE {{}} TO VERSION AS OF {self.rng.choice(commits).version}")

    def restore_moment(self) -> None:
        if commits := self._commits():
            moment = datetime.fromtimestamp(self.rng.choice(commits).at / 1000, UTC)
            self._sql(f"RESTORE TABLE {{}} TO TIMESTAMP AS OF '{moment.replace(tzinfo=None)}'")

    def optimize(self) -> None:
        self._sql("OPTIMIZE {}")

    def vacuum(self) -> None:
        self._sql("VACUUM {} RETAIN 1 HOURS")

    def move_to_clone(self) -> None:
        """The table is a clone in another folder from now on, and so are its tees."""
        if not self.tees[0].table.exists():
            return
        self.clones += 1
        path = self.folder / f"clone{self.clones}"
        self._sql(f"CREATE TABLE delta.`{path / TOPIC}` SHALLOW CLONE {{}}")
        self.path = path
        self._start()

    def replace_by_backup(self) -> None:
        """A clone of it is made, and it is made that clone again, later."""
        if not self.tees[0].table.exists():
            return
        self.clones += 1
        backup = f"delta.`{self.folder / f'backup{self.clones}'}`"
        self._sql(f"CREATE TABLE {backup} SHALLOW CLONE {{}}")
        self.write()
        self.land()
        # Delta replaces none with rows in it.
        self._sql("DELETE FROM {}")
        self._sql(f"CREATE OR REPLACE TABLE {{}} SHALLOW CLONE {backup}")

    def _commits(self) -> list[TableCommit]:
        table = self.tees[0].table
        return table.commits(table.name) if table.exists() else []

    def end(self) -> None:
        """All lands that is there, and nothing is missing but what a commit names."""
        fresh = Tee(self.spark, self.path, self.hub.now())
        for _ in range(20):
            done = fresh.land(1_000)
            assert not done.refused
            assert done.known is not None or done.committed
            if done.known is not None and not done.committed:
                break
        else:
            pytest.fail("it does not come to an end")
        if not fresh.table.exists():
            assert not self.hub.written
            return
        rows = self.spark.read.format("delta").load(self.uri)
        found = Counter(bytes(row["value"]).decode() for row in rows.select("value").collect())
        assert [it for it, times in found.items() if times > 1] == []
        assert found.keys() <= self.hub.written
        # A topic that came and went while the table knew nothing of it is nowhere.
        assert fresh.known is not None
        seen = {fresh.known.landed.topic_id, *fresh.known.landed.earlier}
        missing = {it for it in self.hub.written - found.keys() if it.split("/")[0] in seen}
        assert missing - self._named_as_lost() == set()

    def _named_as_lost(self) -> set[str]:
        """Of what was written that which some commit says is lost."""
        named: set[str] = set()
        paths = [self.path, *self.folder.glob("clone*"), self.folder / "tee"]
        for path in paths:
            if not (path / TOPIC).exists():
                continue
            for commit in self.tees[0].table.commits(f"delta.`{path / TOPIC}`"):
                own = json.loads(commit.metadata or "{}").get(KEY, {})
                named |= {it for it in self.hub.written if _is_lost(own, *it.split("/"))}
        return named


def _is_lost(own: dict[str, Any], topic_id: str, partition: str, offset: str) -> bool:
    lost = any(
        (at, own["topic_id"]) == (int(partition), topic_id) and first <= int(offset) < end
        for at, first, end in own.get("lost", ())
    )
    old = own.get("earlier", {}).get(topic_id)
    return lost or (old is not None and old.get(partition, 0) <= int(offset))


OPERATIONS = [
    it.__name__
    for it in (
        World.write,
        World.land,
        World.other_lands,
        World.killed_before_commit,
        World.killed_behind_commit,
        World.restore_version,
        World.restore_moment,
        World.optimize,
        World.vacuum,
        World.move_to_clone,
        World.replace_by_backup,
        World.forget,
        World.create_again,
    )
]
LIKELY = ["write", "land", "land", "other_lands", "restore_version", "restore_moment"]
EACH = [
    *("earlier_release", "write", "other_lands", "land", "write", "killed_before_commit"),
    *("killed_behind_commit", "restore_version", "write", "other_lands", "restore_moment", "land"),
    *("optimize", "vacuum", "forget", "replace_by_backup", "create_again", "land"),
    *("move_to_clone", "write", "restore_version"),
]
"""Each kind at least once: what is drawn beside it is little, as each takes seconds."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[Path]]:
    base = tmp_path_factory.mktemp("worlds")
    yield (base / str(at) for at in count())
    shutil.rmtree(base)


@pytest.mark.again
@given(
    st.lists(st.sampled_from([*OPERATIONS, *LIKELY]), min_size=2, max_size=4),
    st.integers(0, 1 << 16),
)
@example(EACH, 1)
@settings(
    max_examples=max(1, WALKS),
    phases=[*Phase] if WALKS else [Phase.explicit],
    suppress_health_check=list(HealthCheck),
)
def test_whatever_is_done_to_a_table_each_record_is_in_it_once(
    spark: SparkSession, folders: Iterator[Path], walk: list[str], seed: int
) -> None:
    assert set(OPERATIONS) < set(EACH)
    world = World(spark, next(folders), seed)
    world.write()
    for name in walk:
        getattr(world, name)()
    world.end()


def by_hand(rows: DataFrame, uri: str, **options: str) -> None:
    """Write as somebody else does, who looks at nothing before."""
    rows.write.format("delta").mode("append").options(**options).partitionBy("day").save(uri)


def test_a_commit_that_somebody_else_came_before_is_refused_or_seen(
    spark: SparkSession, folders: Iterator[Path]
) -> None:
    world = World(spark, next(folders), 0)
    world.write()
    world.land()
    tee, table = world.tees[0], world.tees[0].table
    assert tee.known is not None
    world.write()
    batch = plan_batch(tee.known.landed, world.hub.topic_id, world.hub.logs, 10**6)
    assert isinstance(batch, Batch)
    ranges = {TopicPartition(TOPIC, at): log for at, log in batch.ranges.items()}
    rows = with_landing_columns(Reads(world.hub.topic_id)(spark, ranges, True))
    # A look before finds it, and Delta refuses it by its number.
    by_hand(rows, world.uri, userMetadata=to_metadata(batch), txnAppId=KEY, txnVersion="1")
    assert table.append(rows, batch) is None
    by_hand(rows, world.uri, txnAppId=KEY, txnVersion=str(number_of(batch)))
    assert len(table.commits(table.name)) == 2
    # One that does neither has written some records twice, and the table says so from then on.
    by_hand(rows, world.uri, userMetadata=to_metadata(batch))
    said = table.landed()
    assert isinstance(said, Unclear)
    tee.now = world.hub.now()
    assert tee.land().is_overtaken
    assert tee.land().refused == said.reason
    world.spark.sql(f"RESTORE TABLE {table.name} TO VERSION AS OF 1")
    world.end()


def test_a_table_whose_history_says_nothing_waits_until_somebody_does(
    spark: SparkSession, folders: Iterator[Path]
) -> None:
    world = World(spark, next(folders), 0)
    world.write()
    ranges = {TopicPartition(TOPIC, at): log for at, log in world.hub.logs.items()}
    by_hand(with_landing_columns(Reads(world.hub.topic_id)(spark, ranges, True)), world.uri)
    world.write()
    refused = world.tees[0].land().refused
    assert "move its folder away" in refused
    # As it says.
    spark.sql(refused[refused.index("ALTER TABLE") : -1])
    world.land()
    world.end()
    # A table that is only made, with a column more, say, is no such table.
    other = World(spark, next(folders), 0)
    other.write()
    frame = with_landing_columns(Reads("x")(spark, ranges, True)).limit(0)
    by_hand(frame.withColumn("more", F.lit(1)), other.uri)
    other.land()
    other.end()


def test_a_table_that_is_quiet_for_long_still_says_what_has_landed_when_its_days_are_deleted(
    spark: SparkSession, folders: Iterator[Path]
) -> None:
    """By `aggregator maintain` each night; Delta's log keeps a day, and its last 100 commits."""
    world = World(spark, next(folders), 0)
    world.write()
    world.land()
    table = world.tees[0].table
    before = table.landed()
    assert isinstance(before, Landed)
    config = TeeConfig(path=str(world.path), keep=86_400.0)
    care(spark, config, TOPIC, alone=True)
    (delete,) = [it for it in table.commits(table.name) if it.operation == "DELETE"]
    said = from_history([delete], {}, all_there=False)
    assert said == replace(before, version=delete.version)
    # And the next batch begins there, also for one that begins without knowing anything.
    world.write()
    fresh = Tee(spark, world.path, world.hub.now())
    done = fresh.land(1_000)
    assert done.committed
    assert done.known is not None
    ends = {at: log.latest for at, log in world.hub.logs.items()}
    assert dict(done.known.landed.positions) == ends
    rows = spark.read.format("delta").load(world.uri)
    found = [bytes(it["value"]).decode().split("/") for it in rows.collect()]
    assert len(found) == done.records
    assert all(int(offset) >= before.positions[int(at)] for _, at, offset in found)
