"""What a soak has besides faults: all optional features, a load of daily shape, topics that age."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from aggregator.extras.embedded.topics import create_topic
from aggregator.extras.embedded.waiting import wait_until
from faults.load import Writer
from faults.schedule import Fault
from faults.world import AGING, TOPIC, World
from support.rest import ask

CONFIGS: Mapping[str, dict[str, str]] = {
    AGING[0]: {"retention.ms": "120000", "segment.ms": "20000"},
    AGING[1]: {
        "cleanup.policy": "compact",
        "segment.ms": "20000",
        "max.compaction.lag.ms": "60000",
    },
}
"""Topics whose old records go: those are counted, and not compared."""
AGING_RATE = 10.0
AGES_OFTEN = {"log.retention.check.interval.ms": "10000", "log.cleaner.backoff.ms": "5000"}
"""How often brokers look for what is too old; Kafka's defaults are 5 min and 15 s."""
DAY_SECONDS = 900.0
"""A day of the load: from its least to its most and back."""
GROUP = "readers"
GROUP_SECONDS = 5.0
REFRESH_SECONDS = (2.0, 3.0)
"""What a reload changes `topics.refresh_interval` to, by turns."""


def features(made: World) -> dict[str, Any]:
    """Every optional feature that a config can ask for, beside those of the whole world."""
    return {
        "heartbeats": True,
        "metrics": {"partitions": True, "names": ["native", "mm2"]},
        "timeline": {"interval": "5s", "keep": "1h"},
        "completeness": {"interval": "5s"},
        "lineage": {
            "transport": {
                "type": "file",
                "log_file_path": str(made.folder / "lineage.jsonl"),
                "append": True,
            },
            "interval": "30s",
        },
        "tee": {
            "path": str(made.folder / "tee"),
            "decode": "json",
            "interval": "10s",
            "maintain_interval": "2m",
        },
    }


@contextmanager
def life_at_sources(made: World) -> Iterator[None]:
    """Topics that age, with load in them, and a group that commits, until the block ends."""
    for writer in made.writers:
        writer.day_seconds = DAY_SECONDS
    for alias, cluster in made.sources.items():
        for topic, config in CONFIGS.items():
            create_topic(cluster.admin_servers, topic, config=config)
            seed, linger = made.settings.seed, made.settings.linger_ms
            writer = Writer(alias, cluster.admin_servers, topic, 1, AGING_RATE, seed, linger)
            writer.is_keyed = "compact" in config.get("cleanup.policy", "")
            made.aging.append(writer)
    over = threading.Event()
    commits = threading.Thread(target=_commit, args=(made, over), name="group")
    for writer in made.aging:
        writer.start()
    commits.start()
    try:
        yield
    finally:
        over.set()
        commits.join()
        for writer in made.aging:
            writer.stop(0.0)


def _commit(made: World, over: threading.Event) -> None:
    """Commit the ends of each source's partitions for a group, again and again."""
    consumers = [
        Consumer(
            {
                "bootstrap.servers": cluster.admin_servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        for cluster in made.sources.values()
    ]
    partitions = range(made.settings.source_partitions)
    while not over.wait(GROUP_SECONDS):
        for consumer in consumers:
            # A source may be away: the next turn has newer ends anyway.
            with suppress(KafkaException):
                ends = [
                    TopicPartition(TOPIC, each, consumer.get_watermark_offsets(at, timeout=2)[1])
                    for each in partitions
                    for at in [TopicPartition(TOPIC, each)]
                ]
                consumer.commit(offsets=ends, asynchronous=False)
    for consumer in consumers:
        consumer.close()


def config_reload(world: World, _fault: Fault) -> None:
    """Change the YAML, and have it read again (SIGHUP) under load; it has to be in force then."""
    topics = world.config.topics
    seconds = next(it for it in REFRESH_SECONDS if it != topics.refresh_interval)
    changed = topics.model_copy(update={"refresh_interval": seconds})
    world.config = world.config.model_copy(update={"topics": changed})
    world.app.reload(world.config)
    wait_until(
        lambda: _in_force(world) == seconds,
        seconds=world.allowed_seconds,
        what=f"refresh_interval: {seconds:g}s is not in force",
    )


def _in_force(world: World) -> float | None:
    """The `topics.refresh_interval` of the running application, in seconds."""
    with suppress(OSError):
        code, shown = ask("GET", f"http://{world.config.api.listen}/api/config")
        if code == 200:
            return float(str(shown["topics"]["refresh_interval"]).removesuffix("s"))
    return None
