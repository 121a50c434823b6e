"""A source that refuses our login while it runs: named as such, others continue, all arrives."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.model.values import SourceState
from support.clusters import ClusterFactory
from support.load import load
from support.locked import CLIENT, PASSWORD, USER, change_password
from support.reading import read_topic, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source

RECORDS = 500


@pytest.fixture(scope="module")
def locked(lasting_clusters: ClusterFactory) -> EmbeddedCluster:
    """One whose password each test changes, and changes back."""
    return lasting_clusters("locked", sasl_users={USER: PASSWORD})


@pytest.mark.timeout(900)
@pytest.mark.parametrize("lanes", ["source", "auto"], ids=["own lanes", "shared lane"])
def test_a_refused_login_is_named_and_hurts_no_other_source(
    source_a: EmbeddedCluster,
    hub: EmbeddedCluster,
    locked: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
    lanes: str,
) -> None:
    client = locked.client_config(USER)
    create_topic(locked.bootstrap_servers, unique, client=client)
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    config = make_config(
        hub,
        tmp_path,
        {"eu": source(source_a, unique), "us": source(locked, unique, kafka=CLIENT)},
        stream={"lanes": lanes},
        api={"listen": "off"},
    )

    def write(first: int) -> None:
        records = [NewRecord(b"%d" % at, b"k") for at in range(first, first + RECORDS)]
        produce(locked.bootstrap_servers, unique, records, client=client)

    def state_of_us() -> tuple[SourceState, str]:
        (us,) = [it for it in running.status.sources if it.alias == "us"]
        return us.state, us.reason

    write(0)
    with run_in_background(config) as running:
        copied = wait_until_topic_has(hub.bootstrap_servers, unique, RECORDS)
        with load([source_a], unique, 500):
            change_password(locked, PASSWORD, "second")
            running.wait_for(
                lambda: (
                    state_of_us()[0] is SourceState.UNREACHABLE
                    and "uthentication" in state_of_us()[1]
                ),
                "the refused login is named",
            )
            copied = wait_until_topic_has(hub.bootstrap_servers, unique, copied + 5_000)
            change_password(locked, "second", PASSWORD)
            write(RECORDS)
            running.wait_for(
                lambda: state_of_us()[0] is not SourceState.UNREACHABLE, "the source is back"
            )
    assert PASSWORD not in str(running.events)
    assert catch_up(config).exit_code == 0
    values = [
        record.value
        for record in read_topic(hub.bootstrap_servers, unique)
        if ("origin.cluster", b"us") in record.headers
    ]
    assert values == [b"%d" % at for at in range(2 * RECORDS)]
