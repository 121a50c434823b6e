"""Judges what a soak has besides the records that every round judges."""

from __future__ import annotations

from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable

from aggregator.extras.embedded.topics import admin, end_offsets
from faults.campaign import read
from faults.judge import origin_of
from faults.soak import GROUP
from faults.world import AGING, TOPIC, World

TEE_SECONDS = 120.0
"""How far the tee may be behind when the application ends."""


def evaluate(made: World) -> None:
    """Whether the features did what they are for; what they did is noted."""
    _judge_aging(made)
    _judge_tee(made)
    _judge_group(made)


def _judge_aging(made: World) -> None:
    """Records that age may go before they are copied; those that are there are there once."""
    for topic in AGING:
        clusters = made.sources.values()
        written = sum(sum(end_offsets(it.admin_servers, topic).values()) for it in clusters)
        copied = made.records_of(topic)
        made.notes.append(f"{topic}: {copied:,} of {written:,} records were copied")
        if not written / 2 < copied <= written:
            made.note(f"{topic}: {copied:,} records in the hub, and {written:,} were written")
        found: list[Any] = [it.headers() for it in read(made.hub.admin_servers, topic)]
        origins = [origin_of(it or []) for it in found]
        if twice := len(origins) - len(set(origins)):
            made.note(f"{topic}: {twice:,} records are in the hub twice")


def _judge_tee(made: World) -> None:
    """The table has no hub record twice, and all but what came just before the end."""
    table = DeltaTable(str(made.folder / "tee" / TOPIC)).to_pyarrow_dataset()
    # By now the application has ended, and its tee with it.
    places = table.to_table(columns=["partition", "offset"])
    rows, different = places.num_rows, places.group_by(["partition", "offset"]).aggregate([])
    held = made.records_of(TOPIC)
    made.notes.append(f"the tee's table has {rows:,} of {held:,} records of the hub")
    if different.num_rows != rows:
        made.note(f"the tee's table has {rows - different.num_rows:,} records twice")
    if rows < held - TEE_SECONDS * made.settings.rate:
        made.note(f"the tee's table has only {rows:,} of {held:,} records")


def _judge_group(made: World) -> None:
    """The group of the sources has positions at the hub."""
    kafka: AdminClient = admin(made.hub.admin_servers)
    asked = kafka.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])[GROUP]
    found = asked.result().topic_partitions
    made.notes.append(f"group {GROUP} has {len(found)} positions at the hub")
    if not found:
        made.note(f"group {GROUP} has no position at the hub")
