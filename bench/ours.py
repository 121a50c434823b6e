"""This project as a tool under test: its config, which is the default but for what all have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import yaml

from aggregator.config.schema import Config
from aggregator.plan.lanes.memory import DEFAULT_HEAP, HEAP
from bench.job import Job, Tool
from bench.measure import OURS, OURS_ON_2, OURS_ON_4
from bench.spark_master import HOST

EXECUTOR_CORES = 8
"""Slots of an executor: threads, of which a task holds one."""


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


def _command(made: Callable[[Job], dict[str, object]], job: Job) -> list[str]:
    file = _file(job)
    file.write_text(yaml.safe_dump(made(job)), "utf-8")
    return [sys.executable, "-m", "aggregator", "run", "-c", str(file)]


def _cutover(job: Job, groups: Sequence[str]) -> list[str]:
    command = [sys.executable, "-m", "aggregator", "groups", "cutover", *groups]
    return [*command, "-c", str(_file(job))]


def _file(job: Job) -> Path:
    return job.folder / "aggregator.yaml"


def _on_workers(name: str, workers: int) -> Tool:
    """With its tasks on executors, each as large as the one process is otherwise."""

    def placed(job: Job) -> dict[str, object]:
        spark = {
            "master": job.master.url if job.master else "spark://MASTER:7077",
            "conf": {
                HEAP: DEFAULT_HEAP,
                "spark.driver.host": HOST,
                "spark.executor.instances": str(workers),
                "spark.executor.cores": str(EXECUTOR_CORES),
                "spark.executor.memory": DEFAULT_HEAP,
            },
        }
        return {**settings(job), "spark": spark}

    return Tool(name, placed, partial(_command, placed), frozenset({0}), workers=workers)


TOOLS = (
    Tool(OURS, settings, partial(_command, settings), frozenset({0}), cutover=_cutover),
    _on_workers(OURS_ON_2, 2),
    _on_workers(OURS_ON_4, 4),
)
