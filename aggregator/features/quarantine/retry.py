"""Retries quarantined records: each is written to its hub topic once, or stays where it is.

Before a record is written, a note in the quarantine topic says so, and where the hub partition
ends; afterwards another one says how it went. So a later attempt after one of unknown outcome knows
from where to search for the record, and need not read the whole hub topic.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from aggregator.config.dedup import DedupRule
from aggregator.config.kafka_settings import ignore, jvm_settings
from aggregator.config.schema import Config
from aggregator.features.quarantine.content import Content, content_of, has_event, hub_partition
from aggregator.features.quarantine.ledger import Ledger, LedgerEntry
from aggregator.features.quarantine.reader import QuarantineReader
from aggregator.features.quarantine.records import Note, Quarantined, RecordState, origin_of
from aggregator.kafka.admin import HUB, ClusterAdmin
from aggregator.kafka.admin.client_errors import text_of
from aggregator.kafka.credentials import client_settings
from aggregator.model.errors import ClusterError
from aggregator.model.record_rules import PoisonReason
from aggregator.model.values import OffsetRange, TopicFacts, TopicPartition
from aggregator.plan.topics.quarantine_topics import APPEND_TIME
from aggregator.plan.topics.source_configs import TIMESTAMP_TYPE, policies

DELIVERY_SECONDS = 30.0
"""Well below `ledger.BUSY_MS`: after that nothing of this attempt arrives any more."""
NOT_DELIVERED = (
    *(KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT, KafkaError._PURGE_INFLIGHT),
    *(KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT),
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
"""Errors after which it is unknown whether the record was written."""
NEVER_AGAIN = {"enable.idempotence": False, "retries": 0}
"""With the timestamp of an old record the hub forgets its producer, and accepts it twice."""


@dataclass(frozen=True, slots=True)
class RetryOutcome:
    """The outcome for one record. RETRIED: the hub topic has it now."""

    record: Quarantined
    state: RecordState
    detail: str = ""


class Retry:
    """One command's attempts, one record after the other.

    Safe beside a running instance: what is retried lies in the quarantine topic already, so no
    recovery writes it. Safe beside another retry: the one that notes its attempt second steps back.
    """

    def __init__(
        self, config: Config, admin: ClusterAdmin, reader: QuarantineReader, ledger: Ledger
    ) -> None:
        self._config = config
        self._admin = admin
        self._reader = reader
        self._ledger = ledger
        self._by = uuid.uuid4().hex
        self._timeout = config.supervision.connect_timeout
        self._notes = Producer(_settings(config))
        self._records = record_producer(config)
        self._facts: dict[str, TopicFacts | None] = {}

    def retry(
        self, entries: Iterable[LedgerEntry], *, dry_run: bool, overwrite: bool
    ) -> Iterator[RetryOutcome]:
        """Try each entry, and yield its outcome when it is over.

        `overwrite` takes those of compacted hub topics too, where an older value may replace a
        newer one, and refused ones with an event's id of hub topics that have each event once.
        Raises ClusterError when the hub does not answer.
        """
        for entry in entries:
            yield self._one(entry.record, dry_run=dry_run, overwrite=overwrite)

    def _one(self, record: Quarantined, *, dry_run: bool, overwrite: bool) -> RetryOutcome:
        facts = self._facts_of(record.hub_topic)
        if facts is None:
            return RetryOutcome(
                record, RecordState.OPEN, f"hub topic {record.hub_topic} does not exist"
            )
        if "compact" in policies(facts.cleanup_policy) and not overwrite:
            reason = f"hub topic {record.hub_topic} is compacted, and may hold a newer value of its"
            return RetryOutcome(
                record, RecordState.OPEN, f"{reason} key; --overwrite writes it all the same"
            )
        if record.kind == PoisonReason.SCHEMA:
            reason = f"its id ({record.reason}) is one that its source's registry did not know"
            return RetryOutcome(record, RecordState.OPEN, reason)
        content = content_of(self._config, self._reader, record)
        if isinstance(content, str):
            return RetryOutcome(record, RecordState.OPEN, content)
        rules = self._config.topics.rules_for(record.hub_topic)
        if not overwrite and (reason := _once(rules.dedup, record, content)):
            return RetryOutcome(record, RecordState.OPEN, reason)
        rule = rules.partition_by
        place = TopicPartition(
            record.hub_topic, hub_partition(rule, record.origin, content.key, facts.partitions)
        )
        if dry_run:
            where = self._reader.place.topic if record.whole else "its source"
            return RetryOutcome(
                record, RecordState.OPEN, f"would be written to {place}, out of {where}"
            )
        return self._write(record, content, place)

    def _write(self, record: Quarantined, content: Content, place: TopicPartition) -> RetryOutcome:
        attempt = Note(
            record.origin, RecordState.TRYING, self._by, place.partition, self._end(place)
        )
        self._note(attempt)
        self._reader.read_ledger(self._admin, self._ledger)
        if self._ledger[record.origin].state is RecordState.RETRIED:
            # For versions that would take the note above for an attempt without an outcome.
            self._note(replace(attempt, state=RecordState.RETRIED))
            return RetryOutcome(record, RecordState.RETRIED, "another retry has written it")
        if (other := self._ledger.busy(record.origin, self._by)) is not None:
            self._note(replace(attempt, state=RecordState.OPEN))
            why = "another retry is at it; try again in 2 minutes"
            if other.at_ms is None:
                why = (
                    "another retry is at it, or was; its outcome is unknown until "
                    f"{self._reader.place.topic} has {TIMESTAMP_TYPE}={APPEND_TIME}"
                )
            return RetryOutcome(record, RecordState.TRYING, why)
        found = self._find(record, self._ledger[record.origin].attempts)
        if found is not None:
            self._note(replace(found, state=RecordState.RETRIED, by=self._by))
            return RetryOutcome(record, RecordState.RETRIED, "an earlier retry had written it")
        offset, error = send(self._records, place, content)
        if error is None:
            self._note(replace(attempt, state=RecordState.RETRIED, hub_offset=offset))
            return RetryOutcome(record, RecordState.RETRIED, f"written to {place}@{offset}")
        detail = text_of(error)
        if error.code() in NOT_DELIVERED:
            return RetryOutcome(
                record, RecordState.TRYING, f"{detail}: it may be written yet; try again later"
            )
        # What the hub cannot take just now, such as while a leader moves, is not refused by it.
        state = RecordState.OPEN if error.retriable() else RecordState.REFUSED
        self._note(replace(attempt, state=state, detail=detail))
        return RetryOutcome(record, state, detail)

    def _find(self, record: Quarantined, attempts: Sequence[Note]) -> Note | None:
        """Where an attempt of unknown outcome has written the record, if it has."""
        for attempt in attempts:
            if attempt.by == self._by:
                continue
            place = TopicPartition(record.hub_topic, attempt.hub_partition)
            log = OffsetRange(attempt.hub_offset, self._end(place))
            for raw in self._reader.read_range(HUB, place, log):
                if origin_of(raw) == record.origin:
                    return replace(attempt, hub_offset=raw.offset)
        return None

    def _facts_of(self, topic: str) -> TopicFacts | None:
        if topic not in self._facts:
            self._facts[topic] = self._admin.describe_topics([topic], self._timeout).topics.get(
                topic
            )
        return self._facts[topic]

    def _end(self, place: TopicPartition) -> int:
        found = self._admin.offsets([place], self._timeout)
        if place not in found.ranges:
            raise ClusterError(f"hub: {place}: {found.failed[place]}")
        return found.ranges[place].latest

    def _note(self, note: Note) -> None:
        place = self._reader.place
        key = str(note.origin).encode()
        _, error = send(self._notes, place, Content(key, None, note.headers(), -1))
        if error is not None:
            raise ClusterError(
                f"hub: {place.topic} takes no notes ({text_of(error)}); allow WRITE on it"
            )


def _once(rule: DedupRule, record: Quarantined, content: Content) -> str:
    """Why a record may not be written to a hub topic that has each event once; "" if it may.

    The event of a refused record is not remembered, so that of another source is written, at any
    moment. A record that dedup itself has dropped is written because a person asks for it.
    """
    if (
        not rule.is_on
        or record.kind not in set(PoisonReason)
        or not has_event(rule.by or "", content)
    ):
        return ""
    return (
        f"hub topic {record.hub_topic} has each event once (dedup by {rule.by}), and may hold the "
        "event of this record out of another one; --overwrite writes it all the same"
    )


def record_producer(config: Config) -> Producer:
    """A producer for quarantined records, which never sends one again by itself."""
    return Producer({**_settings(config), **NEVER_AGAIN})


def send(
    producer: Producer, place: TopicPartition, content: Content
) -> tuple[int, KafkaError | None]:
    """Write one record and wait: its offset, or why not."""
    result: list[tuple[int, KafkaError | None]] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        result.append((int(message.offset() or 0), error))

    try:
        producer.produce(
            place.topic,
            content.value,
            content.key,
            place.partition,
            on_delivery=delivered,
            # 0 is now, in this client: the record has no timestamp.
            timestamp=max(content.timestamp, 0),
            headers=list(content.headers),
        )
    except KafkaException as error:
        return 0, error.args[0]
    producer.flush(DELIVERY_SECONDS + 5)
    return result[0] if result else (0, KafkaError(KafkaError._MSG_TIMED_OUT))


def _settings(config: Config) -> dict[str, Any]:
    return {
        **client_settings(config.hub),
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": jvm_settings(config.hub, "producer")["compression.type"],
        "delivery.timeout.ms": int(DELIVERY_SECONDS * 1000),
        # The hub decides what is too large.
        "message.max.bytes": 1_000_000_000,
        "linger.ms": 0,
        "log_level": 0,
        "error_cb": ignore,
    }
