"""Asks clusters about consumer groups: which there are, what they have committed; and commits."""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Semaphore
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from aggregator.config.kafka_settings import ignore
from aggregator.config.schema import ClusterConfig, Config
from aggregator.features.groups.hub_offsets import Marked
from aggregator.kafka.admin import ClusterAdmin, ClusterCallError, each_cluster
from aggregator.kafka.admin.client_errors import AUTHORIZATION, TIMEOUT, code_of, explain, text_of
from aggregator.kafka.admin.offsets import leaders_of
from aggregator.kafka.admin.parallel import Replies
from aggregator.kafka.credentials import client_settings
from aggregator.kafka.reader import open_consumer
from aggregator.model.errors import ClusterError
from aggregator.model.values import TopicPartition

NOT_YET = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._WAIT_COORD,
    }
)
"""Who coordinates the group is not known yet, or a transaction of it is open."""
PAUSE_SECONDS = 0.2
AT_ONCE = 8
"""How many groups are queried at the same time."""
GROUP_HINT = "allow READ on the group"
GROUPS_TOPIC = "__consumer_offsets"


def group_states(admin: ClusterAdmin, timeout: float) -> dict[str, str]:
    """Every visible group -> its state, such as `STABLE` or `EMPTY`.

    From the list of groups, as a description does not know every kind of group. Raises ClusterError
    when a broker does not list its own.
    """
    end = time.monotonic() + timeout
    while True:
        left = max(PAUSE_SECONDS, end - time.monotonic())
        future: Future[Any] = admin.client.list_consumer_groups(request_timeout=left)
        (found,) = admin.wait({"": future}, left).values()
        error = found if isinstance(found, Exception) else next(iter(found.errors), None)
        if error is None:
            states = {it.group_id: it.state for it in getattr(found, "valid", ())}
            return {name: "UNKNOWN" if it is None else it.name for name, it in states.items()}
        if code_of(error) not in NOT_YET or time.monotonic() >= end:
            hint = f" ({GROUP_HINT})" if code_of(error) in AUTHORIZATION else ""
            raise ClusterError(f"{admin.alias}: its groups are unknown: {text_of(error)}{hint}")
        time.sleep(PAUSE_SECONDS)


def unlisted(admin: ClusterAdmin, timeout: float) -> str:
    """Why the cluster may have groups that `group_states` does not return, or "".

    A broker lists the groups in those partitions of Kafka's topic that it leads. Of a partition
    without a leader no broker lists them, and none reports an error. Raises ClusterError.
    """
    topic = leaders_of(admin.metadata(timeout)).get(GROUPS_TOPIC)
    if topic is None or not topic.leaderless:
        return ""
    return (
        f"{len(topic.leaderless)} of {topic.partitions} partitions of {GROUPS_TOPIC} have no "
        "leader, and no broker lists the groups in them"
    )


def ask_states(config: Config, clusters: Collection[str]) -> Replies[dict[str, str]]:
    """The groups, with their states, of each cluster (alias, or HUB) that lists them."""
    timeout = config.supervision.connect_timeout
    return each_cluster(config, clusters, lambda admin: group_states(admin, timeout))


def ask_unlisted(config: Config, clusters: Collection[str]) -> dict[str, str]:
    """Those of the clusters that may have groups that they do not list, and why."""
    timeout = config.supervision.connect_timeout
    replies = each_cluster(config, clusters, lambda admin: unlisted(admin, timeout))
    reasons = {alias: str(error) for alias, error in replies.failed.items()} | replies.ok
    return {alias: why for alias, why in reasons.items() if why}


def committed_by_all(
    alias: str,
    cluster: ClusterConfig,
    groups: Collection[str],
    partitions: Collection[TopicPartition],
    timeout: float,
    slots: Semaphore | None = None,
) -> tuple[dict[str, dict[TopicPartition, int]], dict[str, ClusterError]]:
    """What each group has committed; and for a group that cannot be queried, why.

    A missing right affects one group only. Each group takes one of the `slots` while it is queried,
    where there are some: its time begins then. Raises ClusterError when the cluster answers nothing
    at all.
    """
    offsets: dict[str, dict[TopicPartition, int]] = {}
    failed: dict[str, ClusterError] = {}
    free = slots or Semaphore(AT_ONCE)

    def ask(group: str) -> None:
        try:
            with free:
                found = committed(alias, cluster, group, partitions, timeout)
        except ClusterError as error:
            failed[group] = error
        else:
            offsets[group] = {tp: it.offset for tp, it in found.items()}

    # An answer takes a round trip or two, and there may be hundreds of groups.
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ask-groups") as pool:
        list(pool.map(ask, groups))
    silent = [it for it in failed.values() if code_of(it.__cause__) not in AUTHORIZATION]
    if silent and not offsets:
        raise silent[0]
    return offsets, failed


