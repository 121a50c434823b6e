"""A source that hangs under load: the others go on, it is named, and afterwards all is complete."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import create_topic
from aggregator.model.errors import EXIT_DONE
from aggregator.model.values import SourceState
from support.application import application
from support.clusters import ClusterFactory
from support.load import load
from support.reading import wait_for, wait_until_topic_has
from support.rest import ask, quickest
from support.running import catch_up, make_config, run_in_background, source
from support.silence import listening
from support.verdict import assert_copied

STEPS = 4
PAUSED_SECONDS = 20.0
ASKED = ("api/overview", "api/sources/eu", "api/sources/us", "api/status", "api/lag", "metrics")
ANSWER_SECONDS = 1.0
LOG = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def mute(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    """One that each test freezes for a while."""
    return lasting_clusters("mute")


@pytest.mark.timeout(900)
def test_a_hung_source_stops_neither_the_others_nor_the_api(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    mute: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=6)
    create_topic(mute.bootstrap_servers, unique, partitions=3)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    config = make_config(
        hub,
        tmp_path,
        {"eu": source(source_a, unique), "us": source(mute, unique)},
        topics={"partitions": 4},
        supervision={"connect_timeout": "3s"},
        api={"listen": f"127.0.0.1:{port}"},
    )

    def state_of(alias: str) -> SourceState:
        told = ask("GET", f"{url}/api/status")[1]["sources"]
        return SourceState(next(each["state"] for each in told if each["alias"] == alias))

    with (
        load([mute], unique),
        application(config, tmp_path / "app", again=True) as running,
    ):
        running.until_logged("running")
        copied = wait_until_topic_has(hub.bootstrap_servers, unique, 1_000)
        with load([source_a], unique):
            copied = wait_until_topic_has(hub.bootstrap_servers, unique, copied + 2_000)
            mute.brokers[0].pause()
            try:
                # Over several checkpoints and refreshes of the other source.
                for _ in range(STEPS):
                    copied = wait_until_topic_has(hub.bootstrap_servers, unique, copied + 3_000)
                    took = {
                        path: quickest(f"{url}/{path}", ANSWER_SECONDS).seconds for path in ASKED
                    }
                    LOG.warning("the API answers in %s", took)
                    assert max(took.values()) < ANSWER_SECONDS, took
                running.until(
                    lambda: state_of("us") is SourceState.UNREACHABLE, "the hung source is named"
                )
                assert state_of("eu") is not SourceState.UNREACHABLE
            finally:
                mute.brokers[0].resume()
            running.until(
                lambda: state_of("us") is not SourceState.UNREACHABLE, "the source is back"
            )
        running.terminate()
        running.until(lambda: not running.alive, "it has ended")
        assert running.exit_code == EXIT_DONE, running.text
    assert catch_up(config).exit_code == 0
    assert_copied(
        {"eu": (source_a.bootstrap_servers, unique), "us": (mute.bootstrap_servers, unique)},
        (hub.bootstrap_servers, unique),
        at_least=STEPS * 3_000,
    )


@pytest.mark.timeout(900)
def test_a_hung_source_silences_nobody_with_whom_it_shares_a_lane(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    mute: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=4)
    create_topic(mute.bootstrap_servers, unique, partitions=2)
    config = make_config(
        hub,
        tmp_path,
        {"eu": source(source_a, unique), "us": source(mute, unique)},
        topics={"partitions": 4},
        supervision={"connect_timeout": "3s"},
        api={"listen": "off"},
    )

    def lane_of(alias: str) -> set[str]:
        parts = running.status.partitions
        return {part.lane for part in parts if part.cluster == alias and part.lane}

    with load([source_a, mute], unique), run_in_background(config) as running:
        wait_until_topic_has(hub.bootstrap_servers, unique, 5_000)
        assert lane_of("eu") == lane_of("us") == {"union"}
        (before,) = running.status.lanes
        with listening(hub.bootstrap_servers, unique, 4) as arrivals:
            mute.brokers[0].pause()
            paused_at = time.monotonic()
            try:
                # The lane goes on without it, for as long as it is away.
                wait_for(lambda: time.monotonic() - paused_at > PAUSED_SECONDS, "it is paused")
                seen = arrivals.records
                wait_for(lambda: arrivals.records > seen + 2_000, "the other goes on")
            finally:
                mute.brokers[0].resume()
            silence = arrivals.silence("eu")
            LOG.warning("longest silence of the other source: %.1f s", silence)
            assert silence < PAUSED_SECONDS / 2
            heard = arrivals.counts["us"]
            wait_for(lambda: arrivals.counts["us"] > heard + 1_000, "it is back")
        (after,) = running.status.lanes
        assert (after.name, after.generation) == (before.name, before.generation)
    assert catch_up(config).exit_code == 0
    assert_copied(
        {"eu": (source_a.bootstrap_servers, unique), "us": (mute.bootstrap_servers, unique)},
        (hub.bootstrap_servers, unique),
        at_least=20_000,
    )
