"""The notebooks run from top to bottom against real clusters, and show what is in the hub."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.topics import NewRecord, create_topic, end_offsets, produce

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RECORDS = 300

# A run, and then a notebook with a Spark session of its own.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def config_file(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    unique: str,
    tmp_path: Path,
) -> Path:
    """A config whose two sources have been copied into the hub by one run."""
    for number, source in enumerate((source_a, source_b), 1):
        create_topic(source.bootstrap_servers, unique, partitions=number)
        records = [
            NewRecord(b"v%d" % n, b"k%d" % n, headers=[("own", b"1"), ("own", b"2")])
            for n in range(RECORDS)
        ]
        produce(source.bootstrap_servers, unique, records)
    file = tmp_path / "aggregator.yaml"
    file.write_text(f"""\
name: notebook
hub: {{bootstrap_servers: "{hub.bootstrap_servers}"}}
sources:
  a: {{bootstrap_servers: "{source_a.bootstrap_servers}", topics: {{include: "{unique}"}}}}
  b: {{bootstrap_servers: "{source_b.bootstrap_servers}", topics: {{include: "{unique}"}}}}
topics: {{partitions: 3}}
checkpoint: {{path: {tmp_path / "state"}}}
api: {{listen: "off"}}
""")
    command = [sys.executable, "-m", "aggregator", "run", "-c", str(file), "--until-caught-up"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert sum(end_offsets(hub.bootstrap_servers, unique).values()) == 2 * RECORDS
    return file


def test_explore_hub_runs_and_shows_origins_and_checkpoints(
    config_file: Path, tmp_path: Path, unique: str
) -> None:
    copy = Path(shutil.copy(NOTEBOOKS / "explore-hub.ipynb", tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "jupyter", "execute", "--inplace", "--timeout=240", str(copy)],
        capture_output=True,
        text=True,
        timeout=280,
        env={**os.environ, "AGGREGATOR_CONFIG": str(config_file)},
    )
    assert done.returncode == 0, done.stderr
    shown = [_output(cell) for cell in json.loads(copy.read_text("utf-8"))["cells"]]
    counted = next(text for text in shown if "distinct_origins" in text)
    for source in ("a", "b"):
        (row,) = (line for line in counted.splitlines() if line.startswith(f"|{source} "))
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells[:5] == [source, unique, unique, str(RECORDS), str(RECORDS)]
    copies = next(text for text in shown if "copies" in text)
    assert len(copies.strip().splitlines()) == 4, copies
    disorder = next(text for text in shown if "out_of_order" in text)
    assert disorder.splitlines()[3].strip("| ") == "0"
    positions = next(text for text in shown if "moved" in text)
    rows = [line.strip("|").split("|") for line in positions.splitlines() if unique in line]
    at = [int(row[3]) for row in rows]
    assert len(rows) == 3
    assert sum(at) == 2 * RECORDS


def _output(cell: dict[str, Any]) -> str:
    return "".join("".join(output.get("text", "")) for output in cell.get("outputs", []))
