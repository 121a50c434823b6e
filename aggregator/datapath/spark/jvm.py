"""Starts the driver's JVM before the plan is made, checks its heap size, and says why it ended.

Linux ends a process that needs more than its container has, and says nothing to it.
"""

import os
import pwd
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark import SparkConf, SparkContext

from aggregator.config.schema import Config
from aggregator.datapath.connector.build import connector_jar
from aggregator.datapath.jars import HOME_VARIABLE, cache_folder, jars, spark_home, spark_java_home
from aggregator.datapath.spark.class_archive import class_archive, launcher_words
from aggregator.datapath.spark.gateway import CLASS_PATH, PORT, quick_command, start_quickly
from aggregator.model.errors import AggregatorError
from aggregator.plan.lanes.memory import MIB, heap_of
from aggregator.plan.lanes.producer import is_local

BESIDE = 512 * MIB
"""What Java needs beside its heap, and Python."""
SPARK_LEAST = 450 * MIB
"""Spark does not start with less, and says so in a Java stack trace."""
LEAST_HEAP = 512 * MIB
CONTROL = Path("/sys/fs/cgroup")
OWN_GROUPS, MACHINE = Path("/proc/self/cgroup"), Path("/proc/meminfo")
V1, V2 = "memory.limit_in_bytes", "memory.max"


def memory_limit(
    control: Path = CONTROL, groups: Path = OWN_GROUPS, machine: Path = MACHINE
) -> int | None:
    """The bytes that this process and those beside it may use; None where that cannot be read."""
    texts = [_text(file) for file in _limit_files(control, _text(groups))]
    found = [int(it) for it in texts if it.strip().isdigit()]
    for line in _text(machine).splitlines():
        if line.startswith("MemTotal:"):
            found.append(int(line.split()[1]) * 1024)
    return min(found, default=None)


def require_heap(heap: int) -> None:
    """AggregatorError for a heap with which Spark does not start."""
    if heap < SPARK_LEAST:
        raise AggregatorError(
            f"spark.driver.memory is {heap // MIB} MiB, and Spark does not start with less than "
            f"{SPARK_LEAST // MIB}: set spark.conf to {{spark.driver.memory: {LEAST_HEAP // MIB}m}}"
        )


def why_too_small(heap: int, limit: int | None) -> str:
    """What is wrong with such a heap where so much memory is, and the fix; nothing if it fits."""
    if limit is None or heap + BESIDE <= limit:
        return ""
    room = (
        f"spark.driver.memory is {heap // MIB} MiB, and there are {limit // MIB} MiB of memory here"
    )
    fits = (limit - BESIDE) // MIB
    fix = f"set spark.conf to {{spark.driver.memory: {fits}m}}, or provide more memory"
    if fits * MIB < LEAST_HEAP:
        fix = f"provide at least {(BESIDE + LEAST_HEAP) // MIB} MiB"
    return f"{room}: the kernel may kill Java without a word; {fix}"


def _limit_files(control: Path, groups: str) -> Iterator[Path]:
    """The files with the limits of a process's groups, and of those around them."""
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        base, name = (control / "memory", V1) if controllers else (control, V2)
        own = PurePosixPath(path.lstrip("/"))
        # A container may see the groups of its host by name, and only its own as files.
        for each in (own, *own.parents):
            yield base / each / name


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError:
        return ""


AT_LAUNCH = ("spark.driver.", "spark.master", "spark.jars", "spark.submit.")
"""The settings that a JVM with a local master needs at its launch. All else can wait for the
session, and does, because all users of the machine can read a command line."""

LAUNCHER_OPTIONS = "SPARK_LAUNCHER_OPTS"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Driver:
    """The Java, the jars, the user's additions to the class path, and the archive, if any.

    `words` are what Spark's launcher said when the archive was made.
    """

    java_home: Path
    jars: tuple[Path, ...]
    class_path: tuple[Path, ...]
    archive: Path | None
    words: tuple[str, ...] = ()


def spark_jars(folder: Path | None, progress: Progress) -> list[Path]:
    """The jars of the set `spark`, from this folder if one is given, and our own at the end.

    JarsError when one of them cannot be had.
    """
    return [*jars("spark", folder=folder, progress=progress), connector_jar()]


