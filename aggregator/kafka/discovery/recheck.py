"""Checks partitions again whose position, or what a reader met, does not fit their log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from aggregator.kafka.admin import AdminPool, ClusterAdmin
from aggregator.kafka.discovery.prepare import ask_sources
from aggregator.model.values import OffsetRange, SourcePartition
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

    def highs(alias: str) -> Callable[[ClusterAdmin], Mapping[SourcePartition, int]]:
        def call(admin: ClusterAdmin) -> Mapping[SourcePartition, int]:
            names = {sp.topic_partition: sp for sp in beyond[alias]}
            found = admin.high_watermarks(names, timeout)
            return {names[tp]: at for tp, at in found.items()}

        return call

    def damages(alias: str) -> Callable[[ClusterAdmin], Mapping[SourcePartition, Damage]]:
        def call(_: ClusterAdmin) -> Mapping[SourcePartition, Damage]:
            names = {sp.topic_partition: sp for sp in sorted(damaged[alias])[:MOST]}
            wanted = {tp: damaged[alias][sp] for tp, sp in names.items()}
            read_on = doubts.read_on or (lambda *_: {})
            found = read_on(config.sources[alias], wanted, min(timeout, READ_SECONDS))
            return {names[tp]: it for tp, it in found.items()}

        return call

    ends = ask_sources(config, {alias: highs(alias) for alias in beyond}, clients)
    read = ask_sources(config, {alias: damages(alias) for alias in damaged}, clients)
    return replace(
        observed,
        highs={sp: at for answer in ends.values() for sp, at in answer.items()},
        damages={sp: it for answer in read.values() for sp, it in answer.items()},
    )
