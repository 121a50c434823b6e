"""The empty query that ends a batch each second while a run is young."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, produce
from aggregator.stream.rehearsal import NAME
from support.reading import wait_until_topic_has
from support.running import Run, make_config, run_in_background, source
from support.verdict import assert_copied

RECORDS = [NewRecord(b"%d" % at, b"%d" % at) for at in range(300)]


def batches() -> int | None:
    """How many batches of the rehearsal are told; None when it does not run.

    To be asked when the session is there.
    """
    active = SparkSession.builder.getOrCreate().streams.active
    found = [query for query in active if query.name == NAME]
    progress = found[0].lastProgress if found else None
    return None if not found else 0 if progress is None else int(progress.batchId)


def wait_for_batches(running: Run, number: int) -> None:
    running.wait_for(lambda: "running" in running.kinds(), "it runs")
    running.wait_for(lambda: (batches() or 0) >= number, "it has ended batches")


def test_it_ends_batches_reads_what_the_lanes_write_and_adds_nothing(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    produce(source_a.bootstrap_servers, unique, RECORDS)
    eu = {"eu": source(source_a, unique)}
    config = make_config(hub, tmp_path, eu, stream={"rehearsal": "10s"})
    with run_in_background(config) as running:
        wait_for_batches(running, 2)
        produce(source_a.bootstrap_servers, unique, RECORDS)
        wait_until_topic_has(hub.bootstrap_servers, unique, 2 * len(RECORDS))
        running.wait_for(lambda: batches() is None, "it is over")
        produce(source_a.bootstrap_servers, unique, RECORDS)
        wait_until_topic_has(hub.bootstrap_servers, unique, 3 * len(RECORDS))
        assert "rehearsal_failed" not in running.kinds()
    assert_copied(
        {"eu": (source_a.bootstrap_servers, unique)},
        (hub.bootstrap_servers, unique),
        at_least=3 * len(RECORDS),
    )


def test_a_run_that_is_stopped_while_it_rehearses_ends_cleanly(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    eu = {"eu": source(source_a, unique)}
    with run_in_background(make_config(hub, tmp_path, eu, stream={"rehearsal": "1h"})) as running:
        wait_for_batches(running, 1)
    assert running.result is not None
    assert (running.result.exit_code, running.result.problems) == (0, ())
    assert "rehearsal_failed" not in running.kinds()


def test_one_that_cannot_be_is_told_and_the_run_goes_on(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique)
    config = make_config(
        hub,
        tmp_path,
        {"eu": source(source_a, unique)},
        stream={"rehearsal": "1h", "checkpoint_interval": "8s"},
        spark={"conf": {"spark.sql.streaming.realTimeMode.minBatchDuration": "5000"}},
    )
    with run_in_background(config) as running:
        running.wait_for(lambda: "rehearsal_failed" in running.kinds(), "it is told")
        produce(source_a.bootstrap_servers, unique, RECORDS)
        wait_until_topic_has(hub.bootstrap_servers, unique, len(RECORDS))
