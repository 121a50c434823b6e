"""What a hub's leader holds above its high watermark when the instance dies: it comes once."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import create_topic
from faults.clusters import ProxiedHub
from support.application import application
from support.load import load
from support.reading import SECONDS, wait_until_topic_has
from support.running import make_config, source
from support.verdict import assert_copied

UNSEEN = 1_000
"""So many records come after replication has ended: those that were sent are not acknowledged."""
LAG_MS = "120000"
"""Longer than all of it takes: no replica is given up by itself."""


@pytest.mark.timeout(600)
def test_what_a_leader_holds_that_no_replica_has_is_waited_for_and_not_written_again(
    source_a: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    hub = ProxiedHub(2, config={"replica.lag.time.max.ms": LAG_MS})
    with hub:
        create_topic(hub.admin_servers, unique, partitions=2, config={"min.insync.replicas": "1"})
        config = make_config(
            hub, tmp_path / "state", {"eu": source(source_a, unique)}, api={"listen": "off"}
        )
        with load([source_a], unique), application(config, tmp_path) as first:
            wait_until_topic_has(hub.admin_servers, unique, 2_000)
            for proxy in hub.inner:
                proxy.cut()
            seen = wait_until_topic_has(source_a.bootstrap_servers, unique, 1)
            wait_until_topic_has(source_a.bootstrap_servers, unique, seen + UNSEEN)
            first.kill()
            first.wait_gone()
        with application(config, tmp_path, arguments=["--until-caught-up"]) as second:
            second.until(
                lambda: (
                    second.has_logged("hub_not_replicated") or second.has_logged("lane_started")
                ),
                "it waits for the hub, or has begun without",
            )
            for proxy in hub.inner:
                proxy.heal()
            assert second.wait(SECONDS), second.text
            assert second.exit_code == 0, second.text
            told = [event["event"] for event in second.events()]
        assert_copied(
            {"eu": (source_a.bootstrap_servers, unique)}, (hub.admin_servers, unique), 2_000
        )
    assert "hub_not_replicated" in told
