"""The typed tree of the configuration: every option, its type, its default, one sentence each.

Pure values: no file, no environment, no client. `aggregator.config.load` fills it from YAML.
Keys of `topics` may be repeated per hub topic under `topics.overrides`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from aggregator.config.values import parse_duration, parse_listen

Seconds = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number"},
                {"type": "string", "pattern": r"^\s*\d+(\.\d+)?\s*(ms|s|m|h|d)?\s*$"},
            ]
        }
    ),
]
"""A length of time: `500ms`, `10s`, `5m`, `2h`, `7d`, or a number of seconds."""

PartitionBy = Literal["key", "source_partition", "round_robin", "cluster"]
ALIAS_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def check_alias(value: str) -> str:
    """Return the name of a source or an aggregation; ValueError if it cannot be one."""
    if not ALIAS_PATTERN.fullmatch(value):
        raise ValueError(f"'{value}' is no name: only letters, digits, '_' and '-'")
    return value


Alias = Annotated[str, AfterValidator(check_alias)]
"""A name of ours: letters, digits, `_` and `-`."""


class Node(BaseModel):
    """Base of every part of the tree: frozen, and unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ClusterConfig(Node):
    """How to reach a Kafka cluster."""

    bootstrap_servers: str = Field(
        min_length=1, description="host:port, or several with commas, as for any Kafka client"
    )
    kafka: dict[str, str] = Field(
        default_factory=dict,
        description="any Kafka client setting, for every client of this cluster (Java names)",
    )

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_servers(cls, value: str) -> str:
        for server in value.split(","):
            if not re.fullmatch(r"\s*(\[[0-9A-Fa-f:.]+\]|[^\s:,]+):\d{1,5}\s*", server):
                raise ValueError(f"'{server.strip()}' is not host:port")
        return ",".join(server.strip() for server in value.split(","))

    @field_validator("kafka", mode="before")
    @classmethod
    def _to_text(cls, value: Any) -> Any:
        return settings_to_text(value)


class HubConfig(ClusterConfig):
    """The one cluster that is written."""

    producer: dict[str, str] = Field(
        default_factory=dict, description="Kafka settings for the producers only, e.g. linger.ms"
    )
    known_as: list[str] = Field(
        default_factory=list,
        description="other names under which this hub is a source elsewhere (loop guard)",
    )

    @field_validator("producer", mode="before")
    @classmethod
    def _producer_to_text(cls, value: Any) -> Any:
        return settings_to_text(value)


class TopicSelection(Node):
    """Which topics of a source are taken: a regex (full match), a list of them, or with commas."""

    include: str | list[str] = Field(
        description="regex of topics to take, or a list; a comma works as in MirrorMaker"
    )
    exclude: str | list[str] = Field(
        default="", description="regex of topics to leave out, or a list; wins over include"
    )


class SourceConfig(ClusterConfig):
    """A cluster that is read."""

    topics: TopicSelection = Field(description="which topics of this source are taken")
    start: str = Field(
        default="earliest",
        description="where a topic without a checkpoint begins: earliest, latest, or a timestamp "
        "(ISO 8601 with offset, or milliseconds since 1970)",
    )
    consumer: dict[str, str] = Field(
        default_factory=dict, description="Kafka settings for the consumers only"
    )

    @field_validator("consumer", mode="before")
    @classmethod
    def _consumer_to_text(cls, value: Any) -> Any:
        return settings_to_text(value)

    @field_validator("start", mode="before")
    @classmethod
    def _check_start(cls, value: Any) -> str:
        return check_start(value)


class TopicRules(Node):
    """What is done with the topics; the keys that may also stand under an override."""

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

    @field_validator("transform")
    @classmethod
    def _check_transform(cls, value: str) -> str:
        if value and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", value):
            raise ValueError(f"'{value}' is not module:function")
        return value


DEFAULT_CONFIG_EXCLUDE = (
    r"follower\.replication\.throttled\.replicas",
    r"leader\.replication\.throttled\.replicas",
    r"message\.timestamp\.(type|difference\.max\.ms|before\.max\.ms|after\.max\.ms)",
    r"unclean\.leader\.election\.enable",
    r"min\.insync\.replicas",
    r"(remote|local)\..*",
    r"confluent\..*",
)


class TopicsConfig(TopicRules):
    """Names, creation, partitioning of the hub topics."""

    rename: str = Field(
        default="${topic}",
        description="hub topic name from ${topic} and ${cluster}, e.g. ${cluster}.${topic}",
    )
    config_exclude: list[str] = Field(
        default_factory=lambda: list(DEFAULT_CONFIG_EXCLUDE),
        description="regexes of topic configs that are never taken over",
    )
    refresh_interval: Seconds = Field(
        default=30.0, gt=0, description="how often new topics and partitions are looked for"
    )
    overrides: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="per hub topic, the same keys as here"
    )

    @field_validator("rename")
    @classmethod
    def _check_rename(cls, value: str) -> str:
        unknown = set(re.findall(r"\$\{([^}]*)\}", value)) - {"topic", "cluster"}
        if unknown:
            raise ValueError(f"knows ${{topic}} and ${{cluster}}, not ${{{min(unknown)}}}")
        plain = re.sub(r"\$\{(topic|cluster)\}", "", value)
        if not re.fullmatch(r"[A-Za-z0-9._-]*", plain):
            raise ValueError("only letters, digits, '.', '_' and '-' may stand in a topic name")
        if "${topic}" not in value and not plain:
            raise ValueError("must hold ${topic}, or be the name of one hub topic")
        return value

    @model_validator(mode="after")
    def _check_overrides(self) -> TopicsConfig:
        for hub_topic in self.overrides:
            self.rules_for(hub_topic)
        return self

    def rules_for(self, hub_topic: str) -> TopicRules:
        """The rules for one hub topic: its override on top of the common ones."""
        common = {name: getattr(self, name) for name in TopicRules.model_fields}
        return TopicRules.model_validate({**common, **self.overrides.get(hub_topic, {})})


