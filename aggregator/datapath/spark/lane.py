"""One lane's streaming query: start it, follow its reports, give it orders, stop it.

A generation is one life of the query, from fixed positions. Spark's own checkpoint directory is
scratch: a new one for each generation, removed with it. The query alone writes at least once and in
order per source partition and hub partition; from exact positions, and without what the hub holds
already, once.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from aggregator.config.allowed import URLS
from aggregator.datapath.connector.connector import SINK, Connector, Orders
from aggregator.datapath.connector.reports import LaneReport
from aggregator.datapath.connector.spec import Clients, Reading, render_spec
from aggregator.datapath.spark.frames import union_of
from aggregator.datapath.spark.scratch import ScratchFolder
from aggregator.model.errors import AggregatorError
from aggregator.model.values import Lane, SchemaIds, Skip, SourcePartition
from aggregator.plan.lanes.rate_limits import Pace, rate_shares
from aggregator.plan.lanes.slots import deal_tasks

BATCH_SECONDS = 600
"""A batch has nothing to do with positions: at its end its tasks only restart."""
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """All that a lane's query needs beside its readings.

    `tasks` says how many tasks each source has at most, but for those in `own_tasks`; `until` where
    partitions end, for lanes with an end.
    """

    clients: Clients
    hub_names: tuple[str, ...]
    tasks: int
    pace: Pace
    partitions: Mapping[str, int]
    until: Mapping[SourcePartition, int] = field(default_factory=dict)
    own_tasks: Mapping[str, int] = field(default_factory=dict)

    def deal(self, reading: Reading) -> list[list[SourcePartition]]:
        """The partitions of a reading, by task."""
        tasks = self.own_tasks.get(reading.cluster, self.tasks)
        return deal_tasks(list(reading.positions), tasks)


class LaneQuery:
    """A running generation of a lane. Used by the engine's thread; `report` by any."""

    def __init__(
        self,
        connector: Connector,
        lane: Lane,
        generation: int,
        key: str,
        query: StreamingQuery,
        folder: ScratchFolder,
        dealt: Mapping[tuple[int, int], tuple[SourcePartition, ...]],
        settings: LaneSettings,
    ) -> None:
        self.lane = lane
        self.generation = generation
        self.key = key
        self._connector = connector
        self._query = query
        self._folder = folder
        self._dealt = dealt
        self._partitions = settings.partitions
        self._orders = Orders(rates=rates_of(dealt, settings.pace, settings.partitions))
        self._is_stopped = False

    @classmethod
    def start(
        cls,
        spark: SparkSession,
        connector: Connector,
        lane: Lane,
        generation: int,
        readings: Sequence[Reading],
        settings: LaneSettings,
        skips: Mapping[SourcePartition, Skip],
        snapshot: int,
    ) -> LaneQuery:
        """Start the lane's query from the positions in `readings`, without what is in `skips`.

        `snapshot` is the number of a hub snapshot that was finished before. Returns when it is
        launched. Raises AggregatorError when there is no place for its scratch
        folder, and what Spark raises.
        """
        tasks = [settings.deal(reading) for reading in readings]
        key = connector.key(lane.name, generation)
        spec = render_spec(
            key,
            lane.name,
            generation,
            readings,
            tasks,
            settings.clients,
            settings.hub_names,
            settings.until,
            skips,
            snapshot,
        )
        folder = ScratchFolder.make(lane.name)
        dealt = {
            (number, task): tuple(partitions)
            for number, hands in enumerate(tasks)
            for task, partitions in enumerate(hands)
        }
        clients = (settings.clients.producer, *settings.clients.consumers.values())
        connector.allow_tokens_of({it[name] for it in clients for name in URLS if it.get(name)})
        connector.put(spec, lane.name, generation)
        # Before a task is there: none reads a record without its limit.
        rates = rates_of(dealt, settings.pace, settings.partitions)
        connector.order(key, Orders(rates=rates))
        try:
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", lane.name)
            query = (
                union_of(spark, key, readings)
                .writeStream.format(SINK)
                .queryName(f"{lane.name}-{generation}")
                .option("checkpointLocation", folder.path.as_uri())
                .outputMode("update")
                .trigger(**_realtime(BATCH_SECONDS))
                .start()
            )
        except BaseException:
            connector.forget(key, lane.name, generation)
            folder.remove()
            raise
        connector.follow(key, query)
        return cls(connector, lane, generation, key, query, folder, dealt, settings)

    @property
    def active(self) -> bool:
        """Whether the query was running when the tasks' reports were last polled."""
        # One call into Java for the queries of all lanes, and the reports with it.
        return not (self._is_stopped or self._connector.is_over(self.key))

    @property
    def report(self) -> LaneReport:
        """Its tasks' newest report."""
        return self._connector.report(self.lane.name, self.generation, len(self._dealt))

    def failure(self) -> str | None:
        """Why the query ended by itself, in the cause's own words; None when it did not fail."""
        error = self._query.exception()
        return None if error is None else innermost(error)

    def end(self) -> None:
        """Let its tasks stop reading and make their last report. Returns at once."""
        self._order(replace(self._orders, end=True))

    def hold(self, partitions: Collection[SourcePartition]) -> None:
        """Stop reading these partitions; the others continue. Returns at once."""
        self._order(replace(self._orders, held=self._orders.held | frozenset(partitions)))

    def pace(self, pace: Pace) -> None:
        """Read at this pace from now on."""
        self._order(replace(self._orders, rates=rates_of(self._dealt, pace, self._partitions)))

    def schemas(self, known: Mapping[str, SchemaIds]) -> None:
        """Send its tasks the hub's schema ids, by cluster."""
        self._order(replace(self._orders, schemas=known))

    def stop(self) -> None:
        """Stop the query; what its tasks have not sent by then they never do.

        Raises AggregatorError when it keeps running.
        """
        stopper = threading.Thread(target=self._stop, name="stop-query", daemon=True)
        stopper.start()
        stopper.join(STOP_SECONDS)
        if self._query.isActive:
            raise AggregatorError(f"lane {self.lane.name} does not stop within {STOP_SECONDS:g} s")
        self._is_stopped = True

    def close(self) -> None:
        """Let go of everything that belongs to it; call it when the query has ended."""
        self._connector.forget(self.key, self.lane.name, self.generation)
        self._folder.remove()

    def _order(self, orders: Orders) -> None:
        if orders != self._orders:
            self._orders = orders
            self._connector.order(self.key, orders)

    def _stop(self) -> None:
        try:
            self._query.stop()
        except Exception:  # the waiting caller sees that it keeps running, and says so
            return


def rates_of(
    dealt: Mapping[tuple[int, int], tuple[SourcePartition, ...]],
    pace: Pace,
    of_all: Mapping[str, int],
) -> dict[tuple[int, int], tuple[float | None, float | None]]:
    """The records and bytes per second of each task (by reading and number) that has a limit."""
    rates = {task: rate_shares(pace, its, of_all) for task, its in dealt.items()}
    return {task: rate for task, rate in rates.items() if rate != (None, None)}


def _realtime(seconds: int) -> dict[str, Any]:
    # A map, because PySpark's type stubs do not know this trigger yet.
    return {"realTime": f"{seconds} seconds"}


def innermost(error: BaseException) -> str:
    """The last cause in the chain of a Spark error: the one that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0]
