"""Data folders of new brokers: Kafka's tool makes the first of each version, others are its copies.

The tool is a Java of its own, which takes a third as much CPU as a broker's whole start. All that
it writes is which features the version has, and the ids of the cluster, the node and the folder.
"""

import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.extras.embedded.broker_settings import new_kafka_id, render_properties
from aggregator.model.errors import ClusterError

META = "meta.properties"


@dataclass(frozen=True, slots=True)
class EmptyNodeFolder:
    """The folder of a node that has no data yet: `server.properties` is there, `data` is not."""

    node: int
    home: Path


@dataclass(slots=True)
class _Made:
    """What the tool of one version has made: the files beside the ids; None until it has."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    features: dict[str, bytes] | None = None


_made: dict[tuple[str, ...], _Made] = {}
"""By what runs the tool: the jars in there are those of one version."""


def format_homes(java: Sequence[str], cluster_id: str, homes: Sequence[EmptyNodeFolder]) -> None:
    """Give each of them a data folder that belongs to the cluster.

    `java` runs a class of the brokers' jars. ClusterError with what the tool said when it fails.
    """
    left = list(homes)
    made = _made.setdefault(tuple(java), _Made())
    with made.lock:
        if left and made.features is None:
            data = _run_tool(java, cluster_id, left.pop(0).home)
            # Kafka 4.4 writes them into the folder of the metadata log.
            made.features = {
                str(file.relative_to(data)): file.read_bytes()
                for file in data.rglob("*")
                if file.is_file() and file.name != META
            }
    for new in left:
        _copy(cluster_id, new, made.features or {})


def stored_cluster_id(home: Path) -> str:
    """The id of the cluster that the data folder in `home` belongs to; empty when there is none."""
    meta = home / "data" / META
    if not meta.exists():
        return ""
    lines = meta.read_text("utf-8").splitlines()
    return next(
        (line[len("cluster.id=") :] for line in lines if line.startswith("cluster.id=")), ""
    )


def _run_tool(java: Sequence[str], cluster_id: str, home: Path) -> Path:
    tool = [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c"]
    done = subprocess.run(
        [*tool, str(home / "server.properties")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(f"cannot format {home}:\n{done.stdout}")
    return home / "data"


def _copy(cluster_id: str, new: EmptyNodeFolder, features: Mapping[str, bytes]) -> None:
    data = new.home / "data"
    data.mkdir()
    for name, content in features.items():
        file = data / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    ids = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(new.node),
        "directory.id": new_kafka_id(),
    }
    (data / META).write_text(render_properties(ids), "utf-8")
