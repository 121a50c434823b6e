"""The landing topics at the hub at one moment: their ids, and their logs."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.config.kafka_settings import jvm_settings
from aggregator.config.schema import Config
from aggregator.kafka.admin import ClusterAdmin
from aggregator.model.values import OffsetRange, TopicPartition
from aggregator.plan.topics.quarantine_topics import aside_topics
from aggregator.plan.topics.selection import Selection


@dataclass(frozen=True, slots=True)
class TopicNow:
    """A hub topic: its id, "" where the hub reports none, and the log of each partition."""

    topic_id: str
    logs: Mapping[int, OffsetRange]


@dataclass(frozen=True, slots=True)
class HubNow:
    """The topics that land; those of which the hub does not report enough now, and why."""

    topics: Mapping[str, TopicNow]
    failed: Mapping[str, str] = field(default_factory=dict)


def takes(config: Config, selection: Selection, topic: str) -> bool:
    """Whether a hub topic lands. Records that were set aside are no topic of users'."""
    aside = topic in aside_topics(config)
    return selection.matches(topic) and (not aside or topic in selection.literals())


class HubLook:
    """Asks the hub. ConfigError when a pattern of tee.topics is no regex."""

    def __init__(self, config: Config, admin: ClusterAdmin) -> None:
        self._config = config
        self._admin = admin
        self._selection = Selection.of(config.tee.topics)
        self._ids: dict[str, str] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._ids_due = 0.0
        settings = jvm_settings(config.hub, "consumer")
        self._is_committed = settings["isolation.level"] == "read_committed"

    def now(self) -> HubNow:
        """The topics that land, as the hub has them now; ClusterError when it gives no answer."""
        timeout = self._config.supervision.connect_timeout
        counts = {
            topic: count
            for topic, count in sorted(self._admin.partition_counts(timeout).items())
            if takes(self._config, self._selection, topic)
        }
        # One that is away for a moment may be another one when it is back.
        self._ids = {topic: self._ids[topic] for topic in counts if topic in self._ids}
        self._ends = {tp: end for tp, end in self._ends.items() if tp.topic in counts}
        if not counts:
            return HubNow({})
        wanted = [TopicPartition(topic, each) for topic in counts for each in range(counts[topic])]
        # What a batch is read with shows nothing behind an open transaction.
        ask = self._admin.stable_offsets if self._is_committed else self._admin.offsets
        answer = ask(wanted, timeout)
        self._refresh_ids(counts, answer.ranges, timeout)
        failed = {tp.topic: f"hub: {tp}: {reason}" for tp, reason in answer.failed.items()}
        failed |= {it: "hub: the topic's id is not known" for it in counts if it not in self._ids}
        return HubNow(
            {
                topic: TopicNow(
                    self._ids[topic],
                    {each: answer.ranges[TopicPartition(topic, each)] for each in range(count)},
                )
                for topic, count in counts.items()
                if topic not in failed
            },
            failed,
        )

    def _refresh_ids(
        self, counts: Mapping[str, int], logs: Mapping[TopicPartition, OffsetRange], timeout: float
    ) -> None:
        """Ask for ids now and then, and at once when a log is shorter than it was."""
        now = time.monotonic()
        shorter = any(log.latest < self._ends.get(tp, 0) for tp, log in logs.items())
        if shorter or now >= self._ids_due or not counts.keys() <= self._ids.keys():
            described = self._admin.describe_topics(counts, timeout)
            self._ids = {topic: facts.topic_id for topic, facts in described.topics.items()}
            self._ids_due = now + self._config.topics.refresh_interval
        # Not before: what is shorter stays so until the ids are known. Nor is that of a partition
        # forgotten which does not answer just now.
        self._ends |= {tp: log.latest for tp, log in logs.items()}
