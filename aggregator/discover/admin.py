"""One cluster's admin client: every call has a deadline and fails as `ClusterCallError`.

Kept open by the engine, so that polling does not connect anew. librdkafka's log lines and error
events are taken from it here, never written to stderr; the events say why a call fails.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from aggregator.config.kafka_settings import librdkafka_settings
from aggregator.config.schema import ClusterConfig, SourceConfig
from aggregator.discover.client_log import ClientLog
from aggregator.discover.describe import Described, configs_of, facts_of
from aggregator.discover.errors import (
    AUTHENTICATION,
    ClusterCallError,
    code_of,
    explain,
    text_of,
)
from aggregator.model import ClusterFacts, OffsetRange, TopicFacts, TopicPartition

GRACE_SECONDS = 3.0
"""All brokers down for so long ends a call early: a name may stand for several addresses of which
only one answers, so the first refusal proves nothing."""
POLL_SECONDS = 0.05
KEPT_EVENTS = 50

_SPECS: Any = OffsetSpec  # these two have no types
_EARLIEST: OffsetSpec = _SPECS.earliest()
_LATEST: OffsetSpec = _SPECS.latest()

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Log ranges by partition, and why some are not known; one missing topic spoils no other."""

    ranges: Mapping[TopicPartition, OffsetRange]
    failed: Mapping[TopicPartition, str] = field(default_factory=dict)


