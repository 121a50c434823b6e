"""The same job under spark-submit, with executors that are processes of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import yaml

from aggregator.config.render import to_yaml
from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, produce
from aggregator.stream.java import DRIVER, EXECUTOR
from support.java_options import QUICK_START
from support.load import records
from support.reading import read_topic, wait_for, wait_until_topic_has
from support.running import catch_up, make_config, source
from support.submitting import SECONDS, python_of, submitted
from support.verdict import assert_copied


def test_executors_copy_everything_once_in_both_modes(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": (source_a, 6), "us": (source_b, 3)}

    def write(start: int, end: int) -> None:
        records = [NewRecord(b"%d" % at, b"key-%d" % (at % 50)) for at in range(start, end)]
        for cluster, _ in clusters.values():
            produce(cluster.bootstrap_servers, unique, records)

    for cluster, partitions in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=partitions)
    tree = {
        "hub": {"bootstrap_servers": hub.bootstrap_servers},
        "sources": {
            alias: {
                "bootstrap_servers": cluster.bootstrap_servers,
                "topics": {"include": unique},
            }
            for alias, (cluster, _) in clusters.items()
        },
        "topics": {"partitions": 4},
        "stream": {"checkpoint_interval": "2s"},
        "checkpoint": {"path": str(tmp_path / "state")},
        "api": {"listen": "off"},
        "spark": {"conf": {DRIVER: QUICK_START, EXECUTOR: QUICK_START}},
    }
    config = tmp_path / "aggregator.yaml"
    config.write_text(yaml.safe_dump(tree))
    write(0, 5_000)
    with submitted(
        "aggregate.py", ["-c", str(config), "--until-caught-up"], tmp_path / "first"
    ) as (submit, log):
        assert submit.wait(SECONDS) == 0, log.read_text()
    with submitted("aggregate.py", ["-c", str(config)], tmp_path / "second") as (submit, log):
        wait_for(
            lambda: b'"event": "running"' in log.read_bytes() or submit.poll() is not None,
            "it runs",
            SECONDS,
        )
        assert submit.poll() is None, log.read_text()
        write(5_000, 10_000)
        wait_until_topic_has(hub.bootstrap_servers, unique, 20_000, SECONDS)
        os.kill(python_of(submit, "aggregate.py"), signal.SIGTERM)
        assert submit.wait(SECONDS) == 0, log.read_text()
    assert_copied(
        {alias: (cluster.bootstrap_servers, unique) for alias, (cluster, _) in clusters.items()},
        (hub.bootstrap_servers, unique),
        at_least=20_000,
    )


def test_a_job_backfills_what_was_left_out_and_nothing_else(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    produce(source_a.bootstrap_servers, unique, records(500))
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(source_a, unique, start="latest")},
        api={"listen": "off"},
        spark={"conf": {EXECUTOR: QUICK_START}},
    )
    assert catch_up(config).exit_code == 0
    file = tmp_path / "aggregator.yaml"
    file.write_text(to_yaml(config))
    # What comes now is the live flow's, which does not run.
    produce(source_a.bootstrap_servers, unique, records(100))
    arguments = ["-c", str(file), "--source", "eu", "--topic", unique, "-o", "json"]
    with submitted("backfill.py", arguments, tmp_path / "job") as (submit, log):
        assert submit.wait(SECONDS) == 0, log.read_text()
    assert sorted(it.value for it in read_topic(hub.bootstrap_servers, unique) if it.value) == (
        sorted(b"%d" % at for at in range(500))
    )
