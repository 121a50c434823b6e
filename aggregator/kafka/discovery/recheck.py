"""Checks partitions again whose position, or what a reader met, does not fit their log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aggregator.kafka.admin import AdminPool, ClusterAdmin, by_partition, each_cluster
from aggregator.model.values import OffsetRange, SourcePartition, TopicPartition
from aggregator.plan.positions.start import Damage, Observed
from aggregator.plan.snapshot import Doubts

MOST = 50
"""Limit of damaged partitions of a source that one discovery reads again."""
READ_SECONDS = 5.0


def look_closer(observed: Observed, doubts: Doubts, clients: AdminPool) -> Observed:
    """What was observed, and what belongs to it of partitions that are in doubt.

    Asks no source without such a partition. What a source does not report is absent.
    """
    config = clients.config
    beyond: dict[str, list[SourcePartition]] = {}
    damaged: dict[str, dict[SourcePartition, OffsetRange]] = {}
    for sp, log in observed.offsets.items():
        at = doubts.positions.get(sp) if doubts.positions is not None else log.latest + 1
        if at is None:
            continue
        if at > log.latest and sp.cluster in observed.stable:
            beyond.setdefault(sp.cluster, []).append(sp)
        if sp in doubts.damaged and doubts.read_on and log.earliest <= at < log.latest:
            damaged.setdefault(sp.cluster, {})[sp] = OffsetRange(at, log.latest)
    timeout = config.supervision.connect_timeout

    def highs(admin: ClusterAdmin) -> Mapping[TopicPartition, int]:
        return admin.high_watermarks([it.topic_partition for it in beyond[admin.alias]], timeout)

    def damages(admin: ClusterAdmin) -> Mapping[TopicPartition, Damage]:
        own = damaged[admin.alias]
        wanted = {sp.topic_partition: own[sp] for sp in sorted(own)[:MOST]}
        read_on = doubts.read_on or (lambda *_: {})
        return read_on(config.sources[admin.alias], wanted, min(timeout, READ_SECONDS))

    return replace(
        observed,
        highs=by_partition(each_cluster(config, beyond, highs, clients=clients).ok),
        damages=by_partition(each_cluster(config, damaged, damages, clients=clients).ok),
    )
