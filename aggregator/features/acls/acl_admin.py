"""Asks clusters for the ACLs of their topics, and adds some at the hub."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from aggregator.config.schema import Config
from aggregator.features.acls.required_acls import Acl, AclPlan, plan_acls
from aggregator.kafka.admin import HUB, ClusterAdmin, each_cluster
from aggregator.kafka.admin.client_errors import AUTHORIZATION, code_of, text_of
from aggregator.kafka.credentials import CredentialsError, certificates, principal
from aggregator.model.errors import ClusterError
from aggregator.plan.plan import Plan
from aggregator.plan.topics.naming import naming_of
from aggregator.plan.topics.selection import Selection

_ANY: Any = None
"""What the types of the library do not allow, and its documentation asks for."""
TOPICS = AclBindingFilter(
    ResourceType.TOPIC,
    _ANY,
    ResourcePatternType.ANY,
    _ANY,
    _ANY,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


def synced_sources(config: Config) -> tuple[str, ...]:
    """The sources whose readers may read at the hub."""
    return tuple(alias for alias, it in config.sources.items() if it.acls.sync)


def topic_acls(admin: ClusterAdmin, timeout: float, who: str) -> tuple[Acl, ...]:
    """Every ACL of topics at a cluster; ClusterError, with the right that is missing."""
    future: Future[Any] = admin.client.describe_acls(TOPICS, request_timeout=timeout)
    (found,) = admin.wait({"": future}, timeout).values()
    if isinstance(found, Exception):
        raise ClusterError(_failed(admin.alias, "its ACLs are unknown", found, "DESCRIBE", who))
    # librdkafka (2.16.0) was seen to answer with none where the broker refuses to list them.
    if not found and "DESCRIBE" not in admin.cluster_operations(timeout):
        refused = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
        raise ClusterError(_failed(admin.alias, "its ACLs are unknown", refused, "DESCRIBE", who))
    return tuple(
        Acl(
            it.resource_pattern_type.name,
            it.name,
            it.principal,
            it.host,
            it.operation.name,
            it.permission_type.name,
        )
        for it in found
    )


def add_acls(admin: ClusterAdmin, wanted: Sequence[Acl], timeout: float, who: str) -> None:
    """Add these at the hub; ClusterError, with the right that is missing."""
    if not wanted:
        return
    futures = admin.client.create_acls([_binding(it) for it in wanted], request_timeout=timeout)
    for answer in admin.wait(futures, timeout).values():
        if isinstance(answer, Exception):
            raise ClusterError(_failed("hub", "ACLs are not added", answer, "ALTER", who))


def look_at_acls(config: Config, plan: Plan) -> tuple[AclPlan, dict[str, str]]:
    """What to add at the hub now, and by alias why a source did not answer.

    ClusterError when the hub does not answer.
    """
    timeout = config.supervision.connect_timeout
    synced = synced_sources(config)

    replies = each_cluster(
        config,
        (HUB, *synced),
        lambda admin: topic_acls(admin, timeout, principal_of(config, admin.alias)),
    )
    failed = {alias: str(error) for alias, error in replies.failed.items()}
    if HUB in failed:
        raise ClusterError(failed[HUB])
    return planned(config, plan, replies.ok), failed


def planned(config: Config, plan: Plan, listed: Mapping[str, Sequence[Acl]]) -> AclPlan:
    """The plan from the ACLs listed at the sources and at the hub."""
    sources = {alias: acls for alias, acls in listed.items() if alias != HUB}
    ours = principal_of(config, HUB)
    return plan_acls(
        plan.routes, synced_sources(config), sources, listed[HUB], ours, _unseen(config, plan)
    )


def _unseen(config: Config, plan: Plan) -> dict[str, list[str]]:
    """For each hub topic the sources whose topics are not known and that may flow into it."""
    absent = [alias for alias in config.sources if alias not in plan.sources]
    topics = {route.hub_topic for route in plan.routes} if absent else set()
    return {
        topic: found
        for topic in topics
        if (found := [it for it in absent if _may_feed(config, it, topic)])
    }


def _may_feed(config: Config, alias: str, hub_topic: str) -> bool:
    selection = Selection.of(config.sources[alias].topics)
    names = naming_of(config, alias).may_be(hub_topic)
    # None is a topic of any name, and "" every one.
    return any(not name or selection.matches(name) for name in names)


def principal_of(config: Config, alias: str) -> str:
    """Who we are to a cluster, as an ACL names it; "" where the settings do not say."""
    kafka = config.hub.kafka if alias == HUB else config.sources[alias].kafka
    try:
        return principal(kafka, certificates(kafka))
    except CredentialsError:
        return ""


def _failed(alias: str, what: str, error: Exception, right: str, who: str) -> str:
    name = alias.strip("()")
    if code_of(error) == KafkaError.SECURITY_DISABLED:
        return f"{name}: {what}: the cluster has no ACLs"
    to = f" to {who}" if who else ""
    hint = f" (allow {right} on the cluster{to})" if code_of(error) in AUTHORIZATION else ""
    return f"{name}: {what}: {text_of(error)}{hint}"


def _binding(acl: Acl) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        acl.name,
        ResourcePatternType[acl.pattern],
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )
