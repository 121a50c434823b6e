"""A connector that copies topics becomes a source, and its part of the hub's settings. Pure.

What the words of a connector mean is known by `connect.core`, also for those who post one by REST.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aggregator.config.values import patterns
from aggregator.connect import core_words as words
from aggregator.connect.core import class_of, translate
from aggregator.imports.core import Path, Sketch, Where, is_true, seconds_of
from aggregator.imports.core_words import WITHOUT

FILTERS = ("topic.filter.class", "config.property.filter.class")
HUB_CLIENTS = ("dest.kafka.", "target.cluster.", "target.admin.")
HUB_PRODUCERS = ("target.producer.", "dest.producer.", "producer.override.")
FIRST = "bootstrap.servers"
GROUPS_COMMITTED = "src.consumer.group.id"
GROUPS_SYNCED = "sync.group.offsets.enabled"
ACLS_SYNCED = "sync.topic.acls.enabled"
GROUPS_EVERY = "sync.group.offsets.interval.seconds"
GROUPS_LEFT_OUT = "console-consumer-.*,connect-.*,__.*"
"""MirrorMaker 2's default."""


def take_connector(
    draft: Sketch, alias: str, config: Mapping[str, str], where: Callable[[str], Where]
) -> None:
    """Take a connector over as the source `alias`; `where` tells where each of its keys stood."""
    left = dict(config)
    left.pop("name", None)
    kind = class_of(left.get("connector.class", words.OWN_CLASS)) or ""
    _take_partitions(draft, left, kind, where)
    take_hub(draft, left, where)
    _take_topics(draft, left, where)
    _take_groups(draft, alias, left, where)
    for key in FILTERS:
        given = left.pop(key, "").rpartition(".")[2]
        if given and not given.startswith("Default"):
            draft.note(where(key), f"{given} decides in a way of its own", decide=True)
    found = translate(alias, left, kept=False)
    for problem in found.problems:
        if _only_meaning(problem.path):
            draft.note(where(problem.path), problem.reason, decide=True)
        else:
            draft.problems.append(problem)
    for key, reason in found.notes.items():
        if not (key == words.SEPARATOR and words.POLICY in left):
            draft.note(where(key), reason)
    for path, value in _leaves(dict(found.source), ()):
        draft.put(("sources", alias, *path), value, where(found.key_of(".".join(path))))


def take_hub(draft: Sketch, left: dict[str, str], where: Callable[[str], Where]) -> None:
    """Take from `left` what a connector says of the cluster that it writes."""
    for key in list(left):
        for part, prefixes in (("kafka", HUB_CLIENTS), ("producer", HUB_PRODUCERS)):
            prefix = next((it for it in prefixes if key.startswith(it)), None)
            name = key.removeprefix(prefix or "")
            if prefix is None or name == "alias":
                continue
            value = left.pop(key)
            if name == FIRST and prefix != "producer.override.":
                if value.strip():
                    _put_common(draft, ("hub", "bootstrap_servers"), value.strip(), where(key))
            elif name in WITHOUT:
                draft.note(where(key), WITHOUT[name])
            else:
                _put_common(draft, ("hub", part, name), value, where(key))
            break


def tidy_names(draft: Sketch) -> None:
    """Where all sources name their topics alike, say it once."""
    sources: dict[str, Any] = draft.tree.get("sources", {})
    templates = set()
    for alias, source in sources.items():
        name = source.get("rename", "${topic}")
        if not isinstance(name, str):
            return
        end = name.removeprefix(alias)
        prefixed = end != name and end.endswith("${topic}") and len(end) > len("${topic}")
        templates.add("${cluster}" + end if prefixed else name)
    if len(templates) != 1:
        return
    (template,) = templates
    for source in sources.values():
        source.pop("rename", None)
    if template != "${topic}":
        draft.put(("topics", "rename"), template, Where("", words.RENAME))


