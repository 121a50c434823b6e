"""What must not be asked about, and what the answers for offsets come to."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    BrokerMetadata,
    ClusterMetadata,
    ListConsumerGroupsResult,
    ListOffsetsResultInfo,
    PartitionMetadata,
    TopicMetadata,
)

from aggregator.config import load_text
from aggregator.kafka.admin import open_admin
from aggregator.kafka.admin.admin import LEAST_SECONDS
from aggregator.kafka.admin.client_errors import code_of, error_within
from aggregator.kafka.admin.offsets import (
    brokers_away,
    controller_away,
    first_offsets_of,
    leaders_of,
    oldest_of,
    ranges_of,
    without_leader,
)
from aggregator.model.values import OffsetRange, TopicPartition

ONE, TWO, THREE = (TopicPartition("orders", each) for each in range(3))
ELSEWHERE = TopicPartition("bills", 0)
SETS = (
    "hub.bootstrap_servers=127.0.0.1:9",
    "sources.eu.bootstrap_servers=127.0.0.1:10",
    "sources.eu.topics.include=orders",
)
REFUSED = KafkaException(KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION, "not the leader"))
DOWN = KafkaError(KafkaError._TRANSPORT)


def cluster(leaders: dict[int, int], brokers: tuple[int, ...] = (1, 2)) -> ClusterMetadata:
    """The metadata of a cluster with the topic `orders`: partition -> the id of its leader."""
    found, topic = ClusterMetadata(), TopicMetadata()
    found.brokers = dict.fromkeys(brokers, BrokerMetadata())
    found.topics = {"orders": topic}
    for number, leader in leaders.items():
        partition = PartitionMetadata()
        partition.leader = leader
        topic.partitions[number] = partition
    return found


def groups(found: list[Any], errors: list[Any]) -> ListConsumerGroupsResult:
    """A list of groups as librdkafka gives it, with errors that are not exceptions."""
    return ListConsumerGroupsResult(found, errors)


def at(offset: int, timestamp: int = -1) -> Any:
    return SimpleNamespace(offset=offset, timestamp=timestamp)


@pytest.mark.parametrize(
    ("found", "asked", "absent"),
    [
        (cluster({0: 1, 1: 2}), [ONE, TWO], {}),
        (cluster({0: 1, 1: -1}), [ONE, TWO], {TWO: KafkaError.LEADER_NOT_AVAILABLE}),
        # Of such a leader librdkafka knows no more than of none.
        (cluster({0: 1, 1: 3}), [ONE, TWO], {TWO: KafkaError.LEADER_NOT_AVAILABLE}),
        (cluster({0: 1, 1: 2}), [ONE, THREE], {THREE: KafkaError.UNKNOWN_TOPIC_OR_PART}),
        (cluster({0: 1}), [ONE, ELSEWHERE], {ELSEWHERE: KafkaError.UNKNOWN_TOPIC_OR_PART}),
        # What a broker answers that was frozen and has just woken up.
        (cluster({0: 1}, brokers=()), [ONE], {ONE: KafkaError.LEADER_NOT_AVAILABLE}),
    ],
)
def test_what_has_no_leader_is_reported(
    found: ClusterMetadata, asked: list[TopicPartition], absent: dict[TopicPartition, int]
) -> None:
    assert absent == {
        tp: code_of(error) for tp, error in without_leader(leaders_of(found), asked).items()
    }


def test_a_broker_that_is_away_leads_nothing() -> None:
    away = without_leader(leaders_of(cluster({0: 1, 1: 2}), away={2}), [ONE, TWO])
    assert away.keys() == {TWO}


@contextmanager
def answering(listens: socket.socket) -> Iterator[None]:
    """Answers the first bytes of each connection, until the block ends."""

    def answer() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listens.accept()
                with connection:
                    if connection.recv(100):
                        connection.sendall(b"\0\0\0\0")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield
    finally:
        listens.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("tls", [False, True])
def test_who_takes_a_connection_and_answers_nothing_is_away(tls: bool) -> None:
    found = cluster({0: 1, 1: 2})
    with (
        socket.create_server(("127.0.0.1", 0)) as listens,
        socket.create_server(("127.0.0.1", 0)) as hangs,
        answering(listens),
    ):
        found.brokers = {1: BrokerMetadata(), 2: BrokerMetadata()}
        for number, each in ((1, listens), (2, hangs)):
            found.brokers[number].host, found.brokers[number].port = each.getsockname()
        assert brokers_away(found, [ONE], 5, tls=tls) == frozenset()
        assert brokers_away(found, [TWO], 0.2, tls=tls) == {2}


def test_who_takes_no_connection_is_away() -> None:
    found = cluster({0: 1, 1: 2, 2: -1})
    with (
        socket.create_server(("127.0.0.1", 0)) as listens,
        socket.socket() as bound,
        answering(listens),
    ):
        # Bound, so that no one else takes the port; no one listens on it.
        bound.bind(("127.0.0.1", 0))
        found.brokers = {1: BrokerMetadata(), 2: BrokerMetadata()}
        for number, each in ((1, listens), (2, bound)):
            found.brokers[number].host, found.brokers[number].port = each.getsockname()
        assert brokers_away(found, [ONE, TWO, THREE, ELSEWHERE], 5, tls=False) == {2}
        # Who leads nothing of it is not asked.
        assert brokers_away(found, [ONE], 5, tls=False) == frozenset()
        for number, away in ((1, False), (2, True), (-1, False)):
            found.controller_id = number
            assert controller_away(found, 5, tls=False) is away


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (ListOffsetsResultInfo(0, -1, -1), None),
        # No record has that timestamp.
        (ListOffsetsResultInfo(-1, -1, -1), None),
        # And no leader has answered.
        (ListOffsetsResultInfo(-1001, -1, -1), KafkaError._TIMED_OUT),
        (groups([], []), None),
        (groups(["one"], [DOWN]), None),
        (groups([], [DOWN]), KafkaError._TRANSPORT),
        (None, None),
    ],
)
def test_a_result_that_is_none_has_an_error(result: object, code: int | None) -> None:
    assert code_of(error_within(result)) == code


def test_ranges_and_why_some_are_missing() -> None:
    found = ranges_of(
        {ONE: at(3), TWO: REFUSED, THREE: at(0)}, {ONE: at(9), TWO: at(1), THREE: REFUSED}
    )
    assert found.ranges == {ONE: OffsetRange(3, 9)}
    assert found.failed == {TWO: "not the leader", THREE: "not the leader"}


def test_a_time_after_the_last_record_is_the_end_of_the_log() -> None:
    times = {ONE: at(4), TWO: at(-1), THREE: REFUSED}
    assert first_offsets_of(times, {ONE: at(9), TWO: at(7), THREE: at(1)}) == {ONE: 4, TWO: 7}


def test_the_oldest_record_of_a_topic_is_that_of_any_partition() -> None:
    answers = {ONE: at(0, 2000), TWO: at(5, 1000), THREE: at(-1), ELSEWHERE: REFUSED}
    assert oldest_of(answers) == {"orders": 1000}


@pytest.mark.parametrize(("timeout", "given"), [(0.01, LEAST_SECONDS), (30.0, 30.0)])
def test_a_question_for_offsets_never_has_so_little_time_that_it_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, timeout: float, given: float
) -> None:
    """However little of it is left to wait for the answer."""
    asked: list[float] = []

    class Client:
        def close(self) -> None:
            pass

        def poll(self, seconds: float) -> None:
            pass

        def leaders(self) -> Any:
            return leaders_of(cluster({0: 1}))

        def list_offsets(self, wanted: Any, *, request_timeout: float, **_: Any) -> Any:
            asked.append(request_timeout)
            answers = {tp: Future[Any]() for tp in wanted}
            for each in answers.values():
                each.set_result(at(7))
            return answers

    with open_admin(load_text("", SETS), "eu") as admin:
        admin.client.close()
        monkeypatch.setattr(admin, "client", Client())
        assert admin.log_ends([ONE], timeout) == {ONE: 7}
    assert asked == [pytest.approx(given, abs=1.0)]
    assert asked[0] >= min(given, LEAST_SECONDS)
