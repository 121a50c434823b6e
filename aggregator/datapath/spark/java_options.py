"""The options of Java: which collector, how eager a compiler, and the archive of classes.

A user's own options come last and win; a collector of theirs replaces ours, because Java
refuses to start with two.
"""

import os
import re
import shlex
from pathlib import Path

from aggregator.datapath.jars import CACHE_VARIABLE, cache_folder, java_home
from aggregator.datapath.spark.class_archive import archive_options
from aggregator.model.errors import AggregatorError

DRIVER, EXECUTOR = "spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"

COLLECTOR = "-XX:+UseParallelGC -XX:GCTimeRatio=19"
"""G1 cuts a heap of 2 GB into regions of 1 MB. A fetch from a full partition is as large, so each
takes regions of its own, apart from the young ones; so do the pages that Spark sorts in. This one
has no regions. By default it takes any memory, up to the heap, that brings its own time below 1 %:
after Spark's start that is half a gigabyte of young objects. With 5 % the process takes a fifth
less memory, and nothing is slower. What both gained is in docs/results/2026-11-24-settings.md."""

COMPILER = " ".join(
    (
        "-XX:Tier4InvocationThreshold=40000",
        "-XX:Tier4MinInvocationThreshold=5000",
        "-XX:Tier4CompileThreshold=120000",
        "-XX:Tier4BackEdgeThreshold=320000",
    )
)
"""The slow, optimising compiler comes eight times later than by default. What is called for each
record gets there within a second all the same; Spark's planning, a lot of code that is run a few
times in a batch, no longer takes a third of the CPU of the first minutes to be optimised."""

NO_HALF_LIFE = "-XX:+ExitOnOutOfMemoryError"
"""Memory that a thread did not get ends the process, with exit code 3: a producer or a reporter
whose thread has ended by it would leave an instance that runs and does nothing."""

RECORDER = "StartFlightRecording"
OWN_COLLECTOR = re.compile(r"-XX:\+Use\w*GC\b")
G1 = "-XX:+UseG1GC"
MOVES_PINNED = re.compile(r'^JAVA_VERSION="(25(?:\.0\.[012])?)"', re.MULTILINE)
"""A Java whose G1 moves arrays while native code, such as that of zstd, writes into them: records
and tables are damaged, and nothing fails (JDK-8377811, mended in 25.0.3). No other collector does.
"""


def driver_options(log4j: str, archive: Path | None, folder: Path, given: str) -> str:
    """Options of the driver's Java: `given` are the user's, `log4j` the address of a file.

    `folder` is where Python has its temporary files. Java does not look at TMPDIR, so Spark would
    need room, and the right to write, in `/tmp` whatever that says.
    AggregatorError where no native library can be loaded, and for a Java with a G1 that damages
    data.
    """
    _refuse_damage(given, java_home())
    # Java 17 ends itself when it has to record a flight and starts from such an archive.
    classes = "" if RECORDER in given else archive_options(archive)
    log_options = f"-Dlog4j2.configurationFile={log4j} -Djava.io.tmpdir={shlex.quote(str(folder))}"
    return _joined(log_options, native_options(folder), classes, executor_options(given))


def _refuse_damage(given: str, home: Path) -> None:
    if G1 not in given:
        return
    try:
        release = (home / "release").read_text("utf-8")
    except OSError:
        return
    if found := MOVES_PINNED.search(release):
        raise AggregatorError(
            f"with G1 the Java {found[1]} in {home} damages compressed data (JDK-8377811): take "
            f"{G1} out of {DRIVER}, or set JAVA_HOME to Java 25.0.3 or newer, 21 or 17"
        )


def native_options(folder: Path) -> str:
    """Where Java unpacks the libraries of zstd and Snappy, if its temporary folder is `noexec`.

    Records of zstd, and Delta's files, cannot do without. What else Spark unpacks can.
    AggregatorError with the way out where the cache is `noexec` as well.
    """
    if not is_noexec(folder):
        return ""
    cache = cache_folder()
    natives = cache / "native"
    try:
        natives.mkdir(parents=True, exist_ok=True)
        refused = is_noexec(natives)
    except OSError:
        refused = True
    if refused:
        raise AggregatorError(
            f"Java can load no native library: {folder} is mounted noexec, and {cache} is so too, "
            f"or cannot be written; set TMPDIR or {CACHE_VARIABLE} to a folder that allows both"
        )
    place = shlex.quote(str(natives))
    return f"-DZstdTempFolder={place} -Dorg.xerial.snappy.tempdir={place}"


def is_noexec(folder: Path) -> bool:
    """Whether no program or library can be run from a folder, by the way that it is mounted.

    Of a folder that is not there nothing is known, and Java says more about that than we could.
    """
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_NOEXEC)
    except FileNotFoundError:
        return False


def executor_options(given: str) -> str:
    """Options of an executor's Java, which does the work of the lanes: `given` are the user's."""
    collector = "" if OWN_COLLECTOR.search(given) else COLLECTOR
    return _joined(collector, COMPILER, NO_HALF_LIFE, given)


def _joined(*options: str) -> str:
    return " ".join(filter(None, options))
