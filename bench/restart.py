"""`python -m bench.restart`: start under load, kill -9, start again: seconds to the first record.

Two sources with 6 partitions each, a hub topic with 4, a steady load. The first start is clean, all
others recover. Each life is killed with -9 some seconds after its first record.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from aggregator.extras.embedded.cluster import EmbeddedCluster, start_clusters
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.topics import create_topic, end_offsets
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import AggregatorError
from bench.job import Job
from bench.load import Values, steady
from bench.ours import settings as ours_settings
from bench.usage import cpu_seconds, members
from bench.works import WORKS

TOPIC = "restart"
WORK = WORKS["kill"]
SECONDS = 120.0
ALIVE_SECONDS = 8.0
"""Longer than positions are committed, so that there is a checkpoint with a tail behind it."""
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Life:
    """Seconds from a start to the first record, and CPU seconds of all its processes until then."""

    recovers: bool
    first_record: float
    cpu: float


def measure(rate: float, kills: int) -> list[Life]:
    """One life more than kills; the first has nothing to recover."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="restart-")))
        clusters = [EmbeddedCluster(name) for name in ("eu", "us", "hub")]
        start_clusters(clusters)
        for cluster in clusters:
            stack.callback(cluster.stop)
        servers = {cluster.name: cluster.bootstrap_servers for cluster in clusters}
        hub = servers.pop("hub")
        for address in servers.values():
            create_topic(address, TOPIC, partitions=WORK.partitions)
        create_topic(hub, TOPIC, partitions=WORK.hub_partitions)
        job = Job("restart", TOPIC, servers, hub, folder, WORK)
        settings = ours_settings(job)
        settings["stream"] = {"checkpoint_interval": "5s"}
        (folder / "aggregator.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        stack.enter_context(steady(servers, TOPIC, rate, Values(WORK.size)))
        return [_life(job, recovers=number > 0) for number in range(kills + 1)]


def _life(job: Job, *, recovers: bool) -> Life:
    before = _held(job)
    began = time.monotonic()
    child = GuardedProcess(
        [sys.executable, "-m", "aggregator", "run", "-c", str(job.folder / "aggregator.yaml")],
        job.folder / "tool.log",
    )
    try:
        while _held(job) <= before:
            if time.monotonic() > began + SECONDS:
                raise AggregatorError(f"no record within {SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        life = Life(recovers, time.monotonic() - began, cpu_seconds(child.pid))
        end = time.monotonic() + ALIVE_SECONDS
        wait_until(lambda: time.monotonic() > end, seconds=SECONDS, what="time does not pass")
        return life
    finally:
        child.kill()
        wait_until(
            lambda: not members(child.pid), seconds=SECONDS, what="its JVM does not end after it"
        )


def _held(job: Job) -> int:
    return sum(end_offsets(job.hub, job.topic).values())


def to_markdown(lives: Sequence[Life], rate: float) -> str:
    """The page of one measurement."""
    lines = [
        "# Start and restart",
        "",
        f"Written by `python -m bench.restart` on {datetime.now(UTC):%Y-%m-%d}, on a machine with",
        f"{os.cpu_count()} cores: two sources with {WORK.partitions} partitions each, one hub of "
        f"one broker, {rate:g} records/s.",
        "Brokers and load share the cores. Killed with -9, then started again.",
        "",
        "| | lives | seconds to the first record, median | slowest | CPU seconds until then |",
        "|---|---|---|---|---|",
    ]
    for recovers, words in ((False, "a start"), (True, "a restart that recovers")):
        own = [life for life in lives if life.recovers is recovers]
        if own:
            seconds = [life.first_record for life in own]
            cpu = statistics.median(life.cpu for life in own)
            lines.append(
                f"| {words} | {len(own)} | {statistics.median(seconds):.1f} "
                f"| {max(seconds):.1f} | {cpu:.1f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.restart", description=__doc__)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--rate", type=float, default=2_000.0, help="records/s in all")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder")
    given = parser.parse_args()
    page = given.out / f"{datetime.now(UTC):%Y-%m-%d}-start-and-restart.md"
    page.write_text(to_markdown(measure(given.rate, given.kills), given.rate), "utf-8")
    print(f"written: {page}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
