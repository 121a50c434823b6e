"""One cluster's admin client: every call has a deadline and fails as `ClusterCallError`.

Kept open by the engine, so that polling does not connect again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from functools import partial
from typing import Any, TypeVar, cast

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
)
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import ClusterMetadata, ConfigResource, OffsetSpec

from aggregator.config.kafka_settings import isolation_of
from aggregator.config.schema import ClusterConfig
from aggregator.kafka.admin.calls import GRACE_SECONDS, Calls, is_silence
from aggregator.kafka.admin.client_errors import (
    OLD_LEADER,
    ClusterCallError,
    code_of,
)
from aggregator.kafka.admin.held_client import FIRST_TRY, RETRY_SECONDS
from aggregator.kafka.admin.offsets import (
    Answers,
    Leaders,
    PartitionOffsets,
    away_of,
    brokers_away,
    controller_away,
    first_offsets_of,
    leaders_of,
    oldest_of,
    ranges_of,
    without_leader,
)
from aggregator.kafka.admin.parallel import MOST_PARTITIONS, MOST_TOPICS, in_parts
from aggregator.kafka.admin.topic_facts import (
    ConfigTurns,
    Described,
    cluster_facts,
    configs_of,
    counts_of,
    facts_of,
)
from aggregator.model.values import ClusterFacts, TopicPartition

KNOCK_SECONDS = 1.0
"""To see whether a broker answers at all. One that does not within that leads nothing."""

LEAST_SECONDS = 2.0
"""A question for offsets has this long at least, whatever time is left to wait for its answer.

