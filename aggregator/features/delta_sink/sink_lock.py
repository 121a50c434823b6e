"""One tee on a folder at a time: a lock of Python's for a quick refusal, and one of the JVM's.

After `kill -9` of Python its JVM runs for a moment longer, and may be about to commit. So the next
one waits until the lock of that JVM is free. On an object store there is no lock: there Delta
refuses a commit that does not begin where the table ends (`features/delta_sink/landed_commits.py`).
"""

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from aggregator.model.errors import AggregatorError, HeldError
from aggregator.store.delta import local_path

# No topic has a name with `~`.
LOCK = "lock~"
JVM_LOCK = "jvm-lock~"
JVM_SECONDS = 60.0
LOOK_SECONDS = 0.1


@contextmanager
def alone(path: str) -> Iterator[None]:
    """Hold the folder of tee.path while the block runs; HeldError when another tee has it."""
    folder = local_path(path)
    if folder is None:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise AggregatorError(
            f"tee.path {path}: cannot be written: {error.strerror} (choose a folder that this user "
            "can write)"
        ) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _held(path, os.pread(handle, 100, 0).decode(errors="replace").strip()) from error
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def held_in_jvm(spark: SparkSession, path: str, stop: threading.Event) -> Iterator[None]:
    """Have this JVM hold the folder while the block runs, or until it ends if Python is killed.

    Waits for the JVM of a tee that was killed: HeldError when that one does not end, or `stop` is
    set before.
    """
    folder = local_path(path)
    if folder is None:
        yield
        return
    java = spark._jvm
    assert java is not None
    file = java.java.io.RandomAccessFile(str((folder / JVM_LOCK).absolute()), "rw")
    try:
        deadline = time.monotonic() + JVM_SECONDS
        while file.getChannel().tryLock() is None:
            if stop.wait(LOOK_SECONDS) or time.monotonic() > deadline:
                raise _held(path, "the Java of one that was killed")
        yield
    finally:
        # It may have ended meanwhile.
        with suppress(Py4JError, OSError):
            file.close()


def _held(path: str, holder: str) -> HeldError:
    return HeldError(
        f"tee.path {path}: another tee writes there ({holder or 'it has just started'}); stop that "
        "one first, or give this one a tee.path of its own"
    )
