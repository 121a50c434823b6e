"""verify, tee and maintain under spark-submit, with two executors each, as the job beside them."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from aggregator.config.load import load
from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.stream.java import DRIVER
from support import archived, in_turn
from support.java_options import QUICK_START
from support.processes import processes
from support.reading import wait_for
from support.running import catch_up
from support.submitting import ROOT, SECONDS, submitted
from support.workers import EXECUTOR as EXECUTOR_CLASS

RECORDS = 2_000
LOOK_SECONDS = 1.0


def submit(jobs: list[list[str]], folder: Path) -> list[dict[str, Any]]:
    """The document that each job prints; all have to end well, and to have had two executors.

    They are submitted as one: each has a session, and so executors, of its own.
    """
    executors: set[int] = set()
    at_once = 0
    words = [[str(ROOT / "jobs" / job), *arguments, "-o", "json"] for job, *arguments in jobs]
    with submitted(in_turn.__file__, [json.dumps(words)], folder, slots=1, quick=True) as (
        process,
        log,
    ):

        def ended() -> bool:
            nonlocal at_once
            own = (it for it in processes() if it.group == process.pid)
            there = {it.pid for it in own if EXECUTOR_CLASS in it.command}
            executors.update(there)
            at_once = max(at_once, len(there))
            # They live for ten seconds at least, and to list all processes is work.
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_SECONDS)
            return process.poll() is not None

        wait_for(ended, "the jobs end", SECONDS)
        text = log.read_text()
        assert process.returncode == 0, text
    assert at_once >= 2, text
    assert len(executors) >= 2 * len(jobs), text
    starts = [found.end() - 2 for found in re.finditer(r"^\{\n", text, re.MULTILINE)]
    return [json.JSONDecoder().raw_decode(text, at)[0] for at in starts]


@pytest.mark.timeout(900)
def test_jobs_verify_land_and_maintain_by_executors(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=3)
    values = [b'{"n": %d}' % at for at in range(RECORDS)]
    produce(source_a.bootstrap_servers, unique, [NewRecord(value, value) for value in values])
    tree = {
        "hub": {"bootstrap_servers": hub.bootstrap_servers},
        "sources": {
            "eu": {"bootstrap_servers": source_a.bootstrap_servers, "topics": {"include": unique}}
        },
        "checkpoint": {"path": str(tmp_path / "state")},
        "tee": {"path": str(tmp_path / "tee"), "topics": {"include": unique}, "decode": True},
        "api": {"listen": "off"},
        "spark": {"conf": {DRIVER: QUICK_START, **archived.executors()}},
    }
    config = tmp_path / "aggregator.yaml"
    config.write_text(yaml.safe_dump(tree))
    assert catch_up(load(config)).exit_code == 0

    of = ["-c", str(config)]
    jobs = [["verify.py", *of], ["tee.py", *of, "--once"], ["maintain.py", *of]]
    verified, landed, done = submit(jobs, tmp_path / "jobs")
    assert (verified["totals"]["present"], verified["totals"]["missing"]) == (RECORDS, 0)
    assert [(it["records"], it["lag"], it["failing"]) for it in landed["topics"]] == [
        (RECORDS, 0, "")
    ]
    rows = DeltaTable(str(tmp_path / "tee" / unique)).to_pyarrow_table()
    assert sorted(row["n"] for row in rows["decoded"].to_pylist()) == list(range(RECORDS))
    assert {it["table"]: (it["done"], it["failed"]) for it in done["tables"]} == {
        "checkpoints": (True, ""),
        "history": (True, ""),
        "events": (True, ""),
        f"tee/{unique}": (True, ""),
    }
    # And the checkpoint is as good as before: nothing is copied again.
    assert catch_up(load(config)).exit_code == 0
    assert sum(end_offsets(hub.bootstrap_servers, unique).values()) == RECORDS
