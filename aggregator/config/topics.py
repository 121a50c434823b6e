"""The config of topics: which are taken, and how they are set up at the hub.

Keys of `topics` may be repeated per hub topic under `topics.overrides`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from aggregator.config.copy_as import BATCHES
from aggregator.config.dedup import DedupRule, is_off
from aggregator.config.node import Node, Seconds, SettingsMap, settings_to_text
from aggregator.config.rename import Rename
from aggregator.model.same_object import once_for_each
from aggregator.model.values import OriginForm, SchemaMode

PartitionBy = Literal["key", "source_partition", "round_robin", "cluster"]

DEFAULT_CONFIG_EXCLUDE = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.(type|difference\.max\.ms|before\.max\.ms|after\.max\.ms)",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
    r"(remote|local)\..*",
    r"confluent\..*",
)


class TopicSelection(Node):
    """Which topics of a source are taken: a regex (full match), a list of them, or with commas."""

    include: str | list[str] = Field(
        description="regex of topics to take, or a list; a comma works as in MirrorMaker"
    )
    exclude: str | list[str] = Field(
        default="", description="regex of topics to leave out, or a list; wins over include"
    )


class TopicRules(Node):
    """The settings of topics; the keys that an override may have too."""

    partitions: Literal["source"] | Annotated[int, Field(ge=1, le=100_000)] = Field(
        default="source",
        description="partition count of hub topics: source (the largest of the sources) or number",
    )
    replication_factor: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None, description="replication factor of created topics; none = the hub's default"
    )
    create: bool = Field(default=True, description="create missing hub topics before the start")
    sync_configs: bool = Field(
        default=True, description="take topic configs over from the sources, at creation and later"
    )
    grow: bool = Field(
        default=False,
        description="grow hub topics when the wanted count grows; changes the key -> partition map",
    )
    partition_by: PartitionBy = Field(
        default="key",
        description="key (the Java producer's murmur2), source_partition, round_robin or cluster",
    )
    transform: str = Field(
        default="", description="module:function, DataFrame -> DataFrame, applied before tagging"
    )
    merge_compacted: bool = Field(
        default=False,
        description="allow several sources in one compacted topic, where equal keys overwrite",
    )
    on_poison: Literal["quarantine", "stop"] = Field(
        default="quarantine",
        description="a record that the hub refuses: quarantine (it goes to topics.quarantine, all "
        "others continue), or stop (its partition stops there)",
    )
    origin: OriginForm = Field(
        default="headers",
        description="how a hub record says where it came from: headers (five, origin.cluster and "
        "so on, with its timestamp), or header (one, `origin: eu/orders/5/1204`)",
    )
    copy_as: Literal["records", "batches"] = Field(
        default="records",
        description="records (each with its origin), or batches: those that allow it are copied as "
        "the source's broker has them, without being unpacked, with the origin in the header of "
        "the batch, where only this project reads it; all others as records",
    )
    schemas: SchemaMode = Field(
        default="pass",
        description="schema ids in keys, values (Confluent's wire format) and their headers: pass "
        "(as they are), translate (the schema is registered at hub.schemas.registry, and the id "
        "is the one that it has there), or check (as they are, but a record whose id its source's "
        "registry does not know is quarantined); for sources with schemas.registry",
    )
    dedup: DedupRule = Field(
        default_factory=DedupRule,
        description="copy an event that several records hold only once: {by, window}; dropped "
        "records go to topics.duplicates. dedup: off in an override turns it off for a hub topic",
    )
    configs: SettingsMap = Field(
        default_factory=dict,
        description="topic configs that hub topics have whatever the sources say, such as "
        "retention.ms; those of an override take precedence over the common ones",
    )
    config_exclude: list[str] = Field(
        default_factory=lambda: list(DEFAULT_CONFIG_EXCLUDE),
        description="regexes of topic configs that are never taken over",
    )

    @field_validator("dedup", mode="before")
    @classmethod
    def _check_dedup(cls, value: Any) -> Any:
        return {} if is_off(value) else value

    @field_validator("transform")
    @classmethod
    def _check_transform(cls, value: str) -> str:
        if value and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
            raise ValueError(f"'{value}' is not module:function")
        return value


class TopicOverride(TopicRules):
    """What is done with one hub topic in another way, and how it is called."""

    rename: str = Field(
        default="",
        description="another name for this hub topic; its other keys are for it under that name",
    )

    @field_validator("rename")
    @classmethod
    def _check_rename(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._-]{0,249}", value):
            raise ValueError("must be the name of one hub topic: letters, digits, '.', '_' and '-'")
        return value


class TopicsConfig(TopicRules):
    """Names, creation, partitioning of the hub topics."""

    rename: Rename = Field(
        default="${topic}",
        description="hub topic name from ${topic} and ${cluster}, e.g. ${cluster}.${topic}; or "
        "rules [{match, to}], the first that matches counts",
    )
    quarantine: str = Field(
        default="${name}.quarantine",
        description="hub topic for records that the hub refuses; ${name} is the aggregation's name",
    )
    duplicates: str = Field(
        default="${name}.duplicates",
        description="hub topic for records that dedup has dropped; ${name} is the aggregation's "
        "name",
    )
    kafka_streams: Literal["take", "leave_out"] = Field(
        default="take",
        description="topics *-changelog and *-repartition, which Kafka Streams keeps for itself: "
        "take or leave_out",
    )
    refresh_interval: Seconds = Field(
        default=30.0, gt=0, description="interval of discovery of new topics and partitions"
    )
    overrides: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        description="per hub topic, the same keys as here, and rename: another name for it",
    )

    @field_validator("quarantine", "duplicates")
    @classmethod
    def _check_aside(cls, value: str) -> str:
        plain = value.replace("${name}", "name")
        if "${" in plain:
            raise ValueError("knows ${name} only")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", plain):
            raise ValueError("only letters, digits, '.', '_' and '-' may be in a topic name")
        return value

    @model_validator(mode="after")
    def _check_overrides(self) -> TopicsConfig:
        renamed = self.renamed
        for hub_topic, keys in self.overrides.items():
            TopicOverride.model_validate(keys)
            if (other := renamed.get(hub_topic)) is None:
                continue
            if other in self.overrides:
                raise ValueError(
                    f"overrides.{hub_topic}.rename: {other} has an override of its own; write all "
                    f"keys under {hub_topic}"
                )
            if list(renamed.values()).count(other) > 1:
                raise ValueError(
                    f"overrides.{hub_topic}.rename: two overrides are called {other}; use a rule "
                    "of topics.rename to bring topics together"
                )
        return self

    @property
    def renamed(self) -> dict[str, str]:
        """Hub topics that an override gives another name: what they would be called -> that."""
        given = {name: str(keys.get("rename", "")) for name, keys in self.overrides.items()}
        return {name: other for name, other in given.items() if other}

    @property
    def has_dedup(self) -> bool:
        """Whether any hub topic has its events once."""
        return self.dedup_window > 0

    @property
    def has_batches(self) -> bool:
        """Whether batches of any hub topic may be copied as they are."""
        rules = [self, *(self.rules_for(it) for it in self.overrides)]
        return any(it.copy_as == BATCHES for it in rules)

    @property
    def dedup_window(self) -> float:
        """For how many seconds the longest of them remembers an event; 0 where none does."""
        rules = [self.dedup, *(self.rules_for(it).dedup for it in self.overrides)]
        return max((it.window for it in rules if it.is_on), default=0)

    def rules_for(self, hub_topic: str) -> TopicRules:
        """The rules for one hub topic: its override on top of the common ones."""
        rules = _rules(self)
        return rules.of.get(hub_topic, rules.common)


class _Rules(NamedTuple):
    """The rules of hub topics that an override names, and the common ones of all others."""

    common: TopicRules
    of: dict[str, TopicRules]
    """By the name of the override, and by the one that it gives."""


@once_for_each
def _rules(topics: TopicsConfig) -> _Rules:
    # Once for each config: a plan asks a few times for each of thousands of hub topics.
    own = {name: _overridden(topics, keys) for name, keys in topics.overrides.items()}
    called = {other: own[name] for name, other in topics.renamed.items()}
    return _Rules(_overridden(topics, {}), own | called)


def _overridden(topics: TopicsConfig, keys: dict[str, Any]) -> TopicRules:
    common = {name: getattr(topics, name) for name in TopicRules.model_fields}
    own = {name: value for name, value in keys.items() if name != "rename"}
    configs = {**topics.configs, **settings_to_text(own.get("configs", {}))}
    return TopicRules.model_validate({**common, **own, "configs": configs})
