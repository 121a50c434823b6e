"""The typed tree of the configuration: every option, its type, its default, one sentence each.

Pure values: no file, no environment, no client. `aggregator.config.load` fills it from YAML.
"""

import re
from typing import Literal

from pydantic import Field, PrivateAttr, field_validator

from aggregator.config.api import ApiConfig
from aggregator.config.groups import AclSelection, GroupSelection
from aggregator.config.lineage import LineageConfig
from aggregator.config.node import Alias, Bytes, Node, Seconds, SettingsMap, Start
from aggregator.config.rename import Rename
from aggregator.config.schemas import SchemasConfig
from aggregator.config.tee import TeeConfig, unasked
from aggregator.config.topics import TopicsConfig, TopicSelection
from aggregator.model.errors import RefusedError


class ClusterConfig(Node):
    """How to reach a Kafka cluster."""

    bootstrap_servers: str = Field(
        min_length=1, description="host:port, or several with commas, as for any Kafka client"
    )
    kafka: SettingsMap = Field(
        default_factory=dict,
        description="any Kafka client setting, for every client of this cluster (Java names)",
    )
    schemas: SchemasConfig = Field(
        default_factory=SchemasConfig,
        description="where to find the schemas of its records",
    )
    _files: dict[str, str] = PrivateAttr(default_factory=dict)

    @property
    def files(self) -> dict[str, str]:
        """Settings that name a file -> a digest of what it held when the config was read.

        So that a reload sees a certificate that was renewed in its place.
        """
        return self._files

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_servers(cls, value: str) -> str:
        for server in value.split(","):
            found = re.fullmatch(r"\s*(\[[0-9A-Fa-f:.]+\]|[^\s:,]+):(\d{1,5})\s*", server)
            if found is None or int(found[2]) > 65_535:
                raise ValueError(f"'{server.strip()}' is not host:port")
        return ",".join(server.strip() for server in value.split(","))


class HubConfig(ClusterConfig):
    """The one cluster that is written."""

    producer: SettingsMap = Field(
        default_factory=dict,
        description="Kafka settings for the producers only, e.g. compression.type",
    )
    known_as: list[str] = Field(
        default_factory=list,
        description="other names under which this hub is a source elsewhere (loop guard); '*': "
        "records that carry an origin are left out, so that only records first written at the "
        "sources are copied",
    )


class SourceConfig(ClusterConfig):
    """A cluster that is read."""

    title: str = Field(
        default="", max_length=100, description="display name, where the alias is too short"
    )
    topics: TopicSelection = Field(description="which topics of this source are taken")
    shared_cluster_id: bool = Field(
        default=False,
        description="accept that the hub, or another source, has the same cluster id: it is "
        "another cluster all the same, as with containers of one image or cloned disks",
    )
    rename: Rename | None = Field(
        default=None,
        description="hub topic names of this source: a template instead of topics.rename, or rules "
        "[{match, to}] before it",
    )
    start: Start = Field(
        default="earliest",
        description="where a topic without a checkpoint begins: earliest, latest, or a timestamp "
        "(ISO 8601 with offset, or milliseconds since 1970)",
    )
    new_topics: Literal["earliest", "start"] = Field(
        default="earliest",
        description="where a topic begins that appears after the source was first read: at its "
        "beginning, whatever start says, or as start says",
    )
    on_gap: Literal["stop", "skip", "restart"] = Field(
        default="stop",
        description="when records were deleted before they were copied, or the topic or the "
        "cluster was replaced: stop (quarantine those partitions, all others continue), skip "
        "(record the gap and continue after it, or with the new topic), restart (copy a recreated "
        "topic from its beginning; otherwise as stop)",
    )
    max_records_per_second: int | None = Field(
        default=None,
        ge=1,
        description="limit of records read per second, to leave cores and network to others",
    )
    max_bytes_per_second: Bytes | None = Field(
        default=None,
        ge=1,
        description="the same limit in bytes of keys and values (10MB, 8MiB)",
    )
    catch_up_records_per_second: int | None = Field(
        default=None,
        ge=1,
        description="limit while the source is catching up, so that its backlog does not starve "
        "live sources; no effect once it has caught up",
    )
    weight: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="its share of stream.max_records_per_second and stream.max_bytes_per_second, "
        "relative to the weights of the other sources",
    )
    tasks: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        description="number of reader tasks, each with its own connections, at most one per "
        "partition (default: from the cores). Raise it for a source with high latency",
    )
    publish_group: bool = Field(
        default=False,
        description="also commit positions to the source, as consumer group aggregator-<name>, "
        "for lag exporters and Kafka UIs; they are never read back. Needs Read on that group",
    )
    groups: GroupSelection = Field(
        default_factory=GroupSelection,
        description="consumer groups whose offsets are translated to the hub while it runs",
    )
    acls: AclSelection = Field(
        default_factory=AclSelection, description="ACLs of its topics, added at the hub"
    )
    consumer: SettingsMap = Field(
        default_factory=dict, description="Kafka settings for the consumers only"
    )


class StreamConfig(Node):
    """How the records flow."""

    lanes: Literal["auto", "source"] = Field(
        default="auto",
        description="auto = one query that unions all sources; source = a query for each",
    )
    path: Literal["bytes", "objects"] = Field(
        default="bytes",
        description="how records that no transform reads are copied: bytes = from batch to batch "
        "as bytes; objects = one object each, as every Kafka client does",
    )
    checkpoint_interval: Seconds = Field(
        default=5.0, ge=1, le=3600, description="how often positions are checkpointed"
    )
    max_records_per_second: int | None = Field(
        default=None,
        ge=1,
        description="limit of all sources together, divided between them by weight",
    )
    max_bytes_per_second: Bytes | None = Field(
        default=None, ge=1, description="the same limit in bytes of keys and values"
    )


