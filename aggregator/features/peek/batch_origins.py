"""Finds the origins of hub records whose batch was copied as it is: their headers have none."""

import time
from collections.abc import Iterable, Mapping
from typing import Self

from aggregator.config.schema import Config
from aggregator.datapath.connector.hub_origins import OriginRun, ProcessOrigins
from aggregator.features.quarantine.records import Origin, origin_of
from aggregator.model.values import OffsetRange, Raw, TopicPartition
from aggregator.store.checkpoint.checkpoint_table import stored_state

SECONDS = 15.0
"""A Java process starts within this time, also on a busy machine, and reads a screen of records."""
CLIENT = "aggregator-look"
ENDLESS = 2**63 - 1

Placed = tuple[TopicPartition, Raw]
"""A record with its hub partition."""
Origins = dict[tuple[TopicPartition, int], Origin]
"""Origins by hub partition and offset."""


def without_origin(records: Iterable[Placed]) -> dict[TopicPartition, list[int]]:
    """The offsets of those whose headers have no origin, by partition."""
    found: dict[TopicPartition, list[int]] = {}
    for tp, raw in records:
        if origin_of(raw) is None:
            found.setdefault(tp, []).append(raw.offset)
    return found


def origins_of(config: Config, records: Iterable[Placed]) -> tuple[Origins, int]:
    """The origins of those records that have none in their headers, as far as batches have them.

    And of how many partitions the batches were not read in time. Raises ClusterError when the hub
    cannot be read, and CheckpointError.
    """
    wanted = without_origin(records)
    if not wanted:
        return {}, 0
    ranges = {tp: OffsetRange(min(it), max(it) + 1) for tp, it in wanted.items()}
    with BatchOrigins(config, ranges) as origins:
        return origins.find(wanted), origins.late


class BatchOrigins:
    """Reads the origins of records in these ranges of the hub; a context manager.

    Each partition is asked for in its order. Of source partitions that the checkpoint knows; where
    it knows none nothing is read.
    """

    def __init__(self, config: Config, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        known = stored_state(config.checkpoint).entries
        self._origins = ProcessOrigins(config.hub, ranges, known, CLIENT) if known else None
        self._runs: dict[TopicPartition, list[OriginRun]] = {tp: [] for tp in ranges}
        self._read = dict.fromkeys(ranges, -1)
        self.late = 0
        """Partitions that were not read in time as far as `find` wanted."""

    def __enter__(self) -> Self:
        if self._origins is not None:
            self._coming = self._origins.__enter__().runs()
        return self

    def __exit__(self, *_: object) -> None:
        if self._origins is not None:
            self._origins.__exit__()

    def find(self, wanted: Mapping[TopicPartition, list[int]]) -> Origins:
        """The origins of these offsets, as far as they come in time and batches have them."""
        found: Origins = {}
        if self._origins is None:
            return found
        tops = {tp: max(offsets) for tp, offsets in wanted.items()}
        self._read_to(tops)
        self.late = sum(self._read[tp] <= top for tp, top in tops.items())
        for tp, offsets in wanted.items():
            for run in self._runs[tp]:
                for offset in offsets:
                    if run.source is not None and run.offset <= offset < run.offset + run.records:
                        at = run.origin + offset - run.offset
                        found[tp, offset] = Origin(run.source, at)
            self._runs[tp] = [it for it in self._runs[tp] if it.offset + it.records > max(offsets)]
        return found

    def _read_to(self, tops: Mapping[TopicPartition, int]) -> None:
        deadline = time.monotonic() + SECONDS
        while any(self._read[tp] <= top for tp, top in tops.items()):
            run = next(self._coming)
            if run is not None:
                self._runs[run.tp].append(run)
                self._read[run.tp] = run.offset + run.records if run.records else ENDLESS
            if time.monotonic() > deadline:
                return
