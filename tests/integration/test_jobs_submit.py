"""verify, tee and maintain under spark-submit, with two executors, as the job beside them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable

from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.stream.java import DRIVER, EXECUTOR
from support.application import QUICK_START
from support.processes import processes
from support.reading import wait_for
from support.submitting import SECONDS, submitted
from support.workers import EXECUTOR as EXECUTOR_CLASS

RECORDS = 2_000


def submit(job: str, arguments: list[str], folder: Path) -> dict[str, Any]:
    """The document that a job prints; it has to end well, and to have had two executors."""
    executors = 0
    with submitted(job, [*arguments, "-o", "json"], folder, slots=1) as (process, log):

        def ended() -> bool:
            nonlocal executors
            own = (it for it in processes() if it.group == process.pid)
            executors = max(executors, sum(EXECUTOR_CLASS in it.command for it in own))
            return process.poll() is not None

        wait_for(ended, f"{job} ends")
        text = log.read_text()
        assert process.returncode == 0, text
    assert executors >= 2, text
    document: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index("\n{\n") + 1 :])[0]
    return document


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
        "spark": {"conf": {DRIVER: QUICK_START, EXECUTOR: QUICK_START}},
    }
    config = tmp_path / "aggregator.yaml"
    config.write_text(yaml.safe_dump(tree))
    run = [sys.executable, "-m", "aggregator", "run", "-c", str(config), "--until-caught-up"]
    subprocess.run(run, check=True, timeout=SECONDS)

    verified = submit("verify.py", ["-c", str(config)], tmp_path / "verify")
    assert (verified["totals"]["present"], verified["totals"]["missing"]) == (RECORDS, 0)

    landed = submit("tee.py", ["-c", str(config), "--once"], tmp_path / "landing")
    assert [(it["records"], it["lag"], it["failing"]) for it in landed["topics"]] == [
        (RECORDS, 0, "")
    ]
    rows = DeltaTable(str(tmp_path / "tee" / unique)).to_pyarrow_table()
    assert sorted(row["n"] for row in rows["decoded"].to_pylist()) == list(range(RECORDS))

    done = submit("maintain.py", ["-c", str(config)], tmp_path / "maintain")
    assert {it["table"]: (it["done"], it["failed"]) for it in done["tables"]} == {
        "checkpoints": (True, ""),
        "history": (True, ""),
        "events": (True, ""),
        f"tee/{unique}": (True, ""),
    }
    # And the checkpoint is as good as before: nothing is copied again.
    subprocess.run(run, check=True, timeout=SECONDS)
    assert sum(end_offsets(hub.bootstrap_servers, unique).values()) == RECORDS
