"""`python -m bench.classes`: write the list of classes that a run with a recovery loads.

The list is what `aggregator/datapath/spark/class_archive.py` makes its archive from. Write it again
when Spark, the Kafka client or Delta change; a list that is out of date costs time at a start,
nothing else.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import yaml

from aggregator.datapath.spark.class_archive import CLASS_LIST
from aggregator.extras.embedded.cluster import EmbeddedCluster, start_clusters
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.topics import NewRecord, create_topic, end_offsets, produce
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import AggregatorError
from bench.job import Job
from bench.ours import settings as ours_settings
from bench.works import WORKS

TOPIC = "classes"
RECORDS = 5_000
SECONDS = 120.0


def main() -> int:
    """Write the list; 1 when a run does not do what it should."""
    with tempfile.TemporaryDirectory(prefix="classes-") as folder, ExitStack() as started:
        clusters = [EmbeddedCluster(name) for name in ("eu", "us", "hub")]
        start_clusters(clusters)
        for cluster in clusters:
            started.callback(cluster.stop)
        servers = {cluster.name: cluster.bootstrap_servers for cluster in clusters}
        for address in servers.values():
            create_topic(address, TOPIC, partitions=4)
        hub = servers.pop("hub")
        job = Job("classes", TOPIC, servers, hub, Path(folder), WORKS["copy-100"])
        lists = [Path(folder) / f"classes-{life}.txt" for life in range(2)]
        try:
            for life, loaded in enumerate(lists):
                _live(job, loaded, (life + 1) * RECORDS * len(servers), last=loaded == lists[-1])
        except AggregatorError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        lines = merged(loaded.read_text("utf-8") for loaded in lists)
    CLASS_LIST.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{len(lines)} lines: {CLASS_LIST}")
    return 0


def merged(lists: Iterable[str]) -> list[str]:
    """Every line once, in the order of the first list that has it; without comments."""
    lines = (line for text in lists for line in text.splitlines())
    # What is cut off is from a life that was killed.
    return list(dict.fromkeys(line for line in lines if line.strip() and not line.startswith("#")))


def _live(job: Job, loaded: Path, expected: int, *, last: bool) -> None:
    """One life of the application, killed at its end unless it is the last."""
    settings = ours_settings(job)
    conf = {"spark.driver.extraJavaOptions": f"-XX:DumpLoadedClassList={loaded} -Xshare:off"}
    settings["spark"] = {"conf": conf}
    settings["stream"] = {"checkpoint_interval": "3s"}
    file = job.folder / "aggregator.yaml"
    file.write_text(yaml.safe_dump(settings), "utf-8")
    for address in job.sources.values():
        produce(address, job.topic, [NewRecord(b"%d" % at, b"%d" % at) for at in range(RECORDS)])
    child = GuardedProcess(
        [sys.executable, "-m", "aggregator", "run", "-c", str(file)], job.folder / "tool.log"
    )
    try:
        wait_until(
            lambda: sum(end_offsets(job.hub, job.topic).values()) >= expected,
            seconds=SECONDS,
            what=f"the hub does not get {expected} records: see its log",
        )
        if last and not child.terminate(SECONDS):
            raise AggregatorError(f"it does not end within {SECONDS:g} s of SIGTERM")
    finally:
        if child.alive:
            child.kill()


if __name__ == "__main__":
    sys.exit(main())
