"""The configs of a hub topic: what is set at its creation, and what is changed of one that exists.

Nothing that a source asks for lowers a limit or changes the cleanup policy of a topic that exists,
because both delete records; what the config itself asks for does, with a warning.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from aggregator.config.topics import TopicRules
from aggregator.model.values import TopicFacts
from aggregator.plan.topics.selection import first_match
from aggregator.plan.topics.source_configs import (
    CLEANUP_POLICY,
    MAX_MESSAGE_BYTES,
    RAISE_ONLY,
    RETENTION_MS,
    TIMESTAMP_AFTER_MAX,
    TIMESTAMP_BEFORE_MAX,
    TIMESTAMP_TYPE,
    UNLIMITED_MS,
    Contribution,
    longer,
    needed_message_bytes,
    policies,
    wanted_configs,
)

Changes = dict[str, tuple[str | None, str]]
"""Config -> (value now, value wanted)."""


def configs_at_creation(
    name: str, sources: Sequence[Contribution], rules: TopicRules, warnings: list[str]
) -> dict[str, str]:
    """The configs of a hub topic that is missing."""
    configs = {**_configs_to_take(name, sources, rules, warnings), **rules.configs}
    # A source accepted these timestamps, so the hub must not refuse or overwrite them.
    bounds = dict.fromkeys((TIMESTAMP_AFTER_MAX, TIMESTAMP_BEFORE_MAX), str(UNLIMITED_MS))
    return {**configs, TIMESTAMP_TYPE: "CreateTime", **bounds}


def changes_of(
    hub: TopicFacts, sources: Sequence[Contribution], rules: TopicRules, warnings: list[str]
) -> Changes:
    """What to change of a hub topic that exists."""
    configs = _configs_to_take(hub.name, sources, rules, warnings)
    changes: Changes = {}
    if rules.sync_configs:
        changes = _config_changes(hub, configs)
        if CLEANUP_POLICY not in rules.configs:
            _check_policy(hub, configs, rules, warnings)
    size = int(rules.configs.get(MAX_MESSAGE_BYTES, hub.max_message_bytes))
    seen = replace(hub, max_message_bytes=size)
    limits = _limit_changes(seen, sources, configs, warnings, synced=rules.sync_configs)
    if rules.sync_configs:
        changes |= limits
    _check_own(hub, rules, warnings)
    changes |= {key: (hub.configs.get(key), new) for key, new in rules.configs.items()}
    return {key: it for key, it in sorted(changes.items()) if it[0] != it[1]}


def _configs_to_take(
    name: str,
    sources: Sequence[Contribution],
    rules: TopicRules,
    warnings: list[str],
) -> dict[str, str]:
    """Configs from the sources; without `sync_configs` only the size that we cannot do without.

    Those that the config gives are left out: where sources differ there does not matter.
    """
    given = [re.escape(key) for key in rules.configs]
    wanted = wanted_configs(name, sources, [*rules.config_exclude, *given])
    if not rules.sync_configs:
        return {key: value for key, value in wanted.configs.items() if key == MAX_MESSAGE_BYTES}
    warnings.extend(wanted.warnings)
    return wanted.configs


def _check_own(hub: TopicFacts, rules: TopicRules, warnings: list[str]) -> None:
    """Warn of configs that were asked for and delete or refuse records."""
    own = rules.configs
    where = f"hub topic {hub.name}: topics.configs (or its override) asks for"
    if RETENTION_MS in own and longer(hub.retention_ms, int(own[RETENTION_MS])) != int(
        own[RETENTION_MS]
    ):
        warnings.append(
            f"{where} {RETENTION_MS} {own[RETENTION_MS]}, it is {hub.retention_ms}: older records "
            "that have arrived are deleted"
        )
    policy = own.get(CLEANUP_POLICY)
    if policy is not None and policies(policy) != policies(hub.cleanup_policy):
        warnings.append(
            f"{where} {CLEANUP_POLICY} {policy}, it is {hub.cleanup_policy}: that deletes records"
        )


def _check_policy(
    hub: TopicFacts, configs: Mapping[str, str], rules: TopicRules, warnings: list[str]
) -> None:
    wanted = configs.get(CLEANUP_POLICY, "delete")
    excluded = first_match(tuple(rules.config_exclude), CLEANUP_POLICY) is not None
    if not excluded and policies(wanted) != policies(hub.cleanup_policy):
        warnings.append(
            f"hub topic {hub.name}: cleanup.policy is {hub.cleanup_policy}, the sources ask for "
            f"{wanted}; it is left as it is, because to change it deletes records: alter it "
            "yourself if that is meant"
        )


def _config_changes(hub: TopicFacts, configs: Mapping[str, str]) -> Changes:
    """What differs at the hub, apart from limits that are checked on their own."""
    changes: Changes = {}
    for name, new in configs.items():
        old = hub.configs.get(name)
        if name in (MAX_MESSAGE_BYTES, CLEANUP_POLICY) or old == new:
            continue
        if name in RAISE_ONLY:
            now = hub.retention_ms if name == RETENTION_MS else int(old or -1)
            if longer(now, int(new)) == now:
                continue
        changes[name] = (old, new)
    return changes


def _limit_changes(
    hub: TopicFacts,
    sources: Sequence[Contribution],
    configs: Mapping[str, str],
    warnings: list[str],
    synced: bool,
) -> Changes:
    """Limits of an existing hub topic that would refuse or change records, each with a warning."""
    changes: Changes = {}
    by_hand = "set topics.sync_configs: true, or alter the topic"
    fix = "it is altered" if synced else by_hand
    size = needed_message_bytes(sources)
    largest = max(source.topic.max_message_bytes for source in sources)
    if hub.max_message_bytes < size:
        if taken := MAX_MESSAGE_BYTES in configs:
            changes[MAX_MESSAGE_BYTES] = (
                hub.configs.get(MAX_MESSAGE_BYTES),
                configs[MAX_MESSAGE_BYTES],
            )
        warnings.append(
            f"hub topic {hub.name}: max.message.bytes is {hub.max_message_bytes}, but a source "
            f"accepts {largest} and the origin headers come on top ({size}): "
            f"large records would be refused; {fix if taken else by_hand}"
        )
    ahead = max(source.topic.timestamp_after_max_ms for source in sources)
    if hub.timestamp_after_max_ms < ahead:
        old = hub.configs.get(TIMESTAMP_AFTER_MAX)
        changes[TIMESTAMP_AFTER_MAX] = (old, str(UNLIMITED_MS))
        warnings.append(
            f"hub topic {hub.name}: {TIMESTAMP_AFTER_MAX} is {hub.timestamp_after_max_ms}, a "
            f"source allows {ahead}: records from the future would be refused; {fix}"
        )
    if hub.timestamp_before_max_ms < UNLIMITED_MS:
        old = hub.configs.get(TIMESTAMP_BEFORE_MAX)
        changes[TIMESTAMP_BEFORE_MAX] = (old, str(UNLIMITED_MS))
        warnings.append(
            f"hub topic {hub.name}: {TIMESTAMP_BEFORE_MAX} is {hub.timestamp_before_max_ms}: older "
            f"records would be refused; {fix}"
        )
    if hub.timestamp_type != "CreateTime":
        changes[TIMESTAMP_TYPE] = (hub.configs.get(TIMESTAMP_TYPE), "CreateTime")
        warnings.append(
            f"hub topic {hub.name}: {TIMESTAMP_TYPE} is {hub.timestamp_type}, so the sources' "
            f"timestamps would be lost; {fix}"
        )
    return changes
