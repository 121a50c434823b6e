"""Batches as they are: what a config may ask, what a plan makes of it, who refuses beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from aggregator.cli.plan import report_of_plan
from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.datapath.connector.hub_origins import parse_run
from aggregator.datapath.spark.ranges import known_origins
from aggregator.features.delta_sink.land_batch import HubReader
from aggregator.features.groups.batch_scan import take_run
from aggregator.kafka.discovery.key_samples import newest_of_longest
from aggregator.model.errors import AggregatorError, ConfigError
from aggregator.model.values import (
    ClusterFacts,
    Discovery,
    OffsetRange,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan import Plan, make_plan
from aggregator.plan.lanes.murmur2 import partition_for_key
from aggregator.plan.plan import replanned
from aggregator.plan.refusals import NOTHING_REFUSED
from aggregator.plan.topics.key_samples import KeySample, SampledTopic, sample_of

MOST = 5_000_000
BY_KEY = {"copy_as": "batches", "partition_by": "key"}
WANTED = {"copy_as": "batches", "partition_by": "source_partition"}


def config_of(topics: dict[str, Any], source: dict[str, Any] | None = None, **rest: Any) -> Config:
    tree = {
        "hub": {"bootstrap_servers": "h:1", **rest.pop("hub", {})},
        "sources": {
            "eu": {"bootstrap_servers": "e:1", "topics": {"include": ".*"}, **(source or {})}
        },
        "topics": topics,
        **rest,
    }
    return load_text(json.dumps(tree), env={})


def refusal(topics: dict[str, Any], **rest: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        config_of(topics, **rest)
    return str(refused.value)


def plan(
    topics: dict[str, Any],
    sample: KeySample | None = None,
    partitions: tuple[int, int] = (3, 3),
    **facts: Any,
) -> Plan:
    at_source = TopicFacts("orders", "s", partitions[0], 1)
    at_hub = TopicFacts("orders", "h", partitions[1], 1, max_message_bytes=MOST, **facts)
    return make_plan(
        config_of({"sync_configs": False, "partitions": partitions[1], **topics}),
        Discovery({"eu": ClusterFacts("eu", "EU", 1, {"orders": at_source})}),
        ClusterFacts("hub", "HUB", 1, {"orders": at_hub}),
        key_samples={SampledTopic("eu", "orders", "s", partitions[0]): sample} if sample else {},
    )


def test_records_are_the_default() -> None:
    assert not config_of({}).topics.has_batches
    (route,) = plan({}).routes
    assert route.batch_bytes == 0
    assert plan({}).to_dict()["routes"][0]["copy_as"] == "records"


@pytest.mark.parametrize("placed", ["source_partition", "cluster"])
def test_batches_go_as_they_are_up_to_what_the_hub_topic_takes(placed: str) -> None:
    found = plan({**WANTED, "partition_by": placed})
    (route,) = found.routes
    assert route.batch_bytes == MOST
    assert not found.warnings
    assert found.to_dict()["routes"][0]["copy_as"] == "batches"
    assert "Batches as they are: eu/orders" in report_of_plan(found).parts


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"cleanup_policy": "compact,delete"}, "compacted"),
        ({"compression_type": "zstd"}, "compression.type is zstd"),
        ({"timestamp_type": "LogAppendTime"}, "LogAppendTime"),
    ],
)
def test_a_hub_topic_that_needs_records_gets_records_and_the_plan_says_why(
    facts: dict[str, Any], why: str
) -> None:
    found = plan(WANTED, **facts)
    (route,) = found.routes
    assert route.batch_bytes == 0
    (warning,) = (it for it in found.warnings if "copy_as" in it)
    assert warning.startswith("hub topic orders: copy_as: batches has no effect") and why in warning


def test_by_key_batches_go_where_kafkas_partitioner_has_put_the_keys_of_a_sample() -> None:
    for partitions in ((12, 12), (12, 4), (1, 1)):
        found = plan(BY_KEY, KeySample(50, 30, 0), partitions)
        (route,) = found.routes
        assert (route.batch_bytes, route.partition_by) == (MOST, "source_partition")
        assert (found.warnings, found.unsampled) == ((), ())
        parts = report_of_plan(found).parts
        assert "Their keys are where Kafka's partitioner puts them: eu/orders" in parts
    again = replanned(found, config_of(BY_KEY), NOTHING_REFUSED, cores=1, flowing=())
    assert again.routes[0].batch_bytes == MOST


@pytest.mark.parametrize(
    ("sample", "partitions", "why"),
    [
        (KeySample(50, 30, 0), (12, 8), "8, must divide that of eu/orders, 12"),
        (KeySample(50, 30, 0), (4, 8), "8, must divide that of eu/orders, 4"),
        (KeySample(50, 30, 1), (12, 4), "1 of 30 sampled keys are not in the partition"),
        (KeySample(50, 3, 0), (12, 4), "50 sampled records have 3 different keys"),
        (KeySample(50, 0, 0), (12, 4), "source_partition keeps the records of each"),
        (None, (12, 4), "the keys of eu/orders could not be sampled"),
    ],
)
def test_by_key_records_go_one_by_one_where_a_batch_might_take_a_key_elsewhere(
    sample: KeySample | None, partitions: tuple[int, int], why: str
) -> None:
    found = plan(BY_KEY, sample, partitions)
    (route,) = found.routes
    assert (route.batch_bytes, route.partition_by) == (0, "key")
    (warning,) = (it for it in found.warnings if "copy_as" in it)
    assert why in warning
    wanted = [SampledTopic("eu", "orders", "s", 12)] if sample is None else []
    assert list(found.unsampled) == wanted


@given(st.integers(1, 8), st.integers(1, 6), st.lists(st.binary(max_size=9), max_size=60))
def test_what_a_sample_shows_holds_for_each_key_at_the_hub(
    factor: int, hub: int, keys: list[bytes]
) -> None:
    partitions = factor * hub
    placed = [(partition_for_key(key, partitions), key) for key in keys]
    sample = sample_of([*placed, (0, None)], partitions)
    assert sample == KeySample(len(keys) + 1, len(set(keys)), 0)
    # Where the source has it decides where the hub's partitioner looks for it.
    assert all(at % hub == partition_for_key(key, hub) for at, key in placed)
    moved = [((at + 1) % partitions, key) for at, key in placed]
    expected = len(set(keys)) if partitions > 1 else 0
    assert sample_of(moved, partitions).elsewhere == expected


def test_a_sample_is_the_newest_records_of_the_two_longest_logs_of_each_topic() -> None:
    ends = {("a", 0): (0, 10), ("a", 1): (990, 1_000), ("a", 2): (0, 500), ("b", 0): (7, 7)}
    logs = {TopicPartition(*tp): OffsetRange(*log) for tp, log in ends.items()}
    assert newest_of_longest(logs) == {
        TopicPartition("a", 2): OffsetRange(460, 500),
        TopicPartition("a", 0): OffsetRange(0, 10),
        TopicPartition("b", 0): OffsetRange(7, 7),
    }


def test_the_more_partitions_there_are_the_fewer_keys_show_how_they_are_placed() -> None:
    least = {
        partitions: next(keys for keys in range(99) if not KeySample(99, keys, 0).doubt(partitions))
        for partitions in (1, 2, 6, 12, 100)
    }
    assert least == {1: 0, 2: 14, 6: 6, 12: 4, 100: 2}


@pytest.mark.parametrize(
    ("topics", "rest", "why"),
    [
        ({**WANTED, "partition_by": "round_robin"}, {}, "needs partition_by"),
        ({**WANTED, "transform": "a:b"}, {}, "cannot be transformed"),
        ({**WANTED, "dedup": {"by": "key", "window": "1h"}}, {}, "no event is looked for"),
        (WANTED, {"stream": {"path": "objects"}}, "needs stream.path: bytes"),
        (WANTED, {"hub": {"known_as": ["other"]}}, "would let records of hub.known_as loop"),
        (
            {**WANTED, "overrides": {"a": {"partition_by": "round_robin"}}},
            {},
            "topics.overrides.a.copy_as: batches needs partition_by",
        ),
    ],
)
def test_what_only_records_can_do_is_refused_beside_it(
    topics: dict[str, Any], rest: dict[str, Any], why: str
) -> None:
    assert why in refusal(topics, **rest)


def test_one_hub_topic_may_have_batches_and_one_records() -> None:
    only = config_of({"overrides": {"a": WANTED}}).topics
    assert (only.rules_for("a").copy_as, only.rules_for("b").copy_as) == ("batches", "records")
    assert only.has_batches
    but = config_of({**WANTED, "overrides": {"a": {"copy_as": "records", "partition_by": "key"}}})
    assert but.topics.rules_for("a").copy_as == "records"


def test_the_origins_that_a_reader_may_find_are_of_all_partitions_up_to_the_last() -> None:
    parts = [SourcePartition("us", "a", 0), SourcePartition("eu", "b", 4)]
    (option,) = known_origins(parts).values()
    assert json.loads(option) == {"header": "origin", "topics": [["eu", "b", 5], ["us", "a", 1]]}


def test_lines_of_java_become_runs_of_scans_until_these_are_done() -> None:
    taken: list[tuple[int, SourcePartition | None, int, int]] = []

    class Few:
        """A scan of one run."""

        start, end, read, done = 0, 100, 0, False

        def take(
            self, offset: int, origin: SourcePartition | None, at: int, records: int = 1
        ) -> None:
            taken.append((offset, origin, at, records))
            self.done = True

    name, other, few = TopicPartition("a", 0), TopicPartition("b", 1), Few()
    at = {name: 0, other: 0}
    take_run(parse_run("1 7 9 eu/x/0 3", [other, name]), {name: few}, at)
    assert (few.done, at[name]) == (True, 16)
    sp = SourcePartition("eu", "x", 0)
    assert taken == [(7, sp, 3, 9)]
    again = Few()
    taken.clear()
    for line in ("0 end", "0 5 1 - 0", "1 7 9 eu/x/0 3"):
        take_run(parse_run(line, [other, name]), {other: again}, at)
    assert (again.done, taken) == (True, [])
    take_run(parse_run("1 16 2 - 0", [other, name]), {name: few}, at)
    assert (at[name], taken) == (18, [])


@pytest.mark.parametrize(
    "topics", [WANTED, {"overrides": {"none": WANTED}}], ids=["all", "a topic that is not there"]
)
def test_a_tee_lands_nothing_before_the_checkpoint_says_whose_batches_there_are(
    tmp_path: Path, topics: dict[str, Any]
) -> None:
    config = config_of(topics, tee={}, checkpoint={"path": str(tmp_path / "none")})
    with pytest.raises(AggregatorError, match="none has no position yet"):
        HubReader(config)(cast(SparkSession, None), {}, True)
