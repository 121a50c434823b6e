"""Where a hub record came from: the record at its source, and whether the two are the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aggregator.config.schema import Config
from aggregator.features.peek.interpret import Interpreter
from aggregator.features.peek.topic_report import PeekedRecord
from aggregator.kafka.reader import RangeReader
from aggregator.model.errors import AggregatorError
from aggregator.model.values import Raw, TopicPartition

ORIGIN = ("origin_cluster", "origin_topic", "origin_partition", "origin_offset")


@dataclass(frozen=True, slots=True)
class AtSource:
    """What a source holds where a hub record came from.

    `record` is decoded as far as can be, None when the source does not hold it any more.
    `differs` are the parts that are not the same in the hub; None when there is nothing to compare.
    """

    source: str
    topic: str
    partition: int
    offset: int
    record: PeekedRecord | None
    differs: tuple[str, ...] | None

    @property
    def same(self) -> bool:
        """Whether both are there, and alike in all that was compared."""
        return self.record is not None and not self.differs


def source_of(config: Config, row: Mapping[str, Any] | Any) -> AtSource:
    """The record at its source; `row` is a row of `hub_records`, or a mapping with its columns.

    What the row has of key, value, headers and timestamp is compared. Raises AggregatorError for a
    row without an origin or of an unknown source, ClusterError when the source does not answer.
    """
    columns: Mapping[str, Any] = row if isinstance(row, Mapping) else row.asDict()
    cluster, topic, partition, offset = (columns.get(name) for name in ORIGIN)
    if cluster is None or topic is None or partition is None or offset is None:
        raise AggregatorError(
            f"this row does not say where it came from: it has to have {', '.join(ORIGIN)}"
        )
    (alias,) = config.chosen(str(cluster))
    place = TopicPartition(str(topic), int(partition))
    with RangeReader(config) as reader:
        raw = reader.read_one(alias, place, int(offset))
    if raw is None:
        return AtSource(alias, place.topic, place.partition, int(offset), None, None)
    record = Interpreter(config, alias, place.topic, None).show(place.partition, raw)
    differs = differing(columns, raw)
    return AtSource(alias, place.topic, place.partition, int(offset), record, differs)


def differing(columns: Mapping[str, Any], raw: Raw) -> tuple[str, ...] | None:
    """Which parts of a hub row are not as at the source; None when it has none of them."""
    # A timestamp that is no time is in `timestamp_ms` alone.
    at = "timestamp_ms" if "timestamp_ms" in columns else "timestamp"
    # Of headers of one name a row has the last.
    there: dict[str, Any] = {
        "key": raw.key,
        "value": raw.value,
        "headers": dict(raw.headers),
        at: raw.at_ms,
    }
    compared = [name for name in there if name in columns]
    if not compared:
        return None
    wrong = (name for name in compared if _plain(columns[name]) != there[name])
    return tuple("timestamp" if name == at else name for name in wrong)


def _plain(value: Any) -> Any:
    """A value of a row as a client reads it."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, Mapping):
        return {name: _plain(it) for name, it in value.items()}
    return value
