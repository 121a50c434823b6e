"""What `aggregator check` asks of each cluster: reachable, allowed, and within limits.

Permissions are asked from the brokers (authorized operations), so nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aggregator.config.schema import Config
from aggregator.discover.admin import ClusterAdmin
from aggregator.discover.describe import Described
from aggregator.discover.discover import HUB, open_admin, selector
from aggregator.discover.errors import ClusterCallError
from aggregator.model import ClusterFailure, FailureKind, TopicFacts
from aggregator.plan.quarantine import APPEND_TIME, quarantine_topic

SOURCE_NEEDS = ("DESCRIBE", "READ", "DESCRIBE_CONFIGS")
HUB_NEEDS = ("DESCRIBE", "READ", "WRITE", "DESCRIBE_CONFIGS")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One thing checked at one cluster: whether it is well, what was found, what to do."""

    cluster: str
    name: str
    ok: bool
    detail: str
    hint: str = ""


def check_cluster(config: Config, alias: str, timeout: float) -> list[CheckResult]:
    """Check one source, or the hub (`HUB`), in at most `timeout` seconds per question.

    Never raises for a cluster that does not answer: that is the first result, and the only one.
    """
    try:
        with open_admin(config, alias) as admin:
            return _check(config, alias, admin, timeout)
    except ClusterCallError as error:
        return _unanswered(alias, error.failure)


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


def _check(config: Config, alias: str, admin: ClusterAdmin, timeout: float) -> list[CheckResult]:
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
        results += _hub_rights(config, admin, described, timeout)
        results += _hub_limits(config, described, facts.brokers)
    else:
        path = f"sources.{alias}.topics"
        found = f"{len(names)} selected of {len(facts.topics)} that we may see"
        hint = "" if names else f"check {path}, and that Describe is allowed on the topics"
        results.append(CheckResult(alias, "topics", bool(names), found, hint))
        results += topic_rights(alias, described, SOURCE_NEEDS)
    return results


def topic_rights(alias: str, described: Described, needs: Iterable[str]) -> list[CheckResult]:
    """A result per topic: what of `needs` the brokers do not allow us."""
    results = []
    for name, reason in described.failed.items():
        hint = f"allow DESCRIBE on topic {name}"
        results.append(CheckResult(alias, f"rights on {name}", False, reason, hint))
    for name in described.topics:
        allowed = described.operations.get(name, frozenset())
        missing = [need for need in needs if need not in allowed]
        check = f"rights on {name}"
        if not allowed:
            results.append(CheckResult(alias, check, True, "not told by the brokers"))
        elif missing:
            words = ", ".join(missing)
            hint = f"allow {words} on topic {name}"
            results.append(CheckResult(alias, check, False, f"without {words}", hint))
        else:
            results.append(CheckResult(alias, check, True, ", ".join(needs)))
    return results


def _hub_rights(
    config: Config, admin: ClusterAdmin, described: Described, timeout: float
) -> list[CheckResult]:
    needs = [*HUB_NEEDS]
    if config.topics.sync_configs:
        needs.append("ALTER_CONFIGS")
    if config.topics.grow:
        needs.append("ALTER")
    results = topic_rights(HUB, described, needs)
    if config.topics.create:
        allowed = admin.cluster_operations(timeout)
        ok = not allowed or "CREATE" in allowed
        detail = "CREATE on the cluster" if ok else "without CREATE on the cluster"
        hint = "" if ok else "allow CREATE on the cluster or on the topics' prefix, or create them"
        results.append(CheckResult(HUB, "create topics", ok, detail, hint))
    return results


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
    for name, facts in described.topics.items():
        results.append(_in_sync(name, facts, described.effective.get(name, {})))
        wanted = APPEND_TIME if name == quarantine_topic(config) else "CreateTime"
        results.append(_limits(name, facts, wanted))
    return results


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