class ClusterAdmin:
    """The admin client of one cluster; a context manager. Safe to use from one thread at a time.

    Made without connecting. Every method takes `timeout` seconds for all it does and raises
    ClusterCallError when the cluster does not answer or refuses.
    """

    def __init__(self, alias: str, config: ClusterConfig, path: str = "") -> None:
        self.alias = alias
        self.path = path or f"sources.{alias}"
        self._events: deque[KafkaError] = deque(maxlen=KEPT_EVENTS)
        self._told: set[int] = set()
        self._lines = ClientLog()
        # The hub's end is where it is written, whatever transactions are open there.
        own = (
            config.consumer
            if isinstance(config, SourceConfig)
            else {"isolation.level": "read_uncommitted"}
        )
        wanted = {**config.kafka, **own}.get("isolation.level", "read_committed")
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if wanted == "read_uncommitted"
            else IsolationLevel.READ_COMMITTED
        )
        settings: dict[str, Any] = {
            "client.id": f"aggregator-admin-{alias.strip('()')}",
            **librdkafka_settings(config),
            "error_cb": self._on_error,
            "logger": self._lines,
        }
        try:
            self._client: AdminClient | None = AdminClient(settings)
        except (KafkaException, ValueError, TypeError) as error:
            raise ClusterCallError(explain(alias, self.path, error, (), 0)) from error

    def __enter__(self) -> ClusterAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the client go, without waiting for it: a hung broker must not delay anyone."""
        client, self._client = self._client, None
        if client is not None:
            holder = [client]
            del client
            threading.Thread(target=holder.clear, daemon=True, name="kafka-admin-close").start()

    def describe(self, selected: Callable[[str], bool], timeout: float) -> ClusterFacts:
        """The cluster's id, brokers and all topics; those that `selected` names in full."""
        end = time.monotonic() + timeout
        cluster = self._one(self.client.describe_cluster(request_timeout=timeout), end, timeout)
        counts = self.partition_counts(_left(end))
        described = self.describe_topics([name for name in counts if selected(name)], _left(end))
        topics = {
            name: described.topics.get(name, TopicFacts(name, "", count, 0))
            for name, count in counts.items()
            if name not in described.failed
        }
        # Selected, but not to be described: the plan names it as such.
        topics |= {name: TopicFacts(name, "", 0, 0) for name in described.failed if name in counts}
        return ClusterFacts(
            self.alias, str(cluster.cluster_id), len(cluster.nodes), topics, described.notes
        )

    def partition_counts(self, timeout: float) -> dict[str, int]:
        """Every topic that we may see -> its number of partitions."""
        self._told.clear()
        start = time.monotonic()
        try:
            metadata = self.client.list_topics(timeout=max(timeout, 0.01))
        except KafkaException as error:
            self.client.poll(0)
            raise self._failed(error, time.monotonic() - start) from error
        self._events.clear()
        return {
            name: len(topic.partitions)
            for name, topic in sorted(metadata.topics.items())
            if topic.error is None or topic.partitions
        }

    def describe_topics(self, names: Iterable[str], timeout: float) -> Described:
        """Ids, partitions, configs and permitted operations of topics; failures are per topic."""
        wanted = sorted(set(names))
        if not wanted:
            return Described({})
        end = time.monotonic() + timeout
        futures = self.client.describe_topics(
            TopicCollection(wanted), include_authorized_operations=True, request_timeout=timeout
        )
        configs = self.client.describe_configs(configs_of(wanted), request_timeout=timeout)
        return facts_of(
            self._all(futures, end, timeout),
            {resource.name: found for resource, found in self._all(configs, end, timeout).items()},
        )

    def cluster_operations(self, timeout: float) -> frozenset[str]:
        """Names of the operations that we may do on the cluster itself, such as CREATE."""
        future = self.client.describe_cluster(
            include_authorized_operations=True, request_timeout=timeout
        )
        cluster = self._one(future, time.monotonic() + timeout, timeout)
        return frozenset(operation.name for operation in cluster.authorized_operations or ())

    def offsets(self, partitions: Iterable[TopicPartition], timeout: float) -> PartitionOffsets:
        """Earliest and latest offset of each partition.

        Latest is the last stable offset, unless the source is read uncommitted.
        """
        wanted = list(partitions)
        end = time.monotonic() + timeout
        lists = [
            self._list_offsets(wanted, _EARLIEST, timeout),
            self._list_offsets(wanted, _LATEST, timeout),
        ]
        (first, last) = (self._all(futures, end, timeout) for futures in lists)
        ranges, failed = {}, {}
        for tp in wanted:
            low, high = first[tp], last[tp]
            if isinstance(low, Exception) or isinstance(high, Exception):
                failed[tp] = text_of(low if isinstance(low, Exception) else high)
            else:
                ranges[tp] = OffsetRange(low.offset, high.offset)
        return PartitionOffsets(ranges, failed)

    def offsets_at(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[TopicPartition, int]:
        """The first offset with that timestamp or a later one; the log's end when there is none.

        A partition whose offsets cannot be read is left out.
        """
        wanted = list(partitions)
        end = time.monotonic() + timeout
        by_time = self._list_offsets(wanted, OffsetSpec.for_timestamp(timestamp_ms), timeout)
        latest = self._list_offsets(wanted, _LATEST, timeout)
        times, ends = self._all(by_time, end, timeout), self._all(latest, end, timeout)
        found = {}
        for tp in wanted:
            at, last = times[tp], ends[tp]
            if not isinstance(at, Exception) and not isinstance(last, Exception):
                found[tp] = at.offset if at.offset >= 0 else last.offset
        return found

    def oldest_record_ms(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[str, int]:
        """Topic -> timestamp of the oldest record at the start of its logs; empty ones left out."""
        futures = self._list_offsets(list(partitions), OffsetSpec.for_timestamp(0), timeout)
        oldest: dict[str, int] = {}
        for tp, at in self._all(futures, time.monotonic() + timeout, timeout).items():
            if not isinstance(at, Exception) and at.offset >= 0 and at.timestamp >= 0:
                oldest[tp.topic] = min(at.timestamp, oldest.get(tp.topic, at.timestamp))
        return oldest

    @property
    def client(self) -> AdminClient:
        """The client itself, for `aggregator.discover.apply`; ClusterCallError when closed."""
        if self._client is None:
            closed = KafkaError(KafkaError._DESTROY, "the client is closed")
            raise ClusterCallError(explain(self.alias, self.path, closed, (), 0))
        return self._client

    def wait(
        self, futures: Mapping[Any, Future[Result]], timeout: float
    ) -> dict[Any, Result | Exception]:
        """Results of a call by key, errors of single keys as values."""
        return self._all(futures, time.monotonic() + timeout, timeout)

    def _list_offsets(
        self, partitions: list[TopicPartition], spec: OffsetSpec, timeout: float
    ) -> dict[TopicPartition, Future[Any]]:
        if not partitions:
            return {}
        request = {ClientPartition(tp.topic, tp.partition): spec for tp in partitions}
        futures = self.client.list_offsets(
            request, isolation_level=self._isolation, request_timeout=timeout
        )
        return {TopicPartition(tp.topic, tp.partition): it for tp, it in futures.items()}

    def _one(self, future: Future[Result], end: float, timeout: float) -> Result:
        result = self._all({"": future}, end, timeout)[""]
        if isinstance(result, Exception):
            raise self._failed(result, timeout) from result
        return result

    def _all(
        self, futures: Mapping[Any, Future[Result]], end: float, timeout: float
    ) -> dict[Any, Result | Exception]:
        """Wait for all; raise when none came through because the cluster did not answer."""
        start = time.monotonic()
        self._told.clear()
        while not all(future.done() for future in futures.values()):
            self.client.poll(POLL_SECONDS)
            now = time.monotonic()
            if now >= end:
                raise self._failed(None, timeout)
            if self._hopeless(now - start):
                raise self._failed(None, now - start)
        self.client.poll(0)
        results: dict[Any, Result | Exception] = {}
        for key, future in futures.items():
            error = future.exception()
            if error is not None and not isinstance(error, Exception):
                raise error
            results[key] = future.result() if error is None else error
        errors = [result for result in results.values() if isinstance(result, Exception)]
        if errors and len(errors) == len(results) and all(_is_local(error) for error in errors):
            raise self._failed(errors[0], timeout) from errors[0]
        self._events.clear()
        return results

    def _hopeless(self, waited: float) -> bool:
        """Whether what was told during this call says that to wait longer is in vain."""
        refused = not self._told.isdisjoint(AUTHENTICATION)
        return refused or (KafkaError._ALL_BROKERS_DOWN in self._told and waited >= GRACE_SECONDS)

    def _on_error(self, error: KafkaError) -> None:
        self._events.append(error)
        self._told.add(error.code())

    def _failed(self, error: Exception | None, seconds: float) -> ClusterCallError:
        seen = list(self._events)
        line = self._lines.failure if seen else ""
        return ClusterCallError(explain(self.alias, self.path, error, seen, seconds, line))


def _left(end: float) -> float:
    return max(0.01, end - time.monotonic())


def _is_local(error: Exception) -> bool:
    """Whether an error comes from the client (negative code), not from a broker that answered."""
    code = code_of(error)
    return code is None or code < 0
