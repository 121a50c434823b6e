"""Brokers of tests start from an archive of their classes, as a run's Java does: half the CPU.

It is made once, from what a broker has loaded that was used a little, and kept in the cache of the
jars. It belongs to one Java and these jars; Java itself refuses one that does not fit.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from aggregator.datapath.jars import cache_folder, jars, java_command
from aggregator.datapath.spark.java_options import COMPILER
from aggregator.extras.embedded.cluster import JAVA_OPTIONS, EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from support.java_options import QUICK_ONLY
from support.read_all import read_all

QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
DUMP_SECONDS = 300


@cache
def broker_options() -> tuple[str, ...]:
    """The options of a broker's Java, for `EmbeddedCluster`; the first who asks makes the archive.

    Safe to call from several processes at once.
    """
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"broker-{_identity()}.jsa"
    with (folder / ".broker-classes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _make(archive)
    return (*JAVA_OPTIONS, f"-XX:SharedArchiveFile={archive}", *QUIET)


def lasting_options() -> tuple[str, ...]:
    """The same for a broker that serves all tests: the optimising compiler pays after minutes.

    A hundred requests a second then take two thirds of the CPU. As late as in a run it takes
    another third less in the first minutes.
    """
    options = [*broker_options()]
    options.remove(QUICK_ONLY)
    return (*options, *COMPILER.split())


def _identity() -> str:
    """One Java, and the jars by all that Java compares."""
    stamps = [f"{path} {path.stat().st_size} {path.stat().st_mtime}" for path in jars("broker")]
    java = Path(java_command()).resolve()
    said = "\n".join([f"{java} {java.stat().st_mtime}", *JAVA_OPTIONS, *stamps])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def _make(archive: Path) -> None:
    for old in archive.parent.glob("broker-*.jsa"):
        old.unlink()
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        listed, fresh = Path(scratch) / "classes.txt", Path(scratch) / archive.name
        options = (*JAVA_OPTIONS, f"-XX:DumpLoadedClassList={listed}")
        with EmbeddedCluster("classes", java_options=options) as cluster:
            servers = cluster.bootstrap_servers
            create_topic(servers, "used")
            produce(servers, "used", [NewRecord(b"%d" % at) for at in range(100)])
            assert len(read_all(servers, "used")) == 100
        subprocess.run(
            [
                *(java_command(), *JAVA_OPTIONS, *QUIET, "-Xshare:dump"),
                *(f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={fresh}"),
                *("-cp", os.pathsep.join(map(str, jars("broker")))),
            ],
            check=True,
            capture_output=True,
            timeout=DUMP_SECONDS,
        )
        fresh.replace(archive)
