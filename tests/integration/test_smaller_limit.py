"""A hub topic whose limit is lowered while records flow: batches that became too large for it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from support.changing import alter_topic
from support.reading import wait_until_topic_has
from support.running import make_config, run_in_background, source
from support.verdict import assert_copied

LIMIT = 20_000
RECORDS = [NewRecord(random.Random(it).randbytes(500) + b"x" * 500) for it in range(501)]
"""Half of each becomes smaller: a batch gathers more than it may have, and is still too large."""


@pytest.mark.timeout(300)
def test_a_batch_that_has_become_too_large_ends_its_lane_and_its_records_come_in_smaller_ones(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    for servers in (source_a.bootstrap_servers, hub.bootstrap_servers):
        create_topic(servers, unique)
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique)},
        hub={"producer": {"compression.type": "lz4"}},
        topics={"sync_configs": False},
        api={"listen": "off"},
    )
    with run_in_background(config) as running:
        produce(source_a.bootstrap_servers, unique, RECORDS[:1])
        wait_until_topic_has(hub.bootstrap_servers, unique, 1)
        alter_topic(hub.bootstrap_servers, unique, {"max.message.bytes": str(LIMIT)})
        produce(source_a.bootstrap_servers, unique, RECORDS[1:])
        wait_until_topic_has(hub.bootstrap_servers, unique, 501)
        failures = [it.message for it in running.events if it.kind == "lane_failed"]
    assert any("too large" in it for it in failures), failures
    where = {"eu": (source_a.bootstrap_servers, unique)}
    assert_copied(where, (hub.bootstrap_servers, unique), 501)
