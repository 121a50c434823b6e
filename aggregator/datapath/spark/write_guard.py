"""The driver's side of the write guard: until when its JVM may send, and the file it locks."""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from aggregator.model.errors import AggregatorError


class Guard:
    """The `WriteGuard` of the driver's JVM. Executors that are other JVMs are sent what is left of
    the lease with each answer to what they report.
    """

    def __init__(self, spark: SparkSession) -> None:
        # Any, because py4j finds Java classes by their names as attributes.
        self._jvm: Any = spark._jvm

    @property
    def process(self) -> int:
        """The process id of the JVM."""
        return int(self._jvm.java.lang.ProcessHandle.current().pid())

    def until(self, millis: int, left: int) -> None:
        """Let records be sent until then (ms since 1970), and for at most this many ms from now.

        From then on they wait; below 0: never again.
        """
        self._jvm.aggregator.connector.WriteGuard.until(millis, left)

    def hold(self, file: str) -> bool:
        """Lock a file for as long as this JVM lives; False while another JVM has it.

        AggregatorError where the file system has no locks.
        """
        try:
            return bool(self._jvm.aggregator.connector.WriteGuard.hold(file))
        except Py4JJavaError as error:
            raise AggregatorError(
                f"checkpoint.path: {file} cannot be locked: {error.java_exception} (choose a "
                "folder on a file system with locks)"
            ) from error

    def free(self, file: str) -> None:
        """Give the file's lock back, and forget the lease."""
        self._jvm.aggregator.connector.WriteGuard.free(file)
