"""Reads the origins of hub records by the driver's JVM, as `hub_origins` does by its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from aggregator.config.schema import ClusterConfig
from aggregator.datapath.connector.hub_origins import OriginRun, origins_request, parse_run
from aggregator.model.errors import ClusterError
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition


class DriverOrigins:
    """An `OriginSource` in the driver's Java, which runs already. Used by one thread."""

    def __init__(
        self,
        spark: SparkSession,
        hub: ClusterConfig,
        ranges: Mapping[TopicPartition, OffsetRange],
        known: Iterable[SourcePartition],
        client: str,
    ) -> None:
        jvm: Any = spark._jvm
        self._java = jvm.aggregator.connector.HubOrigins
        self._names = list(ranges)
        self._request = origins_request(hub, ranges, known, client)

    def __enter__(self) -> Self:
        self._reader: Any = _asked(lambda: self._java.open(self._request))
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def runs(self) -> Iterator[OriginRun | None]:
        """As the protocol says."""
        while True:
            lines = str(_asked(self._reader.poll)).splitlines()
            if not lines:
                yield None
            for line in lines:
                yield parse_run(line, self._names)

    def forget(self, tp: TopicPartition) -> None:
        """As the protocol says."""
        _asked(lambda: self._reader.forget(self._names.index(tp)))


def _asked(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Py4JJavaError as error:
        words = str(error.java_exception.toString())
        raise ClusterError(f"hub: its batches cannot be read: {words}") from error
