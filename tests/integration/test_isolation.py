"""A source hangs under load: the others continue, it is named, and afterwards all is complete."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import Any

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
from support.running import catch_up, make_config, source
from support.silence import listening
from support.verdict import assert_copied

STEPS = 4
PARTITIONS = 4
PAUSED_SECONDS = 20.0
ASKED = ("api/overview", "api/sources/eu", "api/sources/us", "api/status", "api/lag", "metrics")
ANSWER_SECONDS = 1.0
LOG = logging.getLogger(__name__)


def state_of(url: str, alias: str) -> SourceState:
    """The state of a source, as the instance with this API shows it."""
    sources = ask("GET", f"{url}/api/status")[1]["sources"]
    return SourceState(next(each["state"] for each in sources if each["alias"] == alias))


def the_lane(url: str) -> dict[str, Any]:
    """The only lane of the instance with this API, which copies both sources."""
    (lane,) = ask("GET", f"{url}/api/status")[1]["lanes"]
    assert set(lane["clusters"]) == {"eu", "us"}
    return {"name": lane["name"], "generation": lane["generation"]}


def assert_answers_soon(url: str) -> None:
    took = {path: quickest(f"{url}/{path}", ANSWER_SECONDS).seconds for path in ASKED}
    LOG.warning("the API answers in %s", took)
    assert max(took.values()) < ANSWER_SECONDS, took


@pytest.mark.timeout(900)
def test_a_hung_source_stops_neither_the_others_of_its_lane_nor_the_api(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
) -> None:
    mute = cluster_factory("mute")
    create_topic(source_a.bootstrap_servers, unique, partitions=6)
    create_topic(mute.bootstrap_servers, unique, partitions=3)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    config = make_config(
        hub,
        tmp_path,
        {"eu": source(source_a, unique), "us": source(mute, unique)},
        topics={"partitions": PARTITIONS},
        supervision={"connect_timeout": "3s"},
        api={"listen": f"127.0.0.1:{port}"},
    )
    with (
        load([source_a, mute], unique),
        application(config, tmp_path / "app", again=True) as running,
    ):
        running.until_logged("running")
        copied = wait_until_topic_has(hub.bootstrap_servers, unique, 5_000)
        lane = the_lane(url)
        with listening(hub.bootstrap_servers, unique, PARTITIONS) as arrivals:
            wait_for(lambda: {"eu", "us"} <= arrivals.counts.keys(), "both are copied")
            mute.brokers[0].pause()
            paused_at = time.monotonic()
            try:
                # Over several checkpoints and refreshes of the other source.
                for _ in range(STEPS):
                    copied = wait_until_topic_has(hub.bootstrap_servers, unique, copied + 3_000)
                    assert_answers_soon(url)
                running.until(
                    lambda: state_of(url, "us") is SourceState.UNREACHABLE,
                    "the hung source is named",
                )
                assert state_of(url, "eu") is not SourceState.UNREACHABLE
                # The lane continues without it, for as long as it is away.
                wait_for(lambda: time.monotonic() - paused_at > PAUSED_SECONDS, "it is paused")
                seen = arrivals.records
                wait_for(lambda: arrivals.records > seen + 2_000, "the other continues")
            finally:
                mute.brokers[0].resume()
            silence = arrivals.silence("eu")
            LOG.warning("longest silence of the other source: %.1f s", silence)
            assert silence < PAUSED_SECONDS / 2
            heard = arrivals.counts["us"]
            wait_for(lambda: arrivals.counts["us"] > heard + 1_000, "it is back")
        running.until(
            lambda: state_of(url, "us") is not SourceState.UNREACHABLE, "that is shown as well"
        )
        assert the_lane(url) == lane
        running.terminate()
        running.until(lambda: not running.alive, "it has ended")
        assert running.exit_code == EXIT_DONE, running.text
    assert catch_up(config).exit_code == 0
    assert_copied(
        {"eu": (source_a.bootstrap_servers, unique), "us": (mute.bootstrap_servers, unique)},
        (hub.bootstrap_servers, unique),
        at_least=20_000,
    )