class CheckpointConfig(Node):
    """The Delta table that holds positions."""

    path: str = Field(default="./state", min_length=1, description="folder or object store URI")
    history: Seconds = Field(
        default=7 * 86_400.0, ge=3600, description="how long old positions stay readable"
    )
    lease: Seconds = Field(
        default=30.0,
        ge=3,
        le=3600,
        description="how long an instance may fail to renew its lease before it must stop sending "
        "and check that no other instance has replaced it",
    )
    storage_options: dict[str, str] = Field(
        default_factory=dict, description="options of the object store client"
    )

    @property
    def is_local(self) -> bool:
        """Whether the path is a folder, and no object store's URI."""
        return "://" not in self.path or self.path.startswith("file:")


class SparkConfig(Node):
    """The Spark session."""

    master: str = Field(default="auto", description="auto = local[enough slots]; or a master URL")
    conf: SettingsMap = Field(default_factory=dict, description="any Spark setting")
    jars: str | None = Field(
        default=None, description="folder with the jars, used instead of fetching them"
    )


MetricNames = Literal["native", "mm2"]


class MetricsConfig(Node):
    """What /metrics exposes."""

    partitions: bool = Field(
        default=False, description="position, log end and lag of each source partition as well"
    )
    names: list[MetricNames] = Field(
        default=["native"],
        description="native, mm2 (those of MirrorMaker 2's connectors, for existing dashboards), "
        "or both",
    )


class TimelineConfig(Node):
    """The history that is kept: figures per minute, and events."""

    interval: Seconds = Field(
        default=60.0, ge=5, le=86_400, description="how often a row of each source is written"
    )
    keep: Seconds = Field(
        default=30 * 86_400.0, ge=3600, description="how long rows and events stay"
    )


class CompletenessConfig(Node):
    """Up to which moment the hub is complete, and how long that record is kept."""

    allowed_lateness: Seconds = Field(
        default=120.0,
        ge=0,
        le=7 * 86_400,
        description="how much later than its timestamp a record may be appended at its source: the "
        "delay of producers, and how far their clocks differ from ours. The default is Kafka's "
        "delivery.timeout.ms. Records that come even later are late: counted, and not waited for",
    )
    interval: Seconds = Field(
        default=30.0, ge=1, le=86_400, description="shortest time between two writes of rows"
    )
    keep: Seconds = Field(default=7 * 86_400.0, ge=3600, description="how long rows stay")


class SupervisionConfig(Node):
    """Timeouts for clusters and lanes."""

    connect_timeout: Seconds = Field(
        default=10.0, gt=0, le=600, description="how long a cluster may take to describe itself"
    )
    deadline: Seconds = Field(
        default=3.0,
        ge=0.5,
        le=600,
        description="a source that has answered nothing within this time is unreachable",
    )
    failure: Literal["isolate", "abort"] = Field(
        default="isolate",
        description="when a lane fails: isolate (retry it with back-off while the others "
        "continue), or abort (end the run, as MirrorMaker's abort.on.send.failure)",
    )
    stuck_after: Seconds = Field(
        default=60.0,
        gt=0,
        description="a partition is stuck when its log grew and its position has not moved for "
        "this time",
    )
    stop_timeout: Seconds = Field(
        default=60.0,
        gt=0,
        description="how long a clean stop may take before it is forced",
    )


class Config(Node):
    """The whole configuration of one aggregation."""

    name: Alias = Field(default="central", description="names this aggregation")
    hub: HubConfig = Field(description="the one cluster that is written")
    sources: dict[Alias, SourceConfig] = Field(
        description="the clusters that are read, by alias; {} waits for the first to be added"
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
        description="timeouts for clusters and lanes",
    )
    api: ApiConfig = Field(default_factory=ApiConfig, description="the REST endpoint")
    metrics: MetricsConfig = Field(
        default_factory=MetricsConfig, description="what /metrics exposes"
    )

    timeline: TimelineConfig = Field(
        default_factory=TimelineConfig, description="the history that is kept"
    )
    completeness: CompletenessConfig = Field(
        default_factory=CompletenessConfig, description="up to which moment the hub is complete"
    )
    tee: TeeConfig = Field(
        default_factory=unasked, description="hub records in Delta tables, beside a run or alone"
    )
    lineage: LineageConfig = Field(
        default_factory=LineageConfig, description="what flows where, for a data catalog"
    )
    heartbeats: bool = Field(
        default=False,
        description="write a record for each source that is read into hub topic heartbeats, once "
        "a second, as MirrorMaker 2 writes them",
    )

    def chosen(self, alias: str | None) -> tuple[str, ...]:
        """This source alone, or with None all. RefusedError when there is no such source."""
        if alias is None:
            return tuple(self.sources)
        if alias not in self.sources:
            known = ", ".join(self.sources)
            raise RefusedError([f"there is no source {alias}; sources are {known}"])
        return (alias,)

    def rename_of(self, alias: str) -> Rename:
        """The template or the rules by which the hub topics of a source are named first."""
        return self.sources[alias].rename or self.topics.rename
