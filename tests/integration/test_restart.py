"""Stopped and started again under load: nothing is missing, nothing is there twice."""

from __future__ import annotations

from pathlib import Path

from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import create_topic, end_offsets
from support.load import load
from support.reading import wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.verdict import assert_copied


def test_three_restarts_under_load_lose_nothing_and_double_nothing(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": source_a, "us": source_b}
    create_topic(source_a.bootstrap_servers, unique, partitions=6)
    create_topic(source_b.bootstrap_servers, unique, partitions=3)
    config = make_config(
        hub,
        tmp_path,
        {alias: source(cluster, unique) for alias, cluster in clusters.items()},
        topics={"partitions": 4},
    )
    epochs = []
    with load(list(clusters.values()), unique):
        # The first one is stopped as soon as it says that it runs, before its first checkpoint.
        for commits in (0, 2, 1, 0):
            with run_in_background(config) as running:
                begun = running.status.checkpoint.seq or 0
                if commits:
                    arrived = sum(end_offsets(hub.bootstrap_servers, unique).values())
                    wait_until_topic_has(hub.bootstrap_servers, unique, arrived + 1000)
                running.wait_for(
                    lambda running=running, to=begun + commits: (  # type: ignore[misc]
                        (running.status.checkpoint.seq or 0) >= to
                    ),
                    f"{commits} checkpoints are committed",
                )
                assert running.status.recovery is None
            assert running.status.recovery is None
            epochs.append(running.status.checkpoint.epoch or 0)
    assert epochs == sorted(set(epochs))
    result = catch_up(config)
    assert (result.exit_code, result.problems) == (0, ())
    assert result.status.recovery is None
    assert_copied(
        {alias: (cluster.bootstrap_servers, unique) for alias, cluster in clusters.items()},
        (hub.bootstrap_servers, unique),
        at_least=2000,
    )
