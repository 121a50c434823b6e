"""The config of a source's ACLs: whether its readers may read the hub topics."""

from __future__ import annotations

from pydantic import Field

from aggregator.config.node import Node


class AclSelection(Node):
    """Whether ACLs of a source's topics are written at the hub."""

    sync: bool = Field(
        default=False,
        description="who may read a topic of this source may read the hub topic that it leads to: "
        "ACLs are added there while it runs, never for more than every source of it allows",
    )
