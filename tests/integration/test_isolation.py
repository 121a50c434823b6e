"""A source that hangs under load: the others go on, it is named, and afterwards all is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.audit.document import SourceState, Status
from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import create_topic
from support.clusters import ClusterFactory
from support.load import load
from support.reading import wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import assert_copied

STEPS = 4


@pytest.mark.timeout(600)
def test_a_hung_source_does_not_stop_the_others(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
) -> None:
    mute = cluster_factory("mute")
    create_topic(source_a.bootstrap_servers, unique, partitions=6)
    create_topic(mute.bootstrap_servers, unique, partitions=3)
    config = make_config(
        hub,
        tmp_path,
        {"eu": source(source_a, unique), "us": source(mute, unique)},
        topics={"partitions": 4},
        supervision={"connect_timeout": "3s"},
        api={"listen": "off"},
    )

    def state_of(status: Status, alias: str) -> SourceState:
        return next(each.state for each in status.sources if each.alias == alias)

    with load([mute], unique), run_in_background(config) as running:
        copied = wait_until_topic_has(hub.bootstrap_servers, unique, 1_000)
        with load([source_a], unique):
            copied = wait_until_topic_has(hub.bootstrap_servers, unique, copied + 2_000)
            mute.brokers[0].pause()
            try:
                # Over several batches and refreshes of the other source.
                for _ in range(STEPS):
                    copied = wait_until_topic_has(hub.bootstrap_servers, unique, copied + 3_000)
                running.wait_for(
                    lambda: state_of(running.status, "us") is SourceState.UNREACHABLE,
                    "the hung source is named",
                )
                assert state_of(running.status, "eu") is not SourceState.UNREACHABLE
            finally:
                mute.brokers[0].resume()
            running.wait_for(
                lambda: state_of(running.status, "us") is not SourceState.UNREACHABLE,
                "the source is back",
            )
    assert catch_up(config).exit_code == 0
    assert_copied(
        {"eu": (source_a.bootstrap_servers, unique), "us": (mute.bootstrap_servers, unique)},
        (hub.bootstrap_servers, unique),
        at_least=STEPS * 3_000,
    )
