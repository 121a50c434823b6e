"""What `aggregator check` asks of each cluster: reachable, allowed, and within limits.

Permissions are asked from the brokers (authorized operations), so nothing is read or written. The
hub must also give a producer id: without one no idempotent producer, as ours always are, writes
there. librdkafka reports at once a broker that gives none (before 0.11, or 2.8 without ZooKeeper);
that an id was given shows only in its statistics.
"""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from aggregator.config.kafka_settings import ignore, jvm_settings
from aggregator.config.schema import ClusterConfig, Config
from aggregator.kafka.admin.admin import ClusterAdmin
from aggregator.kafka.admin.all_clusters import producer_expiry, selector
from aggregator.kafka.admin.client_errors import ClusterCallError
from aggregator.kafka.admin.pool import HUB, open_admin
from aggregator.kafka.admin.rights import (
    HUB_NEEDS,
    SOURCE_NEEDS,
    CheckResult,
    create_rights,
    group_rights,
    hidden,
    topic_rights,
)
from aggregator.kafka.admin.topic_facts import Described
from aggregator.kafka.credentials import (
    CertificateExpiry,
    CredentialsError,
    certificates,
    client_settings,
    principal,
)
from aggregator.model.values import ClusterFailure, FailureKind, TopicFacts
from aggregator.plan.lanes.producer import EXPIRY, REQUEST_TIMEOUT_MS, short_expiry
from aggregator.plan.topics.quarantine_topics import APPEND_TIME, aside_topics

POLL_SECONDS = 0.1
STATISTICS_MS = 100


def refused_producer_id(settings: Mapping[str, Any], timeout: float) -> str | None:
    """Why the brokers of a cluster cannot give a producer id, in librdkafka's words.

    "" when they have given one, None when that is not known: a right may be missing, which the
    checks of rights report. `settings` are those of a librdkafka client of it. Nothing is written.
    """
    states: list[str] = []

    def on_statistics(text: str) -> None:
        states.append(str(json.loads(text).get("eos", {}).get("idemp_state", "")))

    asked = {
        **settings,
        "enable.idempotence": True,
        "statistics.interval.ms": STATISTICS_MS,
        "error_cb": ignore,
        "stats_cb": on_statistics,
        "log_level": 0,
    }
    deadline = time.monotonic() + timeout
    try:
        producer = Producer(asked)
        while "Assigned" not in states and time.monotonic() < deadline:
            producer.poll(POLL_SECONDS)
    except KafkaException as error:
        # What is fatal is raised by whatever the producer is asked next.
        found: KafkaError = error.args[0]
        return str(found.str()) if found.code() == KafkaError._UNSUPPORTED_FEATURE else None
    return "" if "Assigned" in states else None


SOON_SECONDS = 30 * 86_400
"""A certificate that expires within this time is pointed out."""


def check_cluster(config: Config, alias: str, timeout: float) -> list[CheckResult]:
    """Check one source, or the hub (`HUB`), in at most `timeout` seconds per question.

    Never raises for a cluster that does not answer: that is the first result, and the only one.
    """
    cluster: ClusterConfig = config.hub if alias == HUB else config.sources[alias]
    try:
        shown = certificates(cluster.kafka)
    except CredentialsError:
        shown = []  # The client cannot be made either, which is reported below.
    found = [_certificate(alias, it) for it in shown]
    try:
        with open_admin(config, alias) as admin:
            who = principal(cluster.kafka, shown)
            return [*_check(config, alias, admin, timeout, who), *found]
    except ClusterCallError as error:
        return [*_unanswered(alias, error.failure), *found]


def _certificate(alias: str, shown: CertificateExpiry) -> CheckResult:
    path = "hub" if alias == HUB else f"sources.{alias}"
    until = datetime.fromtimestamp(shown.until_ms / 1000, UTC)
    left = shown.until_ms / 1000 - time.time()
    what = "ours" if shown.name == "keystore" else "those that are trusted"
    detail = f"{shown.subject}: {'expired on' if left < 0 else 'valid until'} {until:%Y-%m-%d}"
    renew = f"renew {path}.kafka.{shown.setting}, then: aggregator reload"
    return CheckResult(
        alias, f"certificate ({what})", left >= 0, detail, renew if left < SOON_SECONDS else ""
    )


def _unanswered(alias: str, failure: ClusterFailure) -> list[CheckResult]:
    """Refused still proves that the cluster can be reached."""
    if failure.kind is FailureKind.REFUSED:
        return [
            CheckResult(alias, "reachable", True, "brokers answer"),
            CheckResult(alias, "authenticated", False, failure.reason, failure.hint),
        ]
    return [
        CheckResult(alias, "reachable", False, f"{failure.kind}: {failure.reason}", failure.hint)
    ]


