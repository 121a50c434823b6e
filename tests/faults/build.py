"""Builds a world: clusters, topics, load, listener; ends all of it, however the block ends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster, start_clusters
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import create_topic
from bench.spark_master import HOST
from faults.clusters import (
    hub_cluster,
    login_at,
    source_cluster,
    tokens_for,
)
from faults.load import Writer, alias_of
from faults.soak import GROUP, features, life_at_sources
from faults.world import AGING, ALIASES, LATER, REFUSED, TOPIC, WORKERS, Progress, Settings, World
from support.application import Application
from support.object_store import Store
from support.running import make_config, source
from support.silence import listening
from support.wall_clock import WallClock
from support.workers import spark_workers

INCLUDED = rf"{TOPIC}|{'|'.join(AGING)}|{LATER}-\d+|{REFUSED}-\d+"
WHOLE = {"copy_as": "batches", "partition_by": "source_partition"}
MERGED = {"overrides": {AGING[1]: {"merge_compacted": True}}}
"""All sources have a topic of this name, and the newest record of a key wins, whose ever it is."""
REMOTE = {"spark.driver.host": HOST, "spark.executor.memory": "512m"}
"""How executors find the driver, and how large they are."""
STORE_SECONDS = 0.05
"""By how much the object store's answers are late: one in another data centre."""


@contextmanager
def world(settings: Settings, progress: Progress, folder: Path | None = None) -> Iterator[World]:
    """A world with its clusters and its load; the application is not started yet.

    Everything is ended with the block. The folder is left behind (clusters' data, state, logs).
    """
    root = folder or Path(tempfile.mkdtemp(prefix="faults-"))
    made = World(settings, root, progress)
    with ExitStack() as stack:
        if settings.tokens:
            made.token_server = stack.enter_context(tokens_for(made))
        made.sources = {alias: source_cluster(made, alias) for alias in ALIASES[: settings.sources]}
        made.hub = hub_cluster(made)
        for cluster in (made.hub, *made.sources.values()):
            stack.callback(_stop, cluster)
        stack.callback(_end, made.lives)
        start_clusters([made.hub, *made.sources.values()])
        for proxy in (*made.proxies, *made.inner_proxies):
            stack.callback(proxy.close)
        _make_topics(made)
        if settings.master == WORKERS:
            made.workers = stack.enter_context(spark_workers(root / "spark"))
        if settings.store:
            made.store = Store(root / "store", STORE_SECONDS)
            stack.callback(made.store.close)
        if settings.clock:
            made.clock = WallClock(root / "clock")
        made.config = _config(made)
        made.arrivals = stack.enter_context(
            listening(made.hub.admin_servers, TOPIC, settings.hub_partitions, alias_of)
        )
        made.writers = [
            Writer(
                alias,
                cluster.admin_servers,
                TOPIC,
                settings.source_partitions,
                settings.rate / settings.sources,
                settings.seed,
                settings.linger_ms,
            )
            for alias, cluster in made.sources.items()
        ]
        for writer in made.writers:
            writer.start()
            stack.callback(writer.stop, 0.0)
        if settings.soak:
            stack.enter_context(life_at_sources(made))
        progress(
            f"the clusters run, and {settings.rate:.0f} records/s are written; state in {root}"
        )
        yield made


def remove(made: World) -> None:
    """Delete everything a round has left on the disk."""
    shutil.rmtree(made.folder, ignore_errors=True)


def _end(lives: list[Application]) -> None:
    for life in lives:
        life.end()


def _stop(cluster: EmbeddedCluster) -> None:
    """End a cluster at once: its data is kept for the folder, not for a clean start."""
    for broker in cluster.brokers:
        if broker.alive:
            broker.kill()


def _make_topics(made: World) -> None:
    settings = made.settings
    for cluster in made.sources.values():
        create_topic(cluster.admin_servers, TOPIC, partitions=settings.source_partitions)
    create_topic(
        made.hub.admin_servers,
        TOPIC,
        partitions=settings.hub_partitions,
        config=made.hub_topic_config(),
    )


def _config(made: World) -> Config:
    settings = made.settings
    groups = {"groups": {"sync": GROUP}} if settings.soak else {}
    producer = {}
    if settings.delivery_timeout_seconds is not None:
        timeout = round(settings.delivery_timeout_seconds * 1000)
        producer = {"delivery.timeout.ms": timeout, "request.timeout.ms": timeout // 2}
    return make_config(
        made.hub,
        made.folder / "state",
        {
            alias: source(servers, INCLUDED, kafka=client, **groups)
            for alias in made.sources
            for servers, client in [login_at(made, alias)]
        },
        hub={"producer": producer},
        topics={
            "sync_configs": bool(settings.older) or settings.soak,
            "partitions": settings.hub_partitions,
            **(WHOLE if settings.batches else {}),
            **(MERGED if settings.soak else {}),
        },
        stream={
            "checkpoint_interval": f"{settings.checkpoint_seconds:g}s",
            "lanes": settings.lanes,
        },
        spark={
            "master": made.workers.url if made.workers else settings.master,
            "conf": {
                "spark.driver.extraJavaOptions": settings.java_options,
                **(REMOTE if made.workers else {}),
            },
        },
        api={"listen": f"127.0.0.1:{free_ports(1)[0]}" if settings.commanded else "off"},
        **_checkpoint(made),
        **(features(made) if settings.soak else {}),
    )


def _checkpoint(made: World) -> dict[str, Any]:
    """Where the checkpoint is, when it is not in the folder."""
    if made.store is None:
        return {}
    place = {"path": made.store.uri, "storage_options": dict(made.store.options)}
    return {"checkpoint": place}
