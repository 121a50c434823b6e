"""A connector that copies topics becomes a source, and its part of the hub's settings. Pure.

What the keys of a connector mean is in `aggregator.features.connectors`, as for one posted by REST.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aggregator.config.topics import DEFAULT_CONFIG_EXCLUDE
from aggregator.config.values import patterns
from aggregator.extras.importers.configs import Path, SettingPlace, Sketch, is_true, seconds_of
from aggregator.extras.importers.shared_values import KEPT, PARTITION_BY
from aggregator.features.connectors import config_keys as words
from aggregator.features.connectors.mirror_maker_source import Version, is_name, listed
from aggregator.features.connectors.to_source import class_of, translate
from aggregator.model.errors import ConfigError
from aggregator.plan.topics.selection import Selection, owner_of

FILTERS = ("topic.filter.class", "config.property.filter.class", "group.filter.class")
GROUPS_COMMITTED = "src.consumer.group.id"
GROUPS_SYNCED = "sync.group.offsets.enabled"
ACLS_SYNCED = "sync.topic.acls.enabled"
GROUPS_EVERY = "sync.group.offsets.interval.seconds"
GROUPS_LEFT_OUT = "console-consumer-.*,connect-.*,__.*"
"""MirrorMaker 2's default."""
HEARTBEATS = "emit.heartbeats.enabled"
BEATS_COPIED, BEATS_ASKED_FOR = "heartbeats.replication.enabled", Version(4, 0)
"""Whether MirrorMaker 2 copies heartbeats, and the version that knows this setting."""
REFRESH = "refresh.topics.enabled"
OF_PROGRAMS = (
    *("_schemas", "connect-configs", "connect-offsets", "connect-status"),
    *("_confluent-metrics", "strimzi-topics", "heartbeats"),
)
"""Topics of programs, one of each."""
OF_ANOTHER_SEPARATOR = ("mm2-offset-syncs.a.internal", "a.checkpoints.internal")
"""MirrorMaker 2's own, which are its own no more when its separator is no dot."""

MIRROR_CONFIGS_LEFT_OUT = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.difference\.max\.ms",
    r"message\.timestamp\.type",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
)
"""MirrorMaker 2's default of `config.properties.exclude`, as far as all versions have it."""


@dataclass(frozen=True, slots=True)
class CopiedFlow:
    """A connector that copies topics into a hub, as one of our sources.

    `config` are its settings by the keys of its class, and `where` says where each was found.
    """

    alias: str
    config: Mapping[str, str]
    where: Callable[[str], SettingPlace]
    version: Version | None = None

    @property
    def kind(self) -> str:
        """Its class."""
        return class_of(self.config.get("connector.class", words.OWN_CLASS)) or ""

    @property
    def mirrors(self) -> bool:
        """Whether it is MirrorMaker 2's."""
        return self.kind == words.MIRROR_CLASS


def take_connector(draft: Sketch, flow: CopiedFlow) -> None:
    """Take a connector over as a source."""
    left = dict(flow.config)
    left.pop("name", None)
    _take_partitions(draft, flow, left)
    _take_topics(draft, flow, left)
    _take_groups(draft, flow, left)
    _take_filters(draft, flow, left)
    _take_routers(draft, flow, left)
    found = translate(flow.alias, left, kept=False, version=flow.version)
    for problem in found.problems:
        if _only_meaning(problem.path):
            hint = f"; {problem.hint}" if problem.path == words.POLICY else ""
            draft.note(flow.where(problem.path), problem.reason + hint, decide=True)
        else:
            key = str(flow.where(problem.path)) if problem.path in flow.config else problem.path
            draft.problems.append(replace(problem, path=key))
    for key, reason in found.notes.items():
        draft.note(flow.where(key), reason, decide=key in found.decide)
    for path, value in _leaves(dict(found.source), ()):
        draft.put(("sources", flow.alias, *path), value, flow.where(found.key_of(".".join(path))))
    if flow.mirrors:
        _report_defaults(draft, flow, found.source)
    elif flow.kind != words.OWN_CLASS and "topics" in found.source:
        say_of_programs(draft, flow.where(found.key_of("topics.include")), found.source["topics"])


def tidy_names(draft: Sketch) -> None:
    """Where all sources name their topics alike, say it once."""
    sources: dict[str, Any] = draft.tree.get("sources", {})
    templates = []
    for alias, source in sources.items():
        name = source.get("rename", "${topic}")
        if isinstance(name, str):
            general: Any = _general(alias, name)
        else:
            general = [{**rule, "to": _general(alias, rule["to"])} for rule in name]
        if general not in templates:
            templates.append(general)
    if len(templates) != 1:
        return
    (template,) = templates
    where = SettingPlace("", words.RENAME)
    for alias, source in sources.items():
        source.pop("rename", None)
        where = draft.came.pop(("sources", alias, "rename"), where)
    if template != "${topic}":
        draft.put(("topics", "rename"), template, where)


def _general(alias: str, name: str) -> str:
    """The template with the alias as `${cluster}` at its beginning, where it says that."""
    end = name.removeprefix(alias)
    prefixed = end != name and end.endswith("${topic}") and len(end) > len("${topic}")
    return "${cluster}" + end if prefixed else name


