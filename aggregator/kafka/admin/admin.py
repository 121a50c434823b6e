"""One cluster's admin client: every call has a deadline and fails as `ClusterCallError`.

Kept open by the engine, so that polling does not connect anew. librdkafka's log lines and error
events are taken from it here, never written to stderr; the events say why a call fails.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from typing import Any, TypeGuard, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, OffsetSpec

from aggregator.config.kafka_settings import isolation_of
from aggregator.config.schema import ClusterConfig
from aggregator.kafka.admin.client_errors import (
    AUTHENTICATION,
    OLD_LEADER,
    ClusterCallError,
    code_of,
    error_within,
    explain,
    is_local,
    not_trusted,
    with_reason,
    without_credentials,
)
from aggregator.kafka.admin.client_log import ClientLog
from aggregator.kafka.admin.held_client import ClientHandle
from aggregator.kafka.admin.offsets import (
    CLIENT_SETTINGS,
    Answers,
    PartitionOffsets,
    brokers_away,
    controller_away,
    first_offsets_of,
    leaders_of,
    oldest_of,
    ranges_of,
    without_leader,
)
from aggregator.kafka.admin.topic_facts import (
    Described,
    cluster_facts,
    configs_of,
    counts_of,
    facts_of,
)
from aggregator.kafka.credentials import CredentialsError, client_settings, why_not_trusted
from aggregator.model.values import ClusterFacts, TopicPartition

GRACE_SECONDS = 3.0
"""All brokers down for so long ends a call early: a name may stand for several addresses of which
only one answers, so the first refusal proves nothing."""
RENEW_SECONDS = 30.0
"""A client whose calls fail for so long is replaced. After a minute without an answer librdkafka
closes its connection, and was seen to make no other for minutes after the cluster was back."""
KNOCK_SECONDS = 1.0
"""To see whether a broker takes a connection. One that does not within that leads nothing."""
POLL_SECONDS = 0.05
KEPT_EVENTS = 50

_SPECS: Any = OffsetSpec  # these two have no types
_EARLIEST: OffsetSpec = _SPECS.earliest()
_LATEST: OffsetSpec = _SPECS.latest()

Result = TypeVar("Result")


class ClusterAdmin:
    """The admin client of one cluster; a context manager. Safe to use from many threads.

    Every method takes `timeout` seconds for all it does and raises ClusterCallError when the
    cluster does not answer or refuses. `client` is for requests that have no method here.
    """

    def __init__(self, alias: str, config: ClusterConfig, path: str = "") -> None:
        self.alias = alias
        self.path = path or f"sources.{alias}"
        self._events: deque[KafkaError] = deque(maxlen=KEPT_EVENTS)
        self._told: set[int] = set()
        self._lines = ClientLog()
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if isolation_of(config) == "read_uncommitted"
            else IsolationLevel.READ_COMMITTED
        )
        self._config = config
        self._settings: dict[str, Any] = {
            **CLIENT_SETTINGS,
            "error_cb": self._on_error,
            "logger": self._lines,
        }
        self._failing_since: float | None = None
        self._leaders_doubted = False
        """Whether offsets were asked for in vain, of one leader at least, since all told them."""
        self._controller_doubted = False
        """And whether descriptions were."""
        self.client = ClientHandle(self._made, self._closed)

    def _made(self) -> AdminClient:
        try:
            # Each time anew, as certificates may have been renewed meanwhile.
            own = {
                "client.id": f"aggregator-admin-{self.alias.strip('()')}",
                **client_settings(self._config),
            }
            return AdminClient({**own, **self._settings})
        except CredentialsError as error:
            raise ClusterCallError(without_credentials(self.alias, self.path, error)) from error
        except (KafkaException, ValueError, TypeError) as error:
            raise ClusterCallError(explain(self.alias, self.path, error, (), 0)) from error

    def _closed(self) -> ClusterCallError:
        closed = KafkaError(KafkaError._DESTROY, "the client is closed")
        return ClusterCallError(explain(self.alias, self.path, closed, (), 0))

    def __enter__(self) -> ClusterAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the client go, without waiting for it: a hung broker must not delay anyone."""
        self.client.close()

    def describe(self, selected: Callable[[str], bool], timeout: float) -> ClusterFacts:
        """The cluster's id, brokers and all topics; those that `selected` names in full."""
        end = time.monotonic() + timeout
        cluster = self.metadata(timeout)
        names = [name for name in counts_of(cluster) if selected(name)]
        return cluster_facts(self.alias, cluster, self.describe_topics(names, _left(end)))

    def metadata(self, timeout: float) -> ClusterMetadata:
        """The cluster's id, its brokers, and every topic that we may see."""
        # Not by DescribeCluster: librdkafka (2.16.0) ends the whole process when a broker answers
        # that with no broker at all, as one does that was frozen and has just woken up.
        end = time.monotonic() + timeout
        return self._one(self.client.metadata(timeout + GRACE_SECONDS), end, timeout)

    def partition_counts(self, timeout: float) -> dict[str, int]:
        """Every topic that we may see -> its number of partitions."""
        return counts_of(self.metadata(timeout))

    def describe_topics(self, names: Iterable[str], timeout: float) -> Described:
        """Ids, partitions, configs and permitted operations of topics; failures are per topic."""
        wanted = sorted(set(names))
        if not wanted:
            return Described({})
        end = time.monotonic() + timeout
        if self._controller_doubted and controller_away(self.metadata(timeout), KNOCK_SECONDS):
            away = KafkaError(KafkaError._TRANSPORT, "the controller does not answer")
            raise self._failed(KafkaException(away), timeout)
        futures = self.client.describe_topics(
            TopicCollection(wanted), include_authorized_operations=True, request_timeout=_left(end)
        )
        configs = self.client.describe_configs(configs_of(wanted), request_timeout=_left(end))
        self._controller_doubted = True  # until it is seen to have answered
        told, known = self.wait(futures, timeout, end), self.wait(configs, timeout, end)
        self._controller_doubted = False
        return facts_of(told, {resource.name: found for resource, found in known.items()})

    def cluster_operations(self, timeout: float) -> frozenset[str]:
        """Names of the operations that we may do on the cluster itself, such as CREATE."""
        end = time.monotonic() + timeout
        self.metadata(timeout)  # Nothing else tells them; so not while it has no brokers.
        future = self.client.describe_cluster(
            include_authorized_operations=True, request_timeout=_left(end)
        )
        cluster = self._one(future, end, timeout)
        return frozenset(operation.name for operation in cluster.authorized_operations or ())

    def offsets(self, partitions: Iterable[TopicPartition], timeout: float) -> PartitionOffsets:
        """Earliest and latest offset of each partition.

        Latest is the last stable offset, unless the source is read uncommitted.
        """
        end = time.monotonic() + timeout
        return ranges_of(*self._list_offsets(partitions, (_EARLIEST, _LATEST), end, timeout))

    def log_ends(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[TopicPartition, int]:
        """The latest offset of each partition that tells it, as in `offsets`, for half the work."""
        end = time.monotonic() + timeout
        (latest,) = self._list_offsets(partitions, (_LATEST,), end, timeout)
        return {tp: it.offset for tp, it in latest.items() if not isinstance(it, Exception)}

    @property
    def reads_committed(self) -> bool:
        """Whether log ends are last stable offsets, which an open transaction holds back."""
        return self._isolation is IsolationLevel.READ_COMMITTED

    def high_watermarks(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[TopicPartition, int]:
        """The end of all that is acknowledged, of each partition that tells it.

        Also what an open transaction holds back from those that read committed.
        """
        end = time.monotonic() + timeout
        every = IsolationLevel.READ_UNCOMMITTED
        (latest,) = self._list_offsets(partitions, (_LATEST,), end, timeout, every)
        return {tp: it.offset for tp, it in latest.items() if not isinstance(it, Exception)}

    def offsets_at(
        self, timestamp_ms: int, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[TopicPartition, int]:
        """The first offset with that timestamp or a later one; the log's end when there is none.

        A partition whose offsets cannot be read is left out.
        """
        end = time.monotonic() + timeout
        specs = (OffsetSpec.for_timestamp(timestamp_ms), _LATEST)
        return first_offsets_of(*self._list_offsets(partitions, specs, end, timeout))

    def oldest_record_ms(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[str, int]:
        """Topic -> timestamp of the oldest record at the start of its logs; empty ones left out."""
        end = time.monotonic() + timeout
        specs = (OffsetSpec.for_timestamp(0),)
        return oldest_of(*self._list_offsets(partitions, specs, end, timeout))

    def commit_group(
        self, group: str, offsets: Mapping[TopicPartition, int], timeout: float, mark: str = ""
    ) -> None:
        """Set committed offsets of a group in which nobody is active, with a text beside each.

        Raises ClusterCallError also for a partition that is refused.
        """
        rows = [
            ClientPartition(tp.topic, tp.partition, at, metadata=mark) for tp, at in offsets.items()
        ]
        futures = self.client.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, rows)], request_timeout=timeout
        )
        (answer,) = self.wait(futures, timeout).values()
        refused = [it.error for it in getattr(answer, "topic_partitions", ()) if it.error]
        if isinstance(answer, Exception) or refused:
            error = answer if isinstance(answer, Exception) else KafkaException(refused[0])
            raise self._failed(error, timeout) from error

    def _list_offsets(
        self,
        partitions: Iterable[TopicPartition],
        specs: Sequence[OffsetSpec],
        end: float,
        timeout: float,
        isolation: IsolationLevel | None = None,
    ) -> list[Answers]:
        """For each spec the answer of each partition, or its error; as the source is read."""
        wanted = list(partitions)
        absent = self._without_leader(wanted, end)
        asked = [tp for tp in wanted if tp not in absent]
        if wanted and not asked:
            none = KafkaError(KafkaError._NOENT, "no partition has a leader")
            if self._leaders_doubted:
                none = KafkaError(KafkaError._TRANSPORT, "no leader of a partition answers")
            raise self._failed(KafkaException(none), timeout)
        try:
            found = self._ask_offsets(asked, specs, end, timeout, isolation)
        except ClusterCallError:
            self._leaders_doubted = True
            raise
        self._leaders_doubted = any(_is_silence(it) for told in found for it in told.values())
        stale = [tp for tp in asked if any(code_of(it[tp]) in OLD_LEADER for it in found)]
        if stale:
            # librdkafka is refused for ever by what it remembers, unless it reads the metadata.
            self.client.forget_leaders()
            absent |= self._without_leader(stale, end)
            led = [tp for tp in stale if tp not in absent]
            again = self._ask_offsets(led, specs, end, timeout, isolation)
            found = [{**before, **now} for before, now in zip(found, again, strict=True)]
        return [{**answers, **absent} for answers in found]

    def _without_leader(
        self, wanted: Collection[TopicPartition], end: float
    ) -> dict[TopicPartition, KafkaException]:
        """What must not be asked about, because the client knows no leader of it."""
        if not wanted:
            return {}
        leaders = self.client.leaders()
        if self._leaders_doubted:
            cluster = self.metadata(_left(end))
            leaders = leaders_of(cluster, brokers_away(cluster, wanted, KNOCK_SECONDS))
        elif leaders is None or without_leader(leaders, wanted):
            # There may be one by now.
            leaders = leaders_of(self.metadata(_left(end)))
        return without_leader(leaders, wanted)

    def _ask_offsets(
        self,
        wanted: Collection[TopicPartition],
        specs: Sequence[OffsetSpec],
        end: float,
        timeout: float,
        isolation: IsolationLevel | None,
    ) -> list[Answers]:
        if not wanted:
            return [{} for _ in specs]
        asked = []
        for spec in specs:
            request = {ClientPartition(tp.topic, tp.partition): spec for tp in wanted}
            futures = self.client.list_offsets(
                request, isolation_level=isolation or self._isolation, request_timeout=timeout
            )
            asked.append({TopicPartition(tp.topic, tp.partition): it for tp, it in futures.items()})
        return [self.wait(futures, timeout, end) for futures in asked]

    def _one(self, future: Future[Result], end: float, timeout: float) -> Result:
        result = self.wait({"": future}, timeout, end)[""]
        if isinstance(result, Exception):
            raise self._failed(result, timeout) from result
        return result

    def wait(
        self, futures: Mapping[Any, Future[Result]], timeout: float, until: float | None = None
    ) -> dict[Any, Result | Exception]:
        """Results by key, errors of single keys as values; `until` may end it before the timeout.

        Raises when the cluster is silent.
        """
        start = time.monotonic()
        end = start + timeout if until is None else until
        self._told.clear()
        while not all(future.done() for future in futures.values()):
            # Not a poll of so long: it ends with what the client says, not with an answer.
            wait_for_all(futures.values(), POLL_SECONDS)
            self.client.poll(0)
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
            result = future.result() if error is None else error
            results[key] = error_within(result) or result
        errors = [it for it in results.values() if _is_silence(it)]
        if errors and len(errors) == len(results):
            raise self._failed(errors[0], timeout) from errors[0]
        self._answered()
        return results

    def _hopeless(self, waited: float) -> bool:
        """Whether what was told during this call says that to wait longer is in vain."""
        refused = not self._told.isdisjoint(AUTHENTICATION)
        return refused or (KafkaError._ALL_BROKERS_DOWN in self._told and waited >= GRACE_SECONDS)

    def _on_error(self, error: KafkaError) -> None:
        self._events.append(error)
        self._told.add(error.code())

    def _answered(self) -> None:
        self._events.clear()
        self._failing_since = None

    def _failed(self, error: Exception | None, seconds: float) -> ClusterCallError:
        now = time.monotonic()
        since = self._failing_since = self._failing_since or now
        if now - since >= RENEW_SECONDS:
            self.client.renew()
            self._failing_since = None
        seen = list(self._events)
        line = self._lines.failure if seen else ""
        failure = explain(self.alias, self.path, error, seen, seconds, line)
        if not_trusted(failure) and (why := why_not_trusted(client_settings(self._config))):
            failure = with_reason(failure, self.path, why)
        return ClusterCallError(failure)


def _is_silence(answer: object) -> TypeGuard[Exception]:
    return isinstance(answer, Exception) and is_local(answer)


def _left(end: float) -> float:
    return max(0.01, end - time.monotonic())
