"""Spark's own Kafka source and sink: what a user without this project writes into a notebook.

`python -m bench.stock_spark TOPIC HUB FOLDER SETTINGS.json SERVERS...`: every source's topic into
the same topic of the hub, with key, value and headers. The sink keeps no timestamp, says nothing of
the origin, and doubles records after a failure.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from aggregator.datapath.jars import jars

if TYPE_CHECKING:
    from collections.abc import Mapping


def main(topic: str, hub: str, folder: str, settings: str, *sources: str) -> None:
    """Copy until SIGTERM."""
    given: Mapping[str, Mapping[str, str]] = json.loads(Path(settings).read_text("utf-8"))
    spark = (
        SparkSession.builder.master(f"local[{os.cpu_count()}]")
        .config("spark.jars", ",".join(map(str, jars("spark"))))
        .config("spark.driver.memory", given["spark"]["heap"])
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    frames = [_source(spark, topic, servers, given["consumer"]) for servers in sources]
    writer = reduce(DataFrame.union, frames).writeStream.format("kafka")
    for name, value in given["producer"].items():
        writer = writer.option(f"kafka.{name}", value)
    query = (
        writer.option("kafka.bootstrap.servers", hub)
        .option("checkpointLocation", folder)
        .option("topic", topic)
        .start()
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    query.awaitTermination()


def _source(
    spark: SparkSession, topic: str, servers: str, consumer: Mapping[str, str]
) -> DataFrame:
    """Key, value and headers of the records of one cluster's topic."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    for name, value in consumer.items():
        reader = reader.option(f"kafka.{name}", value)
    return (
        reader.option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .select("key", "value", "headers")
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
