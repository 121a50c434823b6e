"""Batches as they are: what a config may ask, what a plan makes of it, who refuses beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from aggregator.cli.plan import report_of_plan
from aggregator.config import load_text
from aggregator.config.schema import Config
from aggregator.datapath.connector.hub_origins import parse_run
from aggregator.datapath.spark.ranges import known_origins
from aggregator.features.delta_sink.land_batch import HubReader
from aggregator.features.groups.batch_scan import take_run
from aggregator.model.errors import AggregatorError, ConfigError
from aggregator.model.values import (
    ClusterFacts,
    Discovery,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan import Plan, make_plan

MOST = 5_000_000
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


def plan(topics: dict[str, Any], **facts: Any) -> Plan:
    at_source = TopicFacts("orders", "s", 3, 1)
    at_hub = TopicFacts("orders", "h", 3, 1, max_message_bytes=MOST, **facts)
    return make_plan(
        config_of({"sync_configs": False, **topics}),
        Discovery({"eu": ClusterFacts("eu", "EU", 1, {"orders": at_source})}),
        ClusterFacts("hub", "HUB", 1, {"orders": at_hub}),
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


@pytest.mark.parametrize(
    ("topics", "rest", "why"),
    [
        ({"copy_as": "batches"}, {}, "topics.copy_as: batches needs partition_by"),
        ({**WANTED, "partition_by": "round_robin"}, {}, "needs partition_by"),
        ({**WANTED, "transform": "a:b"}, {}, "cannot be transformed"),
        ({**WANTED, "dedup": {"by": "key", "window": "1h"}}, {}, "no event is looked for"),
        (WANTED, {"stream": {"path": "objects"}}, "needs stream.path: bytes"),
        (WANTED, {"hub": {"known_as": ["other"]}}, "would let records of hub.known_as loop"),
        ({"overrides": {"a": {"copy_as": "batches"}}}, {}, "topics.overrides.a.copy_as"),
        (
            {**WANTED, "overrides": {"a": {"partition_by": "key"}}},
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
