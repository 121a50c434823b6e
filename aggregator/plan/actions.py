"""Changes of the hub before the start, as values; `aggregator.kafka.admin` applies them."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Create a hub topic; a replication factor of None is the hub's default."""

    name: str
    partitions: int
    replication_factor: int | None
    configs: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        copies = self.replication_factor or "default"
        return f"create {self.name}: {self.partitions} partitions, replication factor {copies}"


@dataclass(frozen=True, slots=True)
class GrowTopic:
    """Give an existing hub topic more partitions."""

    name: str
    from_partitions: int
    to_partitions: int

    def __str__(self) -> str:
        return f"grow {self.name}: {self.from_partitions} -> {self.to_partitions} partitions"


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Set configs of an existing hub topic: name -> (value on the topic now or None, new)."""

    name: str
    changes: Mapping[str, tuple[str | None, str]]

    def __str__(self) -> str:
        parts = (f"{key} {old or 'default'} -> {new}" for key, (old, new) in self.changes.items())
        return f"alter {self.name}: {', '.join(parts)}"


Action = CreateTopic | GrowTopic | AlterConfigs


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one action. `changed` is False when the hub was like that already.

    `lasting`: the hub has judged what it was asked for, and would say the same again.
    """

    action: Action
    ok: bool
    changed: bool
    reason: str = ""
    lasting: bool = False
