"""Whether the hub holds more of a partition than the other tool has stored about it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.config.schema import Config
from aggregator.model.values import SourcePartition, TopicPartition
from aggregator.plan.topics.naming import naming_of


class Copy(NamedTuple):
    """What a copy has in common with its record."""

    key: bytes | None
    value: bytes | None
    timestamp: int


@dataclass(frozen=True, slots=True)
class Beyond:
    """Partitions that were compared with the hub, and those of which that was not possible.

    `more` are records that the hub has behind what was stored, by partition.
    """

    same: int = 0
    more: Mapping[SourcePartition, int] | None = None
    unknown: int = 0

    def __str__(self) -> str:
        more = self.more or {}
        lines = []
        if self.same:
            lines.append(f"partitions that end there with what was read last: {self.same}")
        if more:
            lines.append(
                f"partitions that hold more: {len(more)}, with {sum(more.values()):,} records that "
                "come twice, as the other tool was not stopped cleanly"
            )
        if self.unknown:
            lines.append(f"partitions whose end does not show it: {self.unknown}")
        return "compared with the hub: " + "; ".join(lines) if lines else ""


def hub_partition_of(config: Config, sp: SourcePartition) -> TopicPartition | None:
    """The one hub partition that has a source partition alone, None if there is none.

    A copy with another partition, or beside those of other sources, cannot be found by its place.
    """
    name = naming_of(config, sp.cluster).of(sp.topic).name
    if config.topics.rules_for(name).partition_by != "source_partition":
        return None
    others = (alias for alias in config.sources if alias != sp.cluster)
    if any(naming_of(config, it).of(sp.topic).name == name for it in others):
        return None
    return TopicPartition(name, sp.partition)


def records_beyond(
    last: Copy | None, records: Sequence[tuple[int, Copy]], position: int
) -> int | None:
    """How many of the source's records from a position on are in the hub; None if that is unknown.

    `last` is the hub's last record, `records` are the source's from before the position on. Of
    records with the same content the last one counts, so it is rather too many than too few.
    """
    if last is None:
        return 0 if not any(offset < position for offset, _ in records) else None
    found = max((offset for offset, content in records if content == last), default=None)
    return None if found is None else sum(position <= offset <= found for offset, _ in records)


def summed(found: Iterable[tuple[SourcePartition, int | None]]) -> Beyond:
    """All that was compared."""
    rows = list(found)
    more = {sp: count for sp, count in rows if count}
    return Beyond(
        sum(count == 0 for _, count in rows), more, sum(count is None for _, count in rows)
    )
