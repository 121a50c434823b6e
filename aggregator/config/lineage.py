"""The config of lineage: where OpenLineage events go."""

from typing import Any

from pydantic import Field, field_validator

from aggregator.config.node import Node, Seconds


class LineageConfig(Node):
    """What data catalogs are shown: which source topics flow into which hub topics and tables."""

    transport: dict[str, Any] = Field(
        default_factory=dict,
        description="where OpenLineage events go, with the settings of openlineage-python: "
        "{type: http, url: ...}, {type: file, log_file_path: ..., append: true}, or {type: kafka, "
        "topic: ...}, at the hub or where its config says; none = nothing is sent",
    )
    namespace: str = Field(
        default="kafka-aggregator", min_length=1, description="the namespace of the jobs"
    )
    interval: Seconds = Field(
        default=3600.0,
        ge=1,
        description="how often a running job is reported again; a change is reported at once",
    )

    @field_validator("transport")
    @classmethod
    def _has_type(cls, value: dict[str, Any]) -> dict[str, Any]:
        if value and not isinstance(value.get("type"), str):
            raise ValueError("has no type; write type: http, file or kafka")
        return value