class StreamConfig(Node):
    """How the records flow."""

    trigger: Literal["realtime", "microbatch", "available-now"] = Field(
        default="realtime", description="realtime (milliseconds), microbatch, or available-now"
    )
    lanes: Literal["auto"] | Annotated[int, Field(ge=1, le=1000)] = Field(
        default="auto", description="auto, or how many queries; 1 = one union of everything"
    )
    max_partitions_per_lane: int = Field(
        default=50, ge=1, le=1000, description="upper bound that lanes: auto plans with"
    )
    checkpoint_interval: Seconds = Field(
        default=10.0, ge=1, le=3600, description="how often positions are checkpointed"
    )
    max_offsets_per_trigger: int = Field(
        default=1_000_000, ge=1, description="offsets per source and micro-batch (not realtime)"
    )


class CheckpointConfig(Node):
    """The Delta table that holds positions."""

    path: str = Field(default="./state", min_length=1, description="folder or object store URI")
    history: Seconds = Field(
        default=7 * 86_400.0, ge=3600, description="how long old positions stay readable"
    )
    storage_options: dict[str, str] = Field(
        default_factory=dict, description="options of the object store client"
    )


class SparkConfig(Node):
    """The Spark session."""

    master: str = Field(default="auto", description="auto = local[enough slots]; or a master URL")
    conf: dict[str, str] = Field(default_factory=dict, description="any Spark setting")
    jars: str | None = Field(
        default=None, description="folder with the jars, used instead of fetching them"
    )

    @field_validator("conf", mode="before")
    @classmethod
    def _to_text(cls, value: Any) -> Any:
        return settings_to_text(value)


class ApiConfig(Node):
    """The REST endpoint of a running aggregation."""

    listen: str = Field(default="127.0.0.1:8083", description="host:port, or 'off'")

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: str) -> str:
        parse_listen(value)
        return value


class SupervisionConfig(Node):
    """Deadlines for what the outside world owes us."""

    connect_timeout: Seconds = Field(
        default=10.0, gt=0, le=600, description="how long a cluster may take to describe itself"
    )
    stuck_after: Seconds = Field(
        default=60.0,
        gt=0,
        description="a partition whose log moved and whose position did not for so long is stuck",
    )
    stop_timeout: Seconds = Field(
        default=60.0, gt=0, description="how long a clean stop may take before it is forced"
    )


class Config(Node):
    """The whole configuration of one aggregation."""

    name: Alias = Field(default="central", description="names this aggregation")
    hub: HubConfig = Field(description="the one cluster that is written")
    sources: dict[Alias, SourceConfig] = Field(
        min_length=1, description="the clusters that are read, by alias"
    )
    topics: TopicsConfig = Field(
        default_factory=TopicsConfig,
        description="names, creation and partitioning of the hub topics",
    )
    stream: StreamConfig = Field(default_factory=StreamConfig, description="how the records flow")
    checkpoint: CheckpointConfig = Field(
        default_factory=CheckpointConfig, description="the Delta table that holds positions"
    )
    spark: SparkConfig = Field(default_factory=SparkConfig, description="the Spark session")
    supervision: SupervisionConfig = Field(
        default_factory=SupervisionConfig,
        description="deadlines for what the outside world owes us",
    )
    api: ApiConfig = Field(default_factory=ApiConfig, description="the REST endpoint")


def settings_to_text(value: Any) -> Any:
    """Turn YAML scalars of a settings map into the text Kafka and Spark expect (true, 5, ...)."""
    if not isinstance(value, dict):
        return value
    return {
        str(name): str(item).lower() if isinstance(item, bool) else str(item)
        for name, item in value.items()
        if not isinstance(item, dict | list) and item is not None
    } | {str(name): item for name, item in value.items() if isinstance(item, dict | list)}


def check_start(value: Any) -> str:
    """Return `earliest`, `latest`, or a timestamp as milliseconds since 1970, in text.

    Raises ValueError for anything else, and for a time without a UTC offset.
    """
    if isinstance(value, datetime):
        return timestamp_to_millis(value)
    text = str(value).strip()
    if text in ("earliest", "latest") or re.fullmatch(r"\d{10,}", text):
        return text
    try:
        return timestamp_to_millis(datetime.fromisoformat(text))
    except ValueError as error:
        reason = str(error) if "offset" in str(error) else f"'{text}' is no start position"
        raise ValueError(
            f"{reason}; use earliest, latest, 2026-01-31T00:00:00Z, or milliseconds since 1970"
        ) from error


def timestamp_to_millis(moment: datetime) -> str:
    """Milliseconds since 1970 of an aware moment, as text; ValueError for a naive one."""
    if moment.tzinfo is None:
        raise ValueError(f"'{moment.isoformat()}' has no UTC offset")
    return str(int(moment.astimezone(UTC).timestamp() * 1000))
