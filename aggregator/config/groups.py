"""The config of what is carried over to the hub beside records: consumer groups and ACLs."""

from pydantic import Field

from aggregator.config.node import Node, Seconds
from aggregator.config.values import patterns


class AclSelection(Node):
    """Whether ACLs of a source's topics are written at the hub."""

    sync: bool = Field(
        default=False,
        description="principals that may read a topic of this source may read its hub topic: ACLs "
        "are added there while it runs, never for more than every source of that topic allows",
    )


class GroupSelection(Node):
    """Which consumer groups of a source are translated while it runs, and how often."""

    sync: str | list[str] = Field(
        default="",
        description="regex of consumer groups whose committed offsets are translated to the hub "
        "while it runs, or a list; empty: none",
    )
    exclude: str | list[str] = Field(
        default="", description="regex of groups to leave out, or a list; wins over sync"
    )
    every: Seconds = Field(
        default=10.0, ge=1, le=86_400, description="how often their offsets are checked"
    )

    @property
    def wanted(self) -> tuple[str, ...]:
        """The patterns of `sync`; none when no group is translated."""
        return tuple(patterns(self.sync))

    @property
    def unwanted(self) -> tuple[str, ...]:
        """The patterns of `exclude`."""
        return tuple(patterns(self.exclude))