def prepare_driver(config: Config, progress: Progress) -> Driver:
    """Fetch and archive what is not there yet; `progress` says what takes long.

    JarsError when the jars, Spark or a Java cannot be had, AggregatorError for a user without a
    name or a heap that is too small. Under spark-submit there is no archive: Java runs already, and
    to make one takes half a minute and 200 MB.
    """
    require_name()
    named, spark = os.environ.get(HOME_VARIABLE, ""), spark_home()
    if named and spark != Path(named):
        progress(f"{HOME_VARIABLE} names {named}, which is another Spark: {spark} is started")
    submitted = bool(os.environ.get(PORT))
    if not submitted:
        heap = heap_of(config.spark.conf, local=True)
        require_heap(heap)
        if why := why_too_small(heap, memory_limit()):
            progress(why)
    found = spark_jars(Path(config.spark.jars) if config.spark.jars else None, progress)
    own = config.spark.conf.get(CLASS_PATH, "").split(os.pathsep)
    class_path = [*found, *(Path(each) for each in own if each)]
    home = spark_java_home()
    archive = None if submitted else class_archive(cache_folder(), home, class_path, progress)
    return Driver(home, tuple(found), tuple(class_path), archive, launcher_words(archive))


def require_name() -> None:
    """AggregatorError for a user without a name: Hadoop's login, which Spark needs, ends by it."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise AggregatorError(
            f"user {os.getuid()} has no name here, and Spark does not start without one: "
            "add a line for it to /etc/passwd, or run as a user that has one (docker run --user, "
            "runAsUser of Kubernetes)"
        ) from None


def start_jvm(conf: Mapping[str, str], driver: Driver) -> None:
    """Start the JVM for a session with these settings, unless this process has one.

    Raises PySparkRuntimeError when Java does not start, JarsError when there is no Spark for us.
    """
    home = spark_home()
    # Where PySpark looks for it.
    os.environ.update({"JAVA_HOME": str(driver.java_home), HOME_VARIABLE: str(home)})
    local = conf["spark.master"].startswith("local")
    # Spark looks the host name up to find its address; loopback is right for a local master, and
    # keeps a start from waiting for a name server.
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    at_launch = {it: conf[it] for it in conf if not local or it.startswith(AT_LAUNCH)}
    if is_local(conf["spark.master"]) and SparkContext._gateway is None:
        command = quick_command(driver.words, at_launch, driver.java_home, home, os.environ)
        if command and start_quickly(command, home):
            return
    os.environ.setdefault(LAUNCHER_OPTIONS, launcher_options(home))
    SparkContext._ensure_initialized(
        conf=SparkConf(loadDefaults=False).setAll([*at_launch.items()])
    )


def launcher_options(home: Path) -> str:
    """Options of Spark's launcher, a Java before the driver's that only puts its command together.

    It would look for its few classes in all of Spark's jars; with its own jar ahead of them it
    needs a third of the time.
    """
    own = next((home / "jars").glob("spark-launcher_*.jar"), None)
    # Spark's script splits the options at spaces, whatever is quoted.
    return "" if own is None or " " in str(own) else f"-Xbootclasspath/a:{own}"


WAIT_SECONDS = 2.0
"""A call fails when the connection is closed, a moment before the process is gone."""
CODES = {
    3: "its memory was used up: raise spark.driver.memory under spark.conf",
    50: "Spark ended it for an error in one of its threads, which is named above",
    52: "its memory was used up: raise spark.driver.memory under spark.conf",
    70: "one of its threads died of an error, which it names above",
    134: "it crashed: what it wrote is named above",
    137: "it was killed, as the kernel does where the machine's memory is short",
}


@contextmanager
def naming_java() -> Iterator[None]:
    """An error in the block because Java is gone becomes one that says so; others stay."""
    try:
        yield
    except AggregatorError:
        raise
    except (Py4JNetworkError, ConnectionError, EOFError) as error:
        raise AggregatorError(why_gone(_code())) from error


def why_gone(code: int | None) -> str:
    """What is said of a Java that ended with this code; None where it is not known."""
    after = "the next start looks in the hub for what came after the last checkpoint"
    if code is None:
        return f"Java answers no more, it has ended or hangs: see what it wrote above; {after}"
    # A process that a signal ended has that number, below zero.
    code = 128 - code if code < 0 else code
    why = CODES.get(code, "see what it wrote above")
    return f"Java has ended, exit code {code}: {why}; {after}"


def _code() -> int | None:
    gateway: Any = SparkContext._gateway
    process: Any = getattr(gateway, "proc", None)
    if process is None:
        return None
    try:
        return int(process.wait(WAIT_SECONDS))
    except subprocess.TimeoutExpired:
        return None
