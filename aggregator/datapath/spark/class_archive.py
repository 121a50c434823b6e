"""The class archive that the JVM starts from: with it a start takes two thirds of the CPU.

Java 17 can map classes that were read and checked before into memory, instead of doing so at each
start (class data sharing). The archive is made once, from a list of the classes that a run with a
recovery needs, and belongs to one Java, one class path and one list; Java itself refuses one that
does not fit and then starts without it, so an archive can cost nothing but disk.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyspark

from aggregator.datapath.jars import spark_home

CLASS_LIST = Path(__file__).with_name("classes.txt")
"""Written by `python -m bench.classes`; a class that is not found is left out of the archive."""
TIMEOUT_SECONDS = 180
PATIENT_SECONDS = 1800
"""For one that is made in advance, such as in an image: no start waits for it."""
TIMED_OUT = "java took longer than"
RETRY_SECONDS = 3600
"""A machine that was too busy to make an archive is given another try after that."""
UNUSED_SECONDS = 14 * 24 * 3600
LAUNCHER = ("org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit")
JAVA_ENVIRONMENT = "SPARK_SUBMIT_OPTS"
"""Options for a driver's Java, which the launcher prints among others; each start has its own."""
SCALA_VERSION = "2.13"
"""The arguments of `spark-submit` for the launcher."""
QUIET = "-Xlog:disable -Xlog:all=error:stderr"

Progress = Callable[[str], None]


def archive_options(archive: Path | None) -> str:
    """Java options that start from the archive; nothing for None."""
    # A Java that finds something wrong with it continues without, and need not say so each time.
    return "" if archive is None else f"-XX:SharedArchiveFile={archive} -Xshare:auto {QUIET}"


def class_archive(
    cache: Path,
    java_home: Path,
    class_path: Sequence[Path],
    progress: Progress,
    *,
    patient: bool = False,
) -> Path | None:
    """The archive for a JVM with `class_path` before Spark's own; made on the first call.

    None where none can be made: `progress` says why, once, and the JVM starts without. Safe to call
    from several processes at once. `patient`: it is made in advance, so it is tried again, and may
    take long.
    """
    archive = cache / f"classes-{_identity(java_home, class_path)}.jsa"
    refused = archive.with_suffix(".none")
    if archive.exists():
        # When it was last used, for `_drop_unused`; in a cache of others that is not ours to note.
        # Beside it: a container would copy all of a file of its image for another time.
        with contextlib.suppress(OSError):
            archive.with_suffix(".used").touch()
        return archive
    if not patient and _is_refused(refused):
        return None
    seconds = PATIENT_SECONDS if patient else TIMEOUT_SECONDS
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # Each has its own: none waits for the archives of other installations.
        with archive.with_suffix(".lock").open("w") as lock:
            # Another process may make it meanwhile; the kernel frees the lock of one that dies.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not archive.exists() and (patient or not _is_refused(refused)):
                _drop_unused(cache)
                progress("preparing Java's classes for quick starts, once; half a minute")
                problem = _make(archive, java_home, class_path, seconds)
                if problem:
                    refused.write_text(problem, "utf-8")
                    progress(f"starts will be slower: no class archive can be made: {problem}")
    except OSError as error:
        progress(f"starts will be slower: no class archive in {cache}: {error.strerror}")
    return archive if archive.exists() else None


def _is_refused(note: Path) -> bool:
    """Whether no archive is tried, as the last try failed: for good, or a short while ago."""
    try:
        problem, noted = note.read_text("utf-8"), note.stat().st_mtime
    except OSError:
        return False
    return not problem.startswith(TIMED_OUT) or time.time() - noted < RETRY_SECONDS


def launcher_words(archive: Path | None) -> tuple[str, ...]:
    """The command that Spark's launcher printed for the archive, up to the class to start.

    Nothing where that is not known.
    """
    if archive is None:
        return ()
    try:
        return tuple(map(str, json.loads(_words_of(archive).read_text("utf-8"))))
    except (OSError, ValueError):
        return ()


def _words_of(archive: Path) -> Path:
    return archive.with_suffix(".words")


def _identity(java_home: Path, class_path: Sequence[Path]) -> str:
    try:
        java = (java_home / "release").read_text("utf-8")
    except OSError:
        java = ""
    files = [*class_path, *sorted((spark_home() / "jars").glob("*.jar"))]
    said = "\n".join([java, str(java_home), pyspark.__version__, *map(_stamp, files)])
    return hashlib.sha256(said.encode() + CLASS_LIST.read_bytes()).hexdigest()[:16]


def _stamp(path: Path) -> str:
    """A jar by all that Java compares: the same one installed again is another one to it."""
    try:
        found = path.stat()
    except OSError:
        return str(path)
    return f"{path} {found.st_size} {int(found.st_mtime)}"


def _drop_unused(cache: Path) -> None:
    """Remove archives that have not been used for a while; each has some 100 MB."""
    # Another process may do the same now.
    with contextlib.suppress(OSError):
        found: dict[str, list[Path]] = {}
        for each in cache.glob("classes-*"):
            found.setdefault(each.stem, []).append(each)
        for own in found.values():
            # A lock is as old as its archive was begun: its maker has long ended.
            if time.time() - max(each.stat().st_mtime for each in own) > UNUSED_SECONDS:
                for each in own:
                    _remove(each)


def _remove(path: Path) -> None:
    """A file, or the folder in which a process that was killed was making one."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _make(archive: Path, java_home: Path, class_path: Sequence[Path], seconds: float) -> str:
    """Write the archive; returns what went wrong, or nothing."""
    java = str(java_home / "bin" / "java")
    try:
        command = [java, "-cp", f"{spark_home() / 'jars'}/*", *LAUNCHER, "--driver-class-path"]
        command += [os.pathsep.join(map(str, class_path)), "pyspark-shell"]
        result = _run(command, seconds)
        words = result.stdout.strip("\0\n").split("\0")
        if "-cp" not in words or LAUNCHER[1] not in words:
            return f"Spark's launcher does not print its command: {_last_line(result)}"
        with tempfile.TemporaryDirectory(prefix="classes-", dir=archive.parent) as scratch:
            fresh = Path(scratch) / archive.name
            done = _run(
                [
                    *(java, "-Xshare:dump", *QUIET.split()),
                    f"-XX:SharedClassListFile={CLASS_LIST}",
                    f"-XX:SharedArchiveFile={fresh}",
                    *("-cp", words[words.index("-cp") + 1]),
                ],
                seconds,
            )
            if done.returncode != 0 or not fresh.exists():
                return _last_line(done) or f"java ended with {done.returncode}"
            _words_of(archive).write_text(json.dumps(words[: words.index(LAUNCHER[1])]), "utf-8")
            fresh.replace(archive)
            archive.with_suffix(".none").unlink(missing_ok=True)
    except subprocess.TimeoutExpired as error:
        return f"{TIMED_OUT} {error.timeout:g} s"
    except OSError as error:
        return str(error)
    return ""


def _run(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env={
            **{name: it for name, it in os.environ.items() if name != JAVA_ENVIRONMENT},
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": SCALA_VERSION,
        },
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return lines[-1] if lines else ""