librdkafka (2.16.0) ends the whole process when the timeout comes while the question is still being
put (docs/results/2026-11-23-list-offsets.md): with 10 ms that took seconds.
"""

PATIENCE_SECONDS = 1.0
"""After this long without all answers it is looked at whether a leader answers anything at all."""

Asked = TypeVar("Asked", bound=tuple[Mapping[Any, Future[Any]], ...])

_SPECS: Any = OffsetSpec  # these two have no types
_EARLIEST: OffsetSpec = _SPECS.earliest()
_LATEST: OffsetSpec = _SPECS.latest()


class _HungError(Exception):
    """Leaders of what was asked for answer nothing; no other partition waits for them."""


class ClusterAdmin(Calls):
    """The admin client of one cluster; a context manager. Safe to use from many threads.

    Every method takes `timeout` seconds for all it does, or, where it asks about more than one
    request takes, for each of these. It raises ClusterCallError when the cluster does not answer or
    refuses. `client` is for requests that have no method here.
    """

    def __init__(self, alias: str, config: ClusterConfig, path: str = "") -> None:
        super().__init__(alias, config, path)
        self._isolation = (
            IsolationLevel.READ_UNCOMMITTED
            if isolation_of(config) == "read_uncommitted"
            else IsolationLevel.READ_COMMITTED
        )
        self._tls = config.kafka.get("security.protocol", "").strip().upper().endswith("SSL")
        self._away: frozenset[int] = frozenset()
        """Brokers that did not answer when that was looked at last."""
        self._brokers: frozenset[int] = frozenset()
        """Those of the last metadata."""
        self._leaders_doubted = False
        """Whether a leader failed to report offsets since the last time that all reported them."""
        self._controller_doubted = False
        """And whether descriptions were."""

    def __enter__(self) -> ClusterAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def describe(self, selected: Callable[[str], bool], timeout: float) -> ClusterFacts:
        """The cluster's id, brokers and all topics; those that `selected` names in full."""
        return self.described(self.metadata(timeout), selected, timeout)

    def described(
        self,
        cluster: ClusterMetadata,
        selected: Callable[[str], bool],
        timeout: float,
        turns: ConfigTurns | None = None,
    ) -> ClusterFacts:
        """As `describe`, by metadata that were just read; configs as `turns` says."""
        names = [name for name in counts_of(cluster) if selected(name)]
        return cluster_facts(self.alias, cluster, self.describe_topics(names, timeout, turns))

    def metadata(self, timeout: float) -> ClusterMetadata:
        """The cluster's id, its brokers, and every topic that we may see."""
        # Not by DescribeCluster: librdkafka (2.16.0) ends the whole process when a broker answers
        # that with no broker at all, as one does that was frozen and has just woken up.
        end = time.monotonic() + timeout
        cluster = self._one(self.client.metadata(timeout + GRACE_SECONDS), end, timeout)
        self._brokers = frozenset(cluster.brokers)
        return cluster

    def partition_counts(self, timeout: float) -> dict[str, int]:
        """Every topic that we may see -> its number of partitions."""
        return counts_of(self.metadata(timeout))

    def describe_topics(
        self, names: Iterable[str], timeout: float, turns: ConfigTurns | None = None
    ) -> Described:
        """Ids, partitions, configs and permitted operations of topics; failures are per topic.

        Configs of all of them, or as `turns` says.
        """
        wanted = sorted(set(names))
        if not wanted:
            return Described({})
        end = time.monotonic() + timeout
        if (
            self._controller_doubted
            and controller_away(self.metadata(timeout), KNOCK_SECONDS, tls=self._tls)
            and not self._takes_another_controller(end, timeout * FIRST_TRY)
        ):
            away = KafkaError(KafkaError._TRANSPORT, "the controller does not answer")
            raise self._failed(KafkaException(away), timeout)
        self._controller_doubted = True  # until it is seen to have answered
        topics: dict[str, Any] = {}
        known: dict[str, Any] = {}
        due = frozenset(wanted) if turns is None else turns.due(wanted)
        for part in in_parts(wanted, MOST_TOPICS):
            futures, configs = self.by_controller(
                partial(self._ask_topics, part, [name for name in part if name in due]),
                timeout,
                end,
            )
            found = self.wait(futures, timeout, end)
            known |= self._configs(configs, timeout, end)
            if turns is not None and (others := turns.others(found, due)):
                known |= self._configs(self._ask_configs(others, timeout), timeout)
            topics |= found
            end = time.monotonic() + timeout
        self._controller_doubted = False
        described = facts_of(topics, known)
        return described if turns is None else turns.take(described, known)

    def descriptions(self, names: Iterable[str], timeout: float) -> dict[str, Any]:
        """What one request about topics finds: of each its description, or the error."""
        wanted, end = TopicCollection(list(names)), time.monotonic() + timeout
        (futures,) = self.by_controller(
            lambda it: (self.client.describe_topics(wanted, request_timeout=it),), timeout, end
        )
        return self.wait(futures, timeout, end)

    def by_controller(
        self, ask: Callable[[float], Asked], timeout: float, until: float | None = None
    ) -> Asked:
        """What `ask` returns: questions, in that many seconds, that librdkafka asks the controller.

        Asked again where a broker hangs. In a cluster without ZooKeeper each answer to a question
        for metadata names another broker as the controller, and for as long as the cluster has not
        noticed it one that hangs as well.
        """
        end = time.monotonic() + timeout if until is None else until
        patience = timeout * FIRST_TRY
        while True:
            is_new = not self.answered_at
            asked = ask(_left(end))
            futures = [it for own in asked for it in own.values()]
            if self.answered_within(futures, min(patience, _left(end))):
                return asked
            if _left(end) < KNOCK_SECONDS:
                return asked
            if not self._takes_another_controller(end, patience, is_new=is_new):
                return asked

    def _takes_another_controller(
        self, end: float, patience: float, *, is_new: bool = False
    ) -> bool:
        """Whether the client is another one now, as some broker answers nothing, or is gone.

        Then it knows one that answers as the controller, where the cluster has several. One that
        `is_new` is replaced in any case: it may wait for the first broker that it has tried.
        """
        before = self._brokers
        try:
            cluster = self.metadata(min(patience, _left(end)))
        except ClusterCallError:
            # A client may be stuck with the first broker that it has connected to.
            self.client.renew()
            return True
        away = away_of(cluster, cluster.brokers, KNOCK_SECONDS, tls=self._tls)
        if not away and not is_new and before <= self._brokers:
            return False
        self.client.renew()
        while (left := _left(end)) > KNOCK_SECONDS:
            try:
                cluster = self.metadata(left)
            except ClusterCallError:
                # What was asked before says so as well, with the time that it had in all.
                return False
            if cluster.controller_id not in away:
                return True
            time.sleep(RETRY_SECONDS)
        return False

    def _ask_topics(self, names: Sequence[str], due: list[str], seconds: float) -> tuple[Any, Any]:
        futures = self.client.describe_topics(
            TopicCollection(list(names)),
            include_authorized_operations=True,
            request_timeout=seconds,
        )
        return futures, self._ask_configs(due, seconds)

    def _ask_configs(self, names: list[str], timeout: float) -> Mapping[ConfigResource, Any]:
        if not names:
            return {}
        asked = self.client.describe_configs(configs_of(names), request_timeout=timeout)
        return cast("Mapping[ConfigResource, Any]", asked)

    def _configs(
        self, futures: Mapping[ConfigResource, Any], timeout: float, end: float | None = None
    ) -> dict[str, Any]:
        return {it.name: found for it, found in self.wait(futures, timeout, end).items()}

    def cluster_operations(self, timeout: float) -> frozenset[str]:
        """Names of the operations that we may do on the cluster itself, such as CREATE."""
        end = time.monotonic() + timeout
        self.metadata(timeout)  # Fails when there is no broker that could report them.
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

    def stable_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> PartitionOffsets:
        """The same, and latest is the last stable offset, however the cluster is read."""
        end, asked = time.monotonic() + timeout, (_EARLIEST, _LATEST)
        committed = IsolationLevel.READ_COMMITTED
        return ranges_of(*self._list_offsets(partitions, asked, end, timeout, committed))

    def log_ends(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[TopicPartition, int]:
        """The latest offset of each partition that reports it: half the work of `offsets`."""
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
        """The end of all acknowledged records, for each partition that reports it.

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

        def ask(some: Collection[TopicPartition]) -> list[Answers]:
            return self._ask_offsets(some, specs, end, timeout, isolation)

        try:
            return self._of_leaders(wanted, ask, end, timeout)
        except _HungError:
            # Those that hang are left out now. The client might ask them by itself for leaders, as
            # it is connected to them; another one is not.
            self.client.renew()
            return self._of_leaders(wanted, ask, end, timeout)

    def _of_leaders(
        self,
        wanted: Collection[TopicPartition],
        ask: Callable[[Collection[TopicPartition]], list[Answers]],
        end: float,
        timeout: float,
    ) -> list[Answers]:
        """What `ask` answers of partitions with a leader, and an error for each of the others."""
        absent = self._without_leader(wanted, end)
        asked = [tp for tp in wanted if tp not in absent]
        if wanted and not asked:
            none = KafkaError(KafkaError._NOENT, "no partition has a leader")
            if self._leaders_doubted:
                none = KafkaError(KafkaError._TRANSPORT, "no leader of a partition answers")
            raise self._failed(KafkaException(none), timeout)
        try:
            found = ask(asked)
        except ClusterCallError:
            self._leaders_doubted = True
            raise
        # Each time it is looked at whether one that hung answers again: that takes a moment, and a
        # question that it does not answer takes the whole timeout.
        doubted = self._leaders_doubted and bool(self._away)
        self._leaders_doubted = doubted or any(
            is_silence(it) for ends in found for it in ends.values()
        )
        stale = [tp for tp in asked if any(code_of(it[tp]) in OLD_LEADER for it in found)]
        if stale:
            # librdkafka is refused for ever by what it remembers, unless it reads the metadata.
            self.client.forget_leaders()
            absent |= self._without_leader(stale, end)
            led = [tp for tp in stale if tp not in absent]
            again = ask(led)
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
            leaders = self._leaders_that_answer(wanted, end)
        elif leaders is None or without_leader(leaders, wanted):
            # There may be one by now.
            leaders = leaders_of(self.metadata(_left(end)))
        return without_leader(leaders, wanted)

    def _leaders_that_answer(self, wanted: Collection[TopicPartition], end: float) -> Leaders:
        cluster = self.metadata(_left(end))
        self._away = brokers_away(cluster, wanted, KNOCK_SECONDS, tls=self._tls)
        return leaders_of(cluster, self._away)

    def _raise_if_hung(
        self,
        wanted: Collection[TopicPartition],
        asked: Iterable[Mapping[TopicPartition, Future[Any]]],
        end: float,
    ) -> None:
        """Look, a moment after a question, whether leaders that have not answered yet ever will.

        librdkafka gives no answer of one leader before it has that of all. When that is known
        already, those that hang were not asked.
        """
        if self._leaders_doubted:
            return
        futures = [it for own in asked for it in own.values()]
        if wait_for_all(futures, min(PATIENCE_SECONDS, _left(end))).not_done:
            self._leaders_that_answer(wanted, end)
            self._leaders_doubted = bool(self._away)
            if self._away:
                raise _HungError

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
        answers: list[dict[TopicPartition, Any]] = [{} for _ in specs]
        for part in in_parts(wanted, MOST_PARTITIONS):
            asked = []
            for spec in specs:
                futures = self.client.list_offsets(
                    {ClientPartition(tp.topic, tp.partition): spec for tp in part},
                    isolation_level=isolation or self._isolation,
                    request_timeout=max(LEAST_SECONDS, _left(end)),
                )
                own = {TopicPartition(tp.topic, tp.partition): it for tp, it in futures.items()}
                asked.append(own)
            self._raise_if_hung(part, asked, end)
            for found, own in zip(answers, asked, strict=True):
                found |= self.wait(own, timeout, end)
            end = time.monotonic() + timeout
        return list(answers)


def _left(end: float) -> float:
    return max(0.01, end - time.monotonic())
