"""Reports that the driver's Java has ended, and why, instead of how a call to it failed."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from aggregator.model.errors import AggregatorError

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
