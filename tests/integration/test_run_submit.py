"""The jobs under spark-submit, with executors that are processes of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from aggregator.datapath.spark.java_options import DRIVER, EXECUTOR
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from support import archived, in_turn
from support.java_options import QUICK_START
from support.load import records
from support.processes import processes
from support.reading import read_topic, wait_for, wait_until_topic_has
from support.submitting import ROOT, SECONDS, python_of, submitted
from support.verdict import assert_copied
from support.workers import EXECUTOR as EXECUTOR_CLASS

RECORDS = 5_000
LEFT_OUT, LATER = 500, 100
"""Records of a source that is read from its end: before it is read, and after."""
PRODUCE = """\
from aggregator.extras.embedded.topics import NewRecord, produce
produce({servers!r}, {topic!r}, [NewRecord(b"%d" % at) for at in range({count})])
"""
"""A program that writes `count` records."""
LOOK_SECONDS = 1.0


def submit(jobs: list[list[str]], folder: Path) -> list[dict[str, Any]]:
    """The documents that the jobs print; all have to end well, and to have had two executors.

    They are submitted as one: each has a session, and so executors, of its own.
    """
    executors: set[int] = set()
    at_once = 0
    with submitted(in_turn.__file__, [json.dumps(jobs)], folder, quick=True) as (process, log):

        def ended() -> bool:
            nonlocal at_once
            own = (it for it in processes() if it.group == process.pid)
            there = {it.pid for it in own if EXECUTOR_CLASS in it.command}
            executors.update(there)
            at_once = max(at_once, len(there))
            # They live for seconds, and to list all processes is work.
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
            return process.poll() is not None

        wait_for(ended, "the jobs end", SECONDS)
        text = log.read_text()
        assert process.returncode == 0, text
    assert at_once >= 2, text
    of_spark = [file for file, *_ in jobs if Path(file).parent == ROOT / "jobs"]
    assert len(executors) >= 2 * len(of_spark), text
    starts = [found.end() - 2 for found in re.finditer(r"^\{\n", text, re.MULTILINE)]
    return [json.JSONDecoder().raw_decode(text, at)[0] for at in starts]


@pytest.mark.timeout(900)
def test_executors_do_all_jobs_and_each_record_is_there_once_in_both_modes(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    clusters = {"eu": (source_a, 6), "us": (source_b, 3)}
    late = f"{unique}-late"

    def write(start: int, end: int) -> None:
        values = [b'{"n": %d}' % at for at in range(start, end)]
        new = [NewRecord(it, b"key-%d" % (at % 50)) for at, it in enumerate(values)]
        for cluster, _ in clusters.values():
            produce(cluster.bootstrap_servers, unique, new)

    def config_with(name: str, conf: dict[str, str]) -> Path:
        sources: dict[str, Any] = {
            alias: {"bootstrap_servers": it.bootstrap_servers, "topics": {"include": unique}}
            for alias, (it, _) in clusters.items()
        }
        sources["late"] = {
            "bootstrap_servers": source_b.bootstrap_servers,
            "topics": {"include": late},
            "start": "latest",
        }
        tree = {
            "hub": {"bootstrap_servers": hub.bootstrap_servers},
            "sources": sources,
            "topics": {"partitions": 4},
            "stream": {"checkpoint_interval": "2s"},
            "checkpoint": {"path": str(tmp_path / "state")},
            "tee": {
                "path": str(tmp_path / "tee"),
                "topics": {"include": unique},
                "decode": True,
                "run": "alone",
            },
            "api": {"listen": "off"},
            "spark": {"conf": {DRIVER: QUICK_START, **conf}},
        }
        file = tmp_path / name
        file.write_text(yaml.safe_dump(tree))
        return file

    for cluster, partitions in clusters.values():
        create_topic(cluster.bootstrap_servers, unique, partitions=partitions)
    create_topic(source_b.bootstrap_servers, late, partitions=2)
    write(0, RECORDS)
    produce(source_b.bootstrap_servers, late, records(LEFT_OUT))
    # What comes once the first job is done is the live flow's, and not the backfill's.
    more = tmp_path / "more.py"
    more.write_text(PRODUCE.format(servers=source_b.bootstrap_servers, topic=late, count=LATER))

    quick = ["-c", str(config_with("quick.yaml", archived.executors()))]
    job = {it.stem: str(it) for it in (ROOT / "jobs").glob("*.py")}
    _, landed, verified, done = submit(
        [
            [job["aggregate"], *quick, "--until-caught-up"],
            [str(more)],
            [job["backfill"], *quick, "--source", "late", "--topic", late, "-o", "json"],
            [job["tee"], *quick, "--once", "-o", "json"],
            [job["verify"], *quick, "-o", "json"],
            [job["maintain"], *quick, "-o", "json"],
        ],
        tmp_path / "jobs",
    )
    assert [(it["records"], it["lag"], it["failing"]) for it in landed["topics"]] == [
        (2 * RECORDS, 0, "")
    ]
    rows = DeltaTable(str(tmp_path / "tee" / unique)).to_pyarrow_table()
    numbers = sorted(row["n"] for row in rows["decoded"].to_pylist())
    assert numbers == sorted([*range(RECORDS)] * 2)
    totals = verified["totals"]
    assert (totals["present"], totals["missing"]) == (2 * RECORDS + LEFT_OUT, 0)
    kept = {it["table"]: (it["done"], it["failed"]) for it in done["tables"]}
    assert set(kept.values()) == {(True, "")}, kept
    tables = {"checkpoints", "history", "events", "topics", "backfills", "audits", f"tee/{unique}"}
    assert kept.keys() - {"completeness"} == tables
    assert sorted(it.value for it in read_topic(hub.bootstrap_servers, late) if it.value) == (
        sorted(b"%d" % at for at in range(LEFT_OUT))
    )

    # These have our classes as a user's have them.
    file = config_with("aggregator.yaml", {EXECUTOR: QUICK_START})
    with submitted("aggregate.py", ["-c", str(file)], tmp_path / "run") as (process, log):
        wait_for(
            lambda: b'"event": "running"' in log.read_bytes() or process.poll() is not None,
            "it runs",
            SECONDS,
        )
        assert process.poll() is None, log.read_text()
        write(RECORDS, 2 * RECORDS)
        wait_until_topic_has(hub.bootstrap_servers, unique, 4 * RECORDS, SECONDS)
        wait_until_topic_has(hub.bootstrap_servers, late, LEFT_OUT + LATER, SECONDS)
        os.kill(python_of(process, "aggregate.py"), signal.SIGTERM)
        assert process.wait(SECONDS) == 0, log.read_text()
    assert_copied(
        {alias: (cluster.bootstrap_servers, unique) for alias, (cluster, _) in clusters.items()},
        (hub.bootstrap_servers, unique),
        at_least=4 * RECORDS,
    )
    assert_copied(
        {"late": (source_b.bootstrap_servers, late)},
        (hub.bootstrap_servers, late),
        at_least=LEFT_OUT + LATER,
    )