def _check(
    config: Config, alias: str, admin: ClusterAdmin, timeout: float, who: str
) -> list[CheckResult]:
    facts = admin.describe(selector(config, alias), timeout)
    brokers = f"{facts.brokers} broker{'s' if facts.brokers != 1 else ''}"
    protocol = (config.hub if alias == HUB else config.sources[alias]).kafka.get(
        "security.protocol", "PLAINTEXT"
    )
    results = [
        CheckResult(alias, "reachable", True, brokers),
        CheckResult(alias, "authenticated", True, protocol),
        CheckResult(alias, "cluster id", True, facts.cluster_id),
    ]
    names = [name for name in facts.topics if selector(config, alias)(name)]
    described = admin.describe_topics(names, timeout)
    if alias == HUB:
        results += _hub_rights(config, admin, described, timeout, who)
        results.append(_producer_id(config, timeout))
        results.append(_producer_expiry(producer_expiry(admin, timeout)))
        results += _hub_limits(config, described, facts.brokers)
    else:
        path = f"sources.{alias}.topics"
        found = f"{len(names)} selected of {len(facts.topics)} that we may see"
        hint = "" if names else f"check {path}, and that Describe is allowed on the topics"
        results.append(CheckResult(alias, "topics", bool(names), found, hint))
        results += topic_rights(alias, described, SOURCE_NEEDS, who)
        unseen = hidden(config.sources[alias], facts.topics, admin, timeout)
        results += topic_rights(alias, unseen, SOURCE_NEEDS, who)
        if config.sources[alias].publish_group:
            results.append(group_rights(alias, f"aggregator-{config.name}", admin, timeout, who))
    return results


def _hub_rights(
    config: Config, admin: ClusterAdmin, described: Described, timeout: float, who: str
) -> list[CheckResult]:
    needs = [*HUB_NEEDS]
    if config.topics.sync_configs:
        needs.append("ALTER_CONFIGS")
    if config.topics.grow:
        needs.append("ALTER")
    results = topic_rights(HUB, described, needs, who)
    if config.topics.create:
        names = [*described.topics, *aside_topics(config)]
        results.append(create_rights(config, names, admin, timeout, who))
    return results


def _producer_id(config: Config, timeout: float) -> CheckResult:
    """Ours are idempotent producers: whether the hub takes such ones."""
    why = refused_producer_id(client_settings(config.hub), timeout)
    hint = "the hub has to be Kafka 3.0 or newer, or an older one with ZooKeeper" if why else ""
    detail = why or ("taken" if why == "" else "not reported by the brokers")
    return CheckResult(HUB, "idempotent producers", not why, detail, hint)


def _producer_expiry(reported: int | None) -> CheckResult:
    """How old a record may be for the hub to recognise it when it is sent twice."""
    words = "not reported by the brokers, so Kafka's default of a day is assumed"
    allow = f"allow DescribeConfigs on the hub's cluster, or see that {EXPIRY} is at least a day"
    if reported is not None:
        words, allow = f"{reported} ms", short_expiry(reported)
    return CheckResult(HUB, EXPIRY, True, words, allow)


def _hub_limits(config: Config, described: Described, brokers: int) -> list[CheckResult]:
    results = []
    copies = config.topics.replication_factor
    if copies is not None:
        results.append(
            CheckResult(
                HUB,
                "replication factor",
                copies <= brokers,
                f"topics.replication_factor = {copies}, {brokers} brokers",
                "" if copies <= brokers else f"set topics.replication_factor to {brokers} or less",
            )
        )
    if any(facts.replication_factor > 1 for facts in described.topics.values()):
        results.append(_hung_follower(config))
    for name, facts in described.topics.items():
        results.append(_in_sync(name, facts, described.effective.get(name, {})))
        wanted = APPEND_TIME if name in aside_topics(config) else "CreateTime"
        results.append(_limits(name, facts, wanted))
    return results


def _hung_follower(config: Config) -> CheckResult:
    """How long other partitions wait when a replica in sync takes no write: by the broker's turn.

    A broker answers the requests of a connection one after the other.
    """
    wait = jvm_settings(config.hub, "producer").get("request.timeout.ms", REQUEST_TIMEOUT_MS)
    detail = (
        f"while one hangs and counts as in sync, others of its leader wait up to {wait} ms "
        "(request.timeout.ms in hub.producer), or the hub's replica.lag.time.max.ms if that is less"
    )
    return CheckResult(HUB, "followers", True, detail)


def _in_sync(name: str, facts: TopicFacts, configs: Mapping[str, str]) -> CheckResult:
    needed = int(configs.get("min.insync.replicas", "1"))
    copies = facts.replication_factor
    ok = needed <= copies
    hint = "" if ok else f"lower min.insync.replicas of {name}: no write can succeed"
    detail = f"min.insync.replicas {needed}, replication factor {copies}"
    return CheckResult(HUB, f"replicas of {name}", ok, detail, hint)


def _limits(name: str, facts: TopicFacts, wanted: str) -> CheckResult:
    """Sizes against the sources are the plan's business; here: whether timestamps survive.

    In quarantine they need not: there none may be refused.
    """
    ok = facts.timestamp_type == wanted
    detail = f"max.message.bytes {facts.max_message_bytes}, timestamps {facts.timestamp_type}"
    why = "keep timestamps" if wanted == "CreateTime" else "take any timestamp"
    hint = "" if ok else f"set message.timestamp.type={wanted} on {name} to {why}"
    return CheckResult(HUB, f"limits of {name}", ok, detail, hint)
