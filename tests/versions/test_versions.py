"""Brokers of other versions as a source and as the hub: the same, also after a kill.

`make test-versions` runs it; the newest version is what all other tests run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.discover import HUB
from aggregator.discover.check import check_cluster
from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import create_topic
from aggregator.jars import fetched
from aggregator.jars.lock import parse_lock
from support.application import QUICK_START, Application, application
from support.load import load
from support.reading import wait_until_topic_has
from support.running import make_config, source
from support.verdict import assert_copied

LOCK = parse_lock((Path(__file__).parent / "jars.toml").read_text("utf-8"))
RECORDS = 3_000
NOT_IDEMPOTENT = "kafka-2.8"
"""Without ZooKeeper, which was early access then: it gives no producer its id."""


@pytest.fixture(scope="module", params=[it for it in LOCK if it != NOT_IDEMPOTENT])
def older(request: pytest.FixtureRequest) -> Iterator[EmbeddedCluster]:
    """A cluster of that version."""
    version: str = request.param
    files = fetched(version, LOCK[version])
    with EmbeddedCluster(version.replace(".", "-"), class_path=files) as cluster:
        yield cluster


def copied(
    reads: EmbeddedCluster,
    writes: EmbeddedCluster,
    topic: str,
    folder: Path,
) -> None:
    """Copy a topic under load, killed once in the midst of it, and stopped cleanly at the end."""
    create_topic(reads.bootstrap_servers, topic, partitions=3)
    config = make_config(
        writes,
        folder / "state",
        {"eu": source(reads, topic)},
        topics={"partitions": 2},
        spark={"conf": {"spark.driver.extraJavaOptions": QUICK_START}},
        api={"listen": "off"},
    )

    def arrived(app: Application, count: int) -> None:
        app.until(
            lambda: wait_until_topic_has(writes.bootstrap_servers, topic, 0) >= count,
            f"{count} records are in the hub",
        )

    with load([reads], topic):
        with application(config, folder) as first:
            first.until_logged("running")
            arrived(first, RECORDS)
            first.kill()
            assert first.wait_gone()
        with application(config, folder) as second:
            second.until_logged("running")
            assert second.has_logged("recovered")
            arrived(second, 2 * RECORDS)
            second.terminate()
            second.until(lambda: not second.alive, "it has ended")
            assert second.exit_code == 0, second.text
    with application(config, folder, arguments=("--until-caught-up",)) as last:
        last.until(lambda: not last.alive, "it has caught up")
        assert last.exit_code == 0, last.text
    assert_copied(
        {"eu": (reads.bootstrap_servers, topic)}, (writes.bootstrap_servers, topic), 2 * RECORDS
    )


@pytest.mark.timeout(600)
def test_it_is_read(
    older: EmbeddedCluster, hub: EmbeddedCluster, unique: str, tmp_path: Path
) -> None:
    copied(older, hub, unique.replace(".", "-"), tmp_path)


@pytest.mark.timeout(600)
def test_it_is_written(
    older: EmbeddedCluster, source_a: EmbeddedCluster, unique: str, tmp_path: Path
) -> None:
    copied(source_a, older, unique.replace(".", "-"), tmp_path)


@pytest.mark.timeout(300)
def test_one_that_gives_no_producer_its_id_is_told_by_check(
    source_a: EmbeddedCluster, unique: str, tmp_path: Path
) -> None:
    topic = unique.replace(".", "-")
    create_topic(source_a.bootstrap_servers, topic)
    files = fetched(NOT_IDEMPOTENT, LOCK[NOT_IDEMPOTENT])
    with EmbeddedCluster("early", class_path=files) as hub:
        config = make_config(hub, tmp_path / "state", {"eu": source(source_a, topic)})
        found = check_cluster(config, HUB, 20.0)
    (told,) = [it for it in found if it.name == "idempotent producers"]
    assert not told.ok
    assert "idempotent" in told.detail.lower()
    assert "3.0" in told.hint
