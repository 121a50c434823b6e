"""The config of the tee: which hub topics land in Delta tables, where, and how."""

from typing import Any, Literal

from pydantic import Field, field_validator

from aggregator.config.node import Node, Seconds
from aggregator.config.topics import TopicSelection

Decode = Literal["off", "json", "auto"]
Run = Literal["beside", "alone"]


class TeeTopics(TopicSelection):
    """Which hub topics are taken: a regex (full match), a list of them, or with commas."""

    include: str | list[str] = Field(
        default=".*", description="regex of hub topics to land, or a list"
    )


class TeeConfig(Node):
    """Hub records in Delta tables, a table for each hub topic."""

    run: Run = Field(
        default="beside",
        description="beside: `aggregator run` runs it as well, in a process of its own, where the "
        "config has `tee`; alone: only `aggregator tee` does",
    )
    topics: TeeTopics = Field(
        default_factory=TeeTopics,
        description="which hub topics are written to tables; .* means no internal topics",
    )
    path: str = Field(
        default="./tee",
        min_length=1,
        description="folder or object store URI, as Spark writes it; each topic is a table in it",
    )
    decode: Decode = Field(
        default="off",
        description="auto (true is the same): Avro and JSON Schema in the wire format of a schema "
        "registry, and JSON objects, become a struct column, which gets new fields as they appear; "
        "json: only values that are JSON objects; off: values stay bytes alone",
    )
    interval: Seconds = Field(
        default=2.0, ge=0.1, le=3600, description="how often the hub is asked for new records"
    )
    parallel: int = Field(
        default=2, ge=1, le=64, description="number of topics written at the same time"
    )
    keep: Seconds | None = Field(
        default=None,
        ge=86_400,
        description="days that are older are deleted, by the time of the records; none = never",
    )
    maintain_interval: Seconds = Field(
        default=600.0,
        ge=1,
        description="how often small files of a table become large ones, and old ones are deleted",
    )
    unused_files: Seconds = Field(
        default=86_400.0,
        ge=3600,
        description="how long files that are no part of a table stay, for readers of older "
        "versions of it, and because a commit may be about to add them",
    )

    @field_validator("decode", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        # YAML reads `off` and `on` as truth values.
        if isinstance(value, bool):
            return "auto" if value else "off"
        return (
            {"true": "auto", "false": "off"}.get(value, value) if isinstance(value, str) else value
        )


def unasked() -> TeeConfig:
    """The tee of a config that has none: nothing but `aggregator tee` runs it."""
    return TeeConfig(run="alone")
