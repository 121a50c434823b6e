"""This project as a tool under test: its config, which is the default but for what all have."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from aggregator.config.schema import Config
from aggregator.plan.lanes.memory import DEFAULT_HEAP, HEAP
from bench.job import Job, Tool
from bench.measure import OURS


def settings(job: Job) -> dict[str, object]:
    """The config of this project; what is not here is the default."""
    sources = {
        alias: {"bootstrap_servers": servers, "topics": {"include": ",".join(job.topics)}}
        for alias, servers in job.sources.items()
    }
    return {
        "name": "bench",
        "hub": {
            "bootstrap_servers": job.hub,
            "producer": {"compression.type": job.work.compression},
        },
        "sources": sources,
        "topics": {
            "partitions": job.work.hub_partitions,
            "replication_factor": 1,
            **copying(job),
        },
        "checkpoint": {"path": str(job.folder / "state")},
        "spark": {"conf": {HEAP: DEFAULT_HEAP}},
        "api": {"listen": "off"},
    }


def copying(job: Job) -> dict[str, str]:
    """The settings of what is copied, records or batches, and to which hub partition."""
    if job.work.copies_batches:
        return {"copy_as": "batches", "partition_by": "source_partition"}
    return {"partition_by": "key"}


def positions_seconds(job: Job) -> float:
    """How often this project stores positions by itself."""
    return Config.model_validate(settings(job)).stream.checkpoint_interval


def _command(job: Job) -> list[str]:
    file = _file(job)
    file.write_text(yaml.safe_dump(settings(job)), "utf-8")
    return [sys.executable, "-m", "aggregator", "run", "-c", str(file)]


def _cutover(job: Job, groups: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "aggregator", "groups", "cutover", *groups]
    return [*command, "-c", str(_file(job))]


def _file(job: Job) -> Path:
    return job.folder / "aggregator.yaml"


TOOL = Tool(OURS, settings, _command, frozenset({0}), cutover=_cutover)
