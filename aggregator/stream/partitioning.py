"""Column functions that choose the hub topic and the hub partition of a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from aggregator.model import Route
from aggregator.plan.murmur2 import partition_for_key

PartitionRule = Callable[[Route], Column]


def with_hub_topic(frame: DataFrame, routes: Sequence[Route]) -> DataFrame:
    """Add `hub_topic` (string): where a record of `topic` goes, by its route.

    In: a frame with `topic`, holding only topics that have a route among `routes`.
    """
    return frame.withColumn("hub_topic", _by_route(routes, lambda route: F.lit(route.hub_topic)))


def with_hub_partition(frame: DataFrame, routes: Sequence[Route]) -> DataFrame:
    """Add `hub_partition` (int): the partition a record is sent to, or null.

    Null leaves the choice to the producer: murmur2 of the key, as every Kafka client does it, and
    any partition for a record without a key. In: a frame with `topic`, `partition`, `offset`.
    """
    return frame.withColumn("hub_partition", _by_route(routes, _hub_partition))


def _hub_partition(route: Route) -> Column:
    count = F.lit(route.hub_partitions)
    rules: dict[str, PartitionRule] = {
        "key": lambda _: F.lit(None),
        "source_partition": lambda _: F.pmod(F.col("partition"), count),
        # From the offset, not a counter: a record written again goes to the same place.
        "round_robin": lambda _: F.pmod(F.col("partition") + F.col("offset"), count),
        "cluster": lambda r: F.lit(partition_for_key(r.cluster.encode(), r.hub_partitions)),
    }
    return rules[route.partition_by](route).cast("int")


def _by_route(routes: Sequence[Route], choose: Callable[[Route], Column]) -> Column:
    """`choose` per source topic, as one expression; without a branch when all routes agree."""
    choices: dict[str, tuple[Column, list[str]]] = {}
    for route in routes:
        column = choose(route)
        choices.setdefault(str(column), (column, []))[1].append(route.topic)
    (last, _), *others = reversed(choices.values())
    return reduce(
        lambda otherwise, choice: F.when(F.col("topic").isin(choice[1]), choice[0]).otherwise(
            otherwise
        ),
        others,
        last,
    )