def committed(
    alias: str,
    cluster: ClusterConfig,
    group: str,
    partitions: Collection[TopicPartition],
    timeout: float,
) -> dict[TopicPartition, Marked]:
    """The offsets that a group has committed, of those partitions that have any.

    Joins no group. Not by the admin client: confluent-kafka (2.16.0) ends the process when that
    lists the offsets of a group whose coordinator it does not know. Raises ClusterError.
    """
    if not partitions:
        return {}
    end = time.monotonic() + timeout
    settings: dict[str, Any] = {
        **client_settings(cluster),
        "group.id": group,
        "client.id": "aggregator-groups",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "log_level": 0,
        "error_cb": ignore,
    }
    consumer = open_consumer(alias, settings)
    wanted = [ClientPartition(*tp) for tp in sorted(partitions)]
    turn = PAUSE_SECONDS
    try:
        while True:
            try:
                left = max(PAUSE_SECONDS, end - time.monotonic())
                found = consumer.committed(wanted, timeout=min(turn, left))
                break
            except KafkaException as error:
                # Without the right to see the group the call does not fail: it waits for a
                # coordinator.
                refused = _refused(consumer)
                if refused is not None:
                    raise _failed(alias, group, refused) from refused
                if code_of(error) not in (*NOT_YET, *TIMEOUT) or time.monotonic() >= end:
                    raise _failed(alias, group, error) from error
                if code_of(error) in NOT_YET:
                    time.sleep(PAUSE_SECONDS)
                turn *= 2
    finally:
        consumer.close()
    for each in found:
        if each.error is not None:
            refused = KafkaException(each.error)
            raise _failed(alias, group, refused) from refused
    return {
        TopicPartition(it.topic, it.partition): Marked(it.offset, it.metadata or "")
        for it in found
        if it.offset >= 0
    }


def _refused(consumer: Consumer) -> KafkaException | None:
    """Why its group's coordinator is not known, if a right is missing."""
    message = consumer.poll(0)
    error = message.error() if message is not None else None
    return KafkaException(error) if error is not None and error.code() in AUTHORIZATION else None


def _failed(alias: str, group: str, error: KafkaException) -> ClusterError:
    hint = f" ({GROUP_HINT})" if code_of(error) in AUTHORIZATION else ""
    return ClusterError(f"{alias}: offsets of group {group}: {text_of(error)}{hint}")


def commit(
    admin: ClusterAdmin,
    group: str,
    offsets: Mapping[TopicPartition, int],
    timeout: float,
    mark: str,
) -> str:
    """Commit offsets of a group at the hub, with `mark` beside them; why that was refused, or "".

    The hub itself refuses it for a group with members.
    """
    end = time.monotonic() + timeout
    while True:
        try:
            left = max(PAUSE_SECONDS, end - time.monotonic())
            commit_group(admin, group, offsets, left, mark)
        except ClusterError as error:
            # At first it is often not known who coordinates a group.
            if code_of(error.__cause__) not in NOT_YET or time.monotonic() >= end:
                return str(error)
            time.sleep(PAUSE_SECONDS)
        else:
            return ""


def commit_group(
    admin: ClusterAdmin,
    group: str,
    offsets: Mapping[TopicPartition, int],
    timeout: float,
    mark: str = "",
) -> None:
    """Set committed offsets of a group without an active member, with a text beside each.

    Raises ClusterCallError also for a partition that is refused.
    """
    rows = [
        ClientPartition(tp.topic, tp.partition, at, metadata=mark) for tp, at in offsets.items()
    ]
    futures = admin.client.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, rows)], request_timeout=timeout
    )
    (answer,) = admin.wait(futures, timeout).values()
    refused = [it.error for it in getattr(answer, "topic_partitions", ()) if it.error]
    if isinstance(answer, Exception) or refused:
        error = answer if isinstance(answer, Exception) else KafkaException(refused[0])
        raise ClusterCallError(explain(admin.alias, admin.path, error, (), timeout)) from error
