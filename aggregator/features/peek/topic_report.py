"""One topic at one cluster, as the dashboard and REST show it."""

from pydantic import Field

from aggregator.features.peek.decode_value import Format
from aggregator.kafka.registry import SchemaId
from aggregator.status.schema import Document


class PeekedHeader(Document):
    """A header of a record; a value that is no text is shown in hexadecimal."""

    name: str
    value: str | None


class PeekedRecord(Document):
    """A record as it is stored; `origin` is where a copied record came from.

    Keys and values are shown as text, JSON, or decoded by a registered schema; else as their bytes,
    in hexadecimal, with the reason in `problem`.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    key_format: Format = "text"
    value_format: Format = "text"
    key_schema: SchemaId | None = Field(default=None, description="its schema's id or GUID")
    value_schema: SchemaId | None = Field(default=None, description="its schema's id or GUID")
    key_bytes: int = 0
    value_bytes: int
    problem: str = Field(default="", description="why key or value is shown as bytes")
    headers: tuple[PeekedHeader, ...]
    origin: str | None


class LogSpan(Document):
    """What a partition holds: offsets from `earliest` up to and without `latest`."""

    partition: int
    earliest: int
    latest: int


class TopicLook(Document):
    """A topic at a source, or at the hub.

    `records` are the newest, the newest first; of a topic of very many partitions, of those with
    the most records.
    """

    source: str | None = Field(description="null: at the hub")
    topic: str
    replication_factor: int
    partitions: tuple[LogSpan, ...]
    configs: dict[str, str] = Field(description="all that are in effect")
    records: tuple[PeekedRecord, ...]
    notes: tuple[str, ...] = ()
    error: str = Field(default="", description="why the cluster gives no answer; all else is blank")
