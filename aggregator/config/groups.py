"""The config of a source's groups: which consumer groups are kept in sync at the hub."""

from __future__ import annotations

from pydantic import Field

from aggregator.config.node import Node, Seconds
from aggregator.config.values import patterns


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
        default=10.0, ge=1, le=86_400, description="how often they are looked at"
    )

    @property
    def wanted(self) -> tuple[str, ...]:
        """The patterns of `sync`; none when no group is translated."""
        return tuple(patterns(self.sync))

    @property
    def unwanted(self) -> tuple[str, ...]:
        """The patterns of `exclude`."""
        return tuple(patterns(self.exclude))
