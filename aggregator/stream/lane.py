"""One lane's streaming query: start it, watch its batches, drain or kill it.

A generation is one life of the query, from fixed positions. Spark's own checkpoint directory is
scratch: a new one for each generation, removed with it. The guarantee of the query alone is
at-least-once and in order per source partition and hub partition.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aggregator.errors import AggregatorError
from aggregator.model import Lane, Positions
from aggregator.plan.interval import batch_seconds
from aggregator.plan.pace import LIMITED_BATCH_SECONDS, Pace, offsets_per_batch
from aggregator.stream.drain import (
    end_after_batch,
    ended_cleanly,
    stop_now,
    wait_for_end,
    wait_for_job,
)
from aggregator.stream.folder import ScratchFolder
from aggregator.stream.frames import (
    BULK_OPTIONS,
    Reading,
    live_options,
    parse_offsets,
    read_stream,
    to_hub_rows,
)
from aggregator.stream.scratch import end_offsets, last_ended
from aggregator.stream.session import session_with

IDLE_PATIENCE_SECONDS = 1.0
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """A finished batch: its number, when it began and ended (ms since 1970), and where it got to.

    `positions` are the NEXT offsets to read; everything below them is acknowledged by the hub.
    """

    batch: int
    started_ms: int
    ended_ms: int
    rows: int
    positions: Positions


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """All that a lane's query needs beside its readings.

    `partitions` says how many of a source are read in all, `lanes` how many lanes there are,
    `live_conf` the SQL settings of real-time queries that differ from the session's.
    """

    pace: Pace
    interval_seconds: float
    partitions: Mapping[str, int]
    lanes: int
    max_offsets: int
    hub_names: tuple[str, ...]
    source_options: Mapping[str, Mapping[str, str]]
    sink_options: Mapping[str, str]
    live_conf: Mapping[str, str]


class LaneQuery:
    """A running generation of a lane."""

    def __init__(
        self,
        spark: SparkSession,
        lane: Lane,
        generation: int,
        readings: Sequence[Reading],
        query: StreamingQuery,
        folder: ScratchFolder,
        realtime: bool,
    ) -> None:
        self._spark = spark
        self.lane = lane
        self.generation = generation
        self._readings = tuple(readings)
        self._query = query
        self._folder, self._scratch = folder, folder.path
        self._realtime = realtime
        self._seen = -1
        self._killed = False

    @classmethod
    def start(
        cls,
        spark: SparkSession,
        lane: Lane,
        generation: int,
        readings: Sequence[Reading],
        settings: LaneSettings,
    ) -> LaneQuery:
        """Start the lane's query from the positions in `readings`. Returns when it is launched.

        Raises AggregatorError when there is no place for its scratch folder, and what Spark raises.
        """
        folder = ScratchFolder.make(lane.name)
        trigger = settings.pace.trigger_of(lane)
        name = f"{lane.name}-{generation}"
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", lane.name)
        own = spark
        if trigger == "realtime" and settings.live_conf:
            own = session_with(spark, settings.live_conf)
        rows = reduce(
            DataFrame.unionByName,
            (
                to_hub_rows(
                    read_stream(own, reading, _reader_options(reading, settings, trigger)),
                    reading,
                    settings.hub_names,
                )
                for reading in readings
            ),
        )
        writer = (
            rows.writeStream.format("kafka")
            .queryName(name)
            .options(**settings.sink_options)
            # A producer of its own: the cached one of an older generation may still hold records.
            .option("kafka.client.id", client_id(lane.name, generation))
            .option("checkpointLocation", folder.path.as_uri())
        )
        if trigger == "realtime":
            writer = writer.outputMode("update").trigger(
                **_realtime(batch_seconds(generation, settings.interval_seconds, settings.lanes))
            )
        elif trigger == "available-now":
            writer = writer.trigger(availableNow=True)
        elif settings.pace.limited(lane):
            writer = writer.trigger(processingTime=f"{LIMITED_BATCH_SECONDS} seconds")
        try:
            query = writer.start()
        except BaseException:
            folder.remove()
            raise
        return cls(spark, lane, generation, readings, query, folder, trigger == "realtime")

    @property
    def active(self) -> bool:
        """Whether the query is running and is meant to."""
        return bool(self._query.isActive)

    def failure(self) -> str | None:
        """Why the query ended by itself, in the cause's own words; None when it did not fail."""
        error = self._query.exception()
        return None if error is None else innermost(error)

    def new_batch(self) -> BatchEnd | None:
        """The newest finished batch, once; None when none has finished since the last call.

        Batches in between may be passed over: positions only grow, so the newest says it all.
        """
        ended = last_ended(self._scratch)
        progress = self._query._jsq.lastProgress()
        batch = -1 if progress is None else int(progress.batchId())
        if ended is not None and batch < ended and self._is_over():
            return self._untold(ended)
        # Its text only when there is news: this is asked several times a second for each lane.
        if batch <= self._seen:
            return None
        facts = json.loads(progress.json())
        if len(facts["sources"]) != len(self._readings):
            return None
        offsets = [source.get("endOffset") for source in facts["sources"]]
        if any(offset is None for offset in offsets):
            return None
        self._seen = batch
        started = round(datetime.fromisoformat(facts["timestamp"]).timestamp() * 1000)
        return BatchEnd(
            batch,
            started,
            started + int(facts["durationMs"].get("triggerExecution", 0)),
            int(facts["numInputRows"]),
            self._positions([_as_text(offset) for offset in offsets]),
        )

    def _is_over(self) -> bool:
        # Not `active`, which a drain makes false while the last batch still runs.
        return (
            self._killed or not self._query._jsq.streamingQuery().queryExecutionThread().isAlive()
        )

    def _untold(self, batch: int) -> BatchEnd | None:
        """The end of a batch that the query, which is over, has not told in its progress."""
        if batch <= self._seen:
            return None
        self._seen = batch
        now = time.time_ns() // 1_000_000
        return BatchEnd(batch, now, now, 0, self._positions(end_offsets(self._scratch, batch)))

    def _positions(self, offsets: Sequence[str]) -> Positions:
        positions = Positions()
        for reading, offset in zip(self._readings, offsets, strict=True):
            positions = positions.merged(parse_offsets(reading, offset))
        return positions

    def drain(self, timeout_seconds: float, tick: Callable[[], None] = lambda: None) -> bool:
        """Let the running batch end, start no other, and return True when that came to pass.

        After True, the last `new_batch` holds exactly what was written. False: the batch failed or
        did not end in time, and the query was killed; what it wrote is then unknown. A query that
        waits for a source between two batches is killed at once, which is clean. `tick` is called
        now and then while waiting.
        """
        # An idle micro-batch query has no job to wait for; a real-time one always has.
        idle = None if self._realtime else IDLE_PATIENCE_SECONDS
        wait_for_job(self._spark, self._query, self._scratch, timeout_seconds, tick, idle)
        end_after_batch(self._spark, self._query)
        try:
            ended = wait_for_end(self._query, self._scratch, timeout_seconds, tick)
        except StreamingQueryException:
            # The reason stays readable through failure().
            return False
        if not ended:
            self.kill()
        return ended_cleanly(self._query, self._scratch)

    def kill(self) -> None:
        """Stop at once, in the middle of a batch. Spark may leave a producer's buffer behind.

        Raises AggregatorError when it goes on.
        """
        self._killed = stop_now(self._query, STOP_SECONDS)
        if not self._killed:
            raise AggregatorError(f"lane {self.lane.name} does not stop within {STOP_SECONDS:g} s")

    def close(self) -> None:
        """Remove the scratch folder; call it when the query has ended."""
        self._folder.remove()


def client_id(lane: str, generation: int) -> str:
    """The client id of the producer of one generation of a lane."""
    return f"aggregator-{lane}-{generation}"


def _reader_options(reading: Reading, settings: LaneSettings, trigger: str) -> dict[str, str]:
    options = settings.source_options[reading.cluster]
    if trigger == "realtime":
        return live_options(options, sum(settings.partitions.values()))
    most, alias = settings.max_offsets, reading.cluster
    if alias in settings.pace.limits:
        own, of_all = len(reading.positions), settings.partitions.get(alias, 0)
        most = min(most, offsets_per_batch(settings.pace.limits[alias], own, of_all))
    return {**BULK_OPTIONS, **options, "maxOffsetsPerTrigger": str(most)}


def _realtime(interval_seconds: float) -> dict[str, Any]:
    # A map, because PySpark's type stubs do not know this trigger yet.
    return {"realTime": f"{round(interval_seconds * 1000)} milliseconds"}


def _as_text(offset: object) -> str:
    return offset if isinstance(offset, str) else json.dumps(offset)


def innermost(error: BaseException) -> str:
    """The last cause in the chain of a Spark error: the one that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]