def _take_partitions(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    """Tools that keep the partition of each record: MirrorMaker 2, and Confluent's."""
    key = "topic.preserve.partitions"
    given = left.pop(key, "").strip()
    keeps = flow.mirrors or flow.kind.startswith("io.confluent.")
    if is_true(given) or (keeps and not given):
        draft.share(PARTITION_BY, flow.alias, KEPT, flow.where(key))
    else:
        where = flow.where(key) if given else None
        draft.share(PARTITION_BY, flow.alias, "key", where)


def _take_topics(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    """Take what a connector says of the topics at the hub."""
    _take_replicas(draft, flow, left)
    _take_flags(draft, flow, left)
    _take_config_exclude(draft, flow, left)
    _take_interval(draft, flow, left)
    if is_true(left.get(HEARTBEATS, "")):
        left.pop(HEARTBEATS)
        draft.share(("heartbeats",), flow.alias, True, flow.where(HEARTBEATS))
    elif flow.mirrors:
        # By default they are on there: a flow that says nothing has no other wish.
        off = HEARTBEATS in left
        draft.share(("heartbeats",), flow.alias, not off, None)
        if left.pop(HEARTBEATS, ""):
            draft.note(flow.where(HEARTBEATS), "as here, where heartbeats are off unless asked for")


def _take_replicas(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    path = ("topics", "replication_factor")
    said = False
    for key in ("replication.factor", "dest.topic.replication.factor"):
        value = left.pop(key, "").strip()
        if value.isdigit() and int(value):
            draft.share(path, flow.alias, int(value), flow.where(key))
            said = True
        elif value:
            draft.note(flow.where(key), "so it is the hub's default")
    if not said:
        draft.share(path, flow.alias, 2 if flow.mirrors else None)


def _take_flags(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    for keys, name in (
        (("sync.topic.configs.enabled", "topic.config.sync"), "sync_configs"),
        (("topic.auto.create", "dest.topic.auto.create"), "create"),
    ):
        given = {key: value for key in keys if (value := left.pop(key, "").strip())}
        for key, value in given.items():
            draft.share(("topics", name), flow.alias, is_true(value), flow.where(key))
        if not given:
            draft.share(("topics", name), flow.alias, True)


def _take_config_exclude(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    path = ("topics", "config_exclude")
    new, old = "config.properties.exclude", "config.properties.blacklist"
    key = new if new in left or old not in left else old
    value = left.pop(key, None)
    if left.pop(old, None) is not None:
        draft.note(flow.where(old), f"{new} is given, which counts alone")
    if value is not None and value.strip():
        draft.share(path, flow.alias, patterns(value), flow.where(key))
    else:
        default = MIRROR_CONFIGS_LEFT_OUT if flow.mirrors else DEFAULT_CONFIG_EXCLUDE
        draft.share(path, flow.alias, list(default))


def _take_interval(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    path = ("topics", "refresh_interval")
    default = "600s" if flow.mirrors else "120s"
    said = False
    for key, unit in (("refresh.topics.interval.seconds", "000"), ("topic.poll.interval.ms", "")):
        if value := left.pop(key, "").strip():
            length = seconds_of(value + unit)
            if length is None:
                draft.note(flow.where(key), "see topics.refresh_interval")
            else:
                draft.share(path, flow.alias, length, flow.where(key))
                said = True
    if not said:
        draft.share(path, flow.alias, default)
    off = left.pop(REFRESH, "").strip()
    if off and not is_true(off):
        reason = (
            f"is {off}: MirrorMaker 2 copies only the topics that it finds at its start; here "
            "topics that appear later and match are copied, too: name the topics in include"
        )
        draft.note(flow.where(REFRESH), reason, decide=True)
    elif off:
        draft.note(flow.where(REFRESH), "is so here always: see topics.refresh_interval")


def _take_groups(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    """Take what a connector says of consumer groups and ACLs, when it keeps them up at the hub."""
    at = ("sources", flow.alias)
    if is_true(left.get(ACLS_SYNCED, "")):
        left.pop(ACLS_SYNCED)
        draft.put((*at, "acls", "sync"), True, flow.where(ACLS_SYNCED))
    if is_true(left.get(GROUPS_SYNCED, "")):
        take_groups(draft, flow, left)


def take_groups(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    """Take over which consumer groups are kept up at the hub."""
    at = ("sources", flow.alias, "groups")
    left.pop(GROUPS_SYNCED)
    key = "groups" if "groups" in left else GROUPS_SYNCED
    draft.put((*at, "sync"), patterns(left.pop("groups", "") or ".*"), flow.where(key))
    excluded = next((it for it in ("groups.exclude", "groups.blacklist") if it in left), "")
    exclude = left.pop(excluded, GROUPS_LEFT_OUT)
    left.pop("groups.blacklist", "")
    if patterns(exclude):
        draft.put((*at, "exclude"), patterns(exclude), flow.where(excluded or "groups.exclude"))
    interval = left.pop(GROUPS_EVERY, "").strip()
    if (length := seconds_of(f"{interval}000")) is not None:
        draft.put((*at, "every"), length, flow.where(GROUPS_EVERY))
    group_filter = left.pop("group.filter.class", "").strip().rpartition(".")[2]
    if group_filter and group_filter != "DefaultGroupFilter":
        reason = (
            f"{group_filter} decides in a way of its own which groups are kept up; here groups.sync"
            " and groups.exclude of the source do"
        )
        draft.note(flow.where("group.filter.class"), reason, decide=True)


def _take_filters(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    instead = {
        FILTERS[0]: "topics.include and topics.exclude of the source do",
        FILTERS[1]: "topics.config_exclude does",
        FILTERS[2]: "no groups are kept up at the hub",
    }
    for key in FILTERS:
        given = left.pop(key, "").strip().rpartition(".")[2]
        if given and not given.startswith("Default"):
            reason = f"{given} decides in a way of its own; here {instead[key]}"
            draft.note(flow.where(key), reason, decide=key != FILTERS[2])


def _take_routers(draft: Sketch, flow: CopiedFlow, left: dict[str, str]) -> None:
    """Say of transforms that only rename topics by which rules `topics.rename` does it."""
    names = listed(left.get("transforms", ""))
    types = [left.get(f"transforms.{name}.type", "").strip() for name in names]
    if not names or not all(it.endswith(".RegexRouter") for it in types):
        return
    if any(f"transforms.{name}.predicate" in left for name in names):
        return
    rules = [
        f"{{match: {left.get(f'transforms.{name}.regex', '')!r}, "
        f"to: {left.get(f'transforms.{name}.replacement', '')!r}}}"
        for name in names
    ]
    reason = (
        f"only rename topics: topics.rename: [{', '.join(rules)}] does that, for the names that "
        "the source's topics have; there the regex is for the name with the alias in front, if any"
    )
    draft.note(flow.where("transforms"), reason, decide=True)
    for key in [it for it in left if it == "transforms" or it.startswith("transforms.")]:
        del left[key]


def _report_defaults(draft: Sketch, flow: CopiedFlow, source: Mapping[str, Any]) -> None:
    """Say what MirrorMaker 2 does without being asked, and this does only when it is asked."""
    if HEARTBEATS not in flow.config:
        reason = "is on by default there, and off here: heartbeats: true"
        draft.note(flow.where(HEARTBEATS), reason)
    if ACLS_SYNCED not in flow.config:
        reason = f"is on by default there, and off here: sources.{flow.alias}.acls.sync"
        draft.note(flow.where(ACLS_SYNCED), reason)
    if "replication.factor" not in flow.config:
        reason = "is 2 by default there, and the hub's own here: topics.replication_factor"
        draft.note(flow.where("replication.factor"), reason)
    unknown = flow.version is not None and flow.version < BEATS_ASKED_FOR
    if unknown or is_true(flow.config.get(BEATS_COPIED, "true")):
        reason = (
            "topics called heartbeats, also behind aliases, are copied there whatever topics says, "
            "and here only where include names them one by one"
        )
        draft.note(flow.where(BEATS_COPIED), reason, taken=True)
    topics = source.get("topics")
    if topics is not None:
        dotted = flow.config.get(words.SEPARATOR, ".").strip() == "."
        candidates = OF_PROGRAMS if dotted else (*OF_PROGRAMS, *OF_ANOTHER_SEPARATOR)
        say_of_programs(draft, flow.where("topics"), topics, candidates, any_regex=True)


def say_of_programs(
    draft: Sketch,
    where: SettingPlace,
    topics: Mapping[str, Any],
    candidates: Sequence[str] = OF_PROGRAMS,
    *,
    any_regex: bool = False,
) -> None:
    """Say of topics of programs that they match there, and here only where include names them.

    If one of the `candidates` does, or with `any_regex` where any may.
    """
    include = topics["include"]
    try:
        selection = Selection(tuple(patterns(include)), tuple(patterns(topics.get("exclude", ()))))
    except ConfigError:
        return
    missing = [it for it in candidates if _is_left_to_its_program(selection, it)]
    if missing or (any_regex and any(not is_name(it) for it in include)):
        examples = f", such as {', '.join(missing)}," if missing else ""
        reason = (
            f"topics of programs{examples} are taken there if they match, and here only where "
            "include names them one by one: see docs/topics.md"
        )
        draft.note(where, reason, taken=True)


def _is_left_to_its_program(selection: Selection, topic: str) -> bool:
    reason = selection.reason_not(topic) or ""
    return bool(owner_of(topic)) and reason.startswith("a topic of ")


def _only_meaning(key: str) -> bool:
    """Whether a problem is about what would change records, and not about what is missing."""
    refused = any(key == it or key.startswith(f"{it}.") for it in words.REFUSED)
    return refused or key in words.CONVERTERS or key == words.POLICY


def _leaves(item: Any, path: Path) -> list[tuple[Path, Any]]:
    if isinstance(item, dict):
        return [it for name, value in item.items() for it in _leaves(value, (*path, str(name)))]
    return [(path, item)]