def _take_partitions(
    draft: Sketch, left: dict[str, str], kind: str, where: Callable[[str], Where]
) -> None:
    """Who keeps the partition of each record goes on so: MirrorMaker 2, and Confluent's."""
    key = "topic.preserve.partitions"
    given = left.pop(key, "").strip()
    keeps = kind.endswith(".MirrorSourceConnector") or kind.startswith("io.confluent.")
    if is_true(given) or (keeps and not given):
        _put_common(draft, ("topics", "partition_by"), "source_partition", where(key))
        _put_common(draft, ("topics", "grow"), True, where(key))
    elif given:
        _put_common(draft, ("topics", "partition_by"), "key", where(key))


def _take_topics(draft: Sketch, left: dict[str, str], where: Callable[[str], Where]) -> None:
    """Take what a connector says of the topics at the hub."""
    for key in ("replication.factor", "dest.topic.replication.factor"):
        value = left.pop(key, "").strip()
        if value.isdigit() and int(value):
            _put_common(draft, ("topics", "replication_factor"), int(value), where(key))
        elif value:
            draft.note(where(key), "so it is the hub's default")
    for key, name in (
        ("sync.topic.configs.enabled", "sync_configs"),
        ("topic.config.sync", "sync_configs"),
        ("topic.auto.create", "create"),
        ("dest.topic.auto.create", "create"),
    ):
        if value := left.pop(key, "").strip():
            _put_common(draft, ("topics", name), is_true(value), where(key))
    for key in ("config.properties.exclude", "config.properties.blacklist"):
        if value := left.pop(key, "").strip():
            _put_common(draft, ("topics", "config_exclude"), patterns(value), where(key))
    for key, unit in (("refresh.topics.interval.seconds", "000"), ("topic.poll.interval.ms", "")):
        if value := left.pop(key, "").strip():
            length = seconds_of(value + unit)
            if length is None:
                draft.note(where(key), "see topics.refresh_interval")
            else:
                _put_common(draft, ("topics", "refresh_interval"), length, where(key))
    if is_true(left.get("emit.heartbeats.enabled", "")):
        left.pop("emit.heartbeats.enabled")
        _put_common(draft, ("heartbeats",), True, where("emit.heartbeats.enabled"))


def _take_groups(
    draft: Sketch, alias: str, left: dict[str, str], where: Callable[[str], Where]
) -> None:
    """Take what a connector says of consumer groups and ACLs, when it keeps them up at the hub."""
    if is_true(left.get(ACLS_SYNCED, "")):
        left.pop(ACLS_SYNCED)
        draft.put(("sources", alias, "acls", "sync"), True, where(ACLS_SYNCED))
    if not is_true(left.get(GROUPS_SYNCED, "")):
        return
    at = ("sources", alias, "groups")
    left.pop(GROUPS_SYNCED)
    key = "groups" if "groups" in left else GROUPS_SYNCED
    draft.put((*at, "sync"), patterns(left.pop("groups", "") or ".*"), where(key))
    exclude = left.pop("groups.exclude", "") or left.pop("groups.blacklist", "") or GROUPS_LEFT_OUT
    draft.put((*at, "exclude"), patterns(exclude), where("groups.exclude"))
    interval = left.pop(GROUPS_EVERY, "")
    if (length := seconds_of(f"{interval}000")) is not None:
        draft.put((*at, "every"), length, where(GROUPS_EVERY))


def _put_common(draft: Sketch, path: Path, value: Any, where: Where) -> None:
    """Set what all connectors of a hub share; the first one says it."""
    at: Any = draft.tree
    for name in path:
        at = at.get(name) if isinstance(at, dict) else None
    if at is None:
        draft.put(path, value, where)
    elif at != value:
        reason = f"there is one value for all sources, and {draft.came[path]} says it already"
        draft.note(where, reason, decide=True)


def _only_meaning(key: str) -> bool:
    """Whether a problem is about what would change records, and not about what is missing."""
    refused = any(key == it or key.startswith(f"{it}.") for it in words.REFUSED)
    return refused or key in words.CONVERTERS


def _leaves(item: Any, path: Path) -> list[tuple[Path, Any]]:
    if isinstance(item, dict):
        return [it for name, value in item.items() for it in _leaves(value, (*path, str(name)))]
    return [(path, item)]
