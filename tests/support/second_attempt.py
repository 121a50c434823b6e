"""`python second_attempt.py SERVERS CLUSTER_ID PLAIN GUARDED`: a task that Spark tries again.

Writes 100 records into PLAIN with Spark's own sink, then starts a lane that copies them into
GUARDED; the first attempt of each task fails before it has written anything. Prints the words of
the last failure.
"""

from __future__ import annotations

import sys

from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from aggregator.config import load_text
from aggregator.datapath.connector.connector import Connector
from aggregator.datapath.connector.spec import Clients
from aggregator.datapath.spark.frames import plan_readings
from aggregator.datapath.spark.jvm import prepare_driver
from aggregator.datapath.spark.lane import LaneQuery, LaneSettings
from aggregator.datapath.spark.session import build_session, session_conf
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.values import Lane, Positions, Route, SourcePartition
from aggregator.plan.lanes.rate_limits import Pace

RECORDS = 100
SECONDS = 60.0
FOUR_FAILURES = "local[2,4]"
"""A master that Spark's own setting for it, which we enforce, does not count for."""

SETS = ("sources.eu.bootstrap_servers=127.0.0.1:9", "sources.eu.topics.include=orders")
FIRST = "reflect('java.lang.System', 'setProperty', 'tried', 'yes') = 'null'"
"""True once in a JVM: it gives what was set before, as text."""


def fail_at_first(number: int) -> bytes:
    """The value of a record; fails in the first attempt of the task."""
    context = TaskContext.get()
    assert context is not None
    if context.attemptNumber() == 0:
        raise RuntimeError("the first attempt")
    return b"%d" % number


def fails_at_first(records: DataFrame) -> DataFrame:
    """The transform of the lane: fails at the first record, and lets pass what is tried again."""
    failing = F.when(F.expr(FIRST), F.raise_error(F.lit("the first attempt")).cast("binary"))
    return records.withColumn("value", failing.otherwise(F.col("value")))


def main(servers: str, cluster_id: str, plain: str, guarded: str) -> None:
    """Write both topics."""
    config = load_text("", [*SETS, f"hub.bootstrap_servers={servers}"])
    driver = prepare_driver(config, print)
    spark = build_session(session_conf(config, FOUR_FAILURES, driver), driver)
    address = {"bootstrap.servers": servers}
    value = F.udf(fail_at_first, "binary")
    rows = spark.range(0, RECORDS, 1, 1).select(value("id").alias("value"))
    sink = {f"kafka.{name}": it for name, it in address.items()}
    rows.write.format("kafka").options(**sink, topic=plain).save()
    own = SourcePartition("eu", plain, 0)
    route = Route("eu", plain, guarded, 1, 1, transform="second_attempt:fails_at_first")
    clients = Clients({"eu": address}, address, {"eu": cluster_id})
    connector = Connector(spark)
    query = LaneQuery.start(
        spark,
        connector,
        Lane("eu", (own,)),
        1,
        plan_readings([route], Positions({own: 0})),
        LaneSettings(clients, (), 1, Pace(), {"eu": 1}),
        {},
        1,
    )

    def is_over() -> bool:
        connector.poll()
        return not query.active

    try:
        wait_until(is_over, seconds=SECONDS, what="the lane fails")
        sys.stdout.write(f"failed: {query.failure()}\n")
    finally:
        query.stop()
        query.close()
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
