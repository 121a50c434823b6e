"""Runs an empty lane for a while, so that Java has compiled a batch's end before lanes need it.

What a lane does between two batches (end, plan, send tasks) Java compiles only after some dozens of
times. At one end in half a minute that takes a quarter of an hour, in which each end stops its lane
for several times as long as later. A query that reads the hub, keeps nothing, writes nothing and
ends a batch each second does it in the first minute, at nobody's expense but some CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from aggregator.errors import AggregatorError
from aggregator.model import Positions, Route, SourcePartition
from aggregator.stream.drain import stop_now
from aggregator.stream.folder import ScratchFolder
from aggregator.stream.frames import Reading, read_stream, to_hub_rows

NAME = "rehearsal"
BATCH = {"realTime": "1000 milliseconds"}
STOP_SECONDS = 10.0
LATEST = -1
"""What Spark takes for the end of a partition."""


@contextmanager
def rehearsal(
    spark: SparkSession,
    hub_topic: str,
    source_options: Mapping[str, str],
    sink_options: Mapping[str, str],
    seconds: float,
    on_failure: Callable[[str], None],
) -> Iterator[None]:
    """Rehearse beside the block, for `seconds`, or until the block is over.

    It reads partition 0 of `hub_topic` from its end on. `source_options` are those of a Kafka
    source that reads the hub, `sink_options` those of the lanes. What goes wrong is told to
    `on_failure` and changes nothing else.
    """
    over = threading.Event()

    def rehearse() -> None:
        try:
            folder = ScratchFolder.make(NAME)
            try:
                query = _start(spark, hub_topic, source_options, sink_options, folder)
                over.wait(seconds)
                stop_now(query, STOP_SECONDS)
                if (failure := query.exception()) is not None:
                    raise failure
            finally:
                folder.remove()
        except (AggregatorError, PySparkException, Py4JError) as error:
            on_failure(str(error).splitlines()[0])

    thread = threading.Thread(target=rehearse, name=NAME, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2 * STOP_SECONDS)


def _start(
    spark: SparkSession,
    hub_topic: str,
    source_options: Mapping[str, str],
    sink_options: Mapping[str, str],
    folder: ScratchFolder,
) -> StreamingQuery:
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", NAME)
    route = Route(NAME, hub_topic, hub_topic, 1, 1)
    reading = Reading(NAME, "", (route,), Positions({SourcePartition(NAME, hub_topic, 0): LATEST}))
    # Nothing that Spark could see through: it would not read at all.
    nothing = read_stream(spark, reading, source_options).filter(F.col("offset") < 0)
    return (
        to_hub_rows(nothing, reading)
        .writeStream.format("kafka")
        .queryName(NAME)
        .options(**sink_options)
        .option("checkpointLocation", folder.path.as_uri())
        .outputMode("update")
        .trigger(**BATCH)
        .start()
    )
