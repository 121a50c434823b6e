"""For notebooks: a session, the hub's records with their origin as columns, the checkpoint table.

Reads only. Needs no running aggregation, and disturbs none.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from aggregator.checkpoint.delta import local_path, table_uri
from aggregator.clusters.prepare import prepare
from aggregator.completeness.wait import complete_up_to, wait_until_complete
from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.errors import AggregatorError
from aggregator.stream.headers import is_of_origin, origin_columns, origin_texts
from aggregator.stream.reader import open_reader

__all__ = [
    "checkpoints",
    "complete_up_to",
    "hub_records",
    "hub_topics",
    "open_session",
    "wait_until_complete",
    "with_origin_columns",
]


def open_session(config: Config, master: str = "local[2]") -> SparkSession:
    """A Spark session that can read Kafka and Delta, with the settings and jars of the config.

    JarsError when the jars or a Java cannot be had.
    """
    return open_reader(config, master)


def hub_records(spark: SparkSession, config: Config, *topics: str) -> DataFrame:
    """What the hub holds now: the records of `topics`, or of all hub topics of this config.

    Columns: topic, partition, offset, timestamp, key, value (binary); origin_cluster,
    origin_topic, origin_partition, origin_offset, origin_timestamp (null for a record that did not
    come through an aggregator; the last one also where the origin is one header, which leaves it to
    `timestamp`); headers, a map of the record's own headers to their last value.
    Without `topics` the clusters are asked, so ClusterError when they do not answer.
    """
    names = topics or hub_topics(config)
    options = {
        **{f"kafka.{k}": v for k, v in jvm_settings(config.hub, "consumer").items()},
        "subscribe": ",".join(names),
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
        "includeHeaders": "true",
        "groupIdPrefix": f"aggregator-{config.name}-notebook",
    }
    return spark.read.format("kafka").options(**options).load().transform(with_origin_columns)


def hub_topics(config: Config) -> tuple[str, ...]:
    """The topics that this config writes and that the hub has; AggregatorError if there are none.

    ClusterError when the hub does not answer.
    """
    plan = prepare(config).plan
    names = sorted({route.hub_topic for route in plan.routes} & set(plan.hub.topics))
    if not names:
        raise AggregatorError("the hub has none of the topics of this config yet: run it first")
    return tuple(names)


def with_origin_columns(frame: DataFrame) -> DataFrame:
    """Origin headers as columns. In: a Kafka frame with `headers`; out: as `hub_records` says.

    Of several origins (a hub of hubs) the last one counts, the nearest hop, in whichever form.
    """
    origin = origin_columns("texts")
    names = ("cluster", "topic", "partition", "offset")
    return frame.withColumn("texts", origin_texts()).select(
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        *(origin[name].alias(f"origin_{name}") for name in names),
        F.timestamp_millis(origin["timestamp"]).alias("origin_timestamp"),
        _own_headers().alias("headers"),
    )


def checkpoints(spark: SparkSession, config: Config) -> DataFrame:
    """The checkpoint table: one row per position, hub end and epoch of each commit."""
    uri = table_uri(config.checkpoint.path)
    folder = local_path(uri)
    return spark.read.format("delta").load(str(folder.absolute()) if folder is not None else uri)


def _own_headers() -> Column:
    own = F.filter("headers", lambda header: ~is_of_origin(header))
    names = F.array_distinct(F.transform(own, lambda header: header["key"]))

    def last(name: Column) -> Column:
        same = F.filter(own, lambda header: header["key"] == name)
        return F.try_element_at(same, F.lit(-1))["value"]

    return F.map_from_arrays(names, F.transform(names, last))
