"""Reads hub partitions for scans where batches are copied as they are."""

import time
from collections.abc import Iterable, Mapping
from functools import partial

from aggregator.config.schema import ClusterConfig
from aggregator.datapath.connector.hub_origins import OpenOrigins, OriginRun
from aggregator.features.groups.hub_scan import Otherwise, Scan, ScanCourse
from aggregator.model.values import OffsetRange, Route, SourcePartition, TopicPartition

START_SECONDS = 30.0
"""A Java process starts within this time, also on a busy machine: it is no silence of the hub."""


def in_batches(
    open_origins: OpenOrigins,
    hub: ClusterConfig,
    routes: Iterable[Route],
    stored: Iterable[SourcePartition],
) -> Otherwise:
    """Reads scans where batches may be of the source partitions of routes, or of those stored."""
    known = {*stored, *(sp for it in routes for sp in it.source_partitions())}
    return partial(read_batch_scans, open_origins, hub, known)


def read_batch_scans(
    open_origins: OpenOrigins,
    hub: ClusterConfig,
    known: Iterable[SourcePartition],
    course: ScanCourse,
) -> None:
    """As `read_scans`, what is left; `known` are the source partitions that batches may be of."""
    left, at = course.left, course.at
    course.finish()
    ranges = {tp: OffsetRange(at[tp], scan.end) for tp, scan in left.items()}
    with open_origins(hub, ranges, known, "aggregator-groups") as origins:
        heard = time.monotonic() + START_SECONDS
        for run in origins.runs():
            now = time.monotonic()
            course.check(now - heard)
            if run is not None:
                heard = now
                take_run(run, left, at)
            for tp in course.finish():
                origins.forget(tp)
            if not left:
                return


def take_run(
    run: OriginRun, left: Mapping[TopicPartition, Scan], at: dict[TopicPartition, int]
) -> None:
    """Hand its records to their scan, if that is one of those left; `at` is after them then."""
    scan = left.get(run.tp)
    if scan is None:
        return
    if not run.records:
        scan.done = True
        return
    at[run.tp] = run.offset + run.records
    if not scan.done:
        scan.take(run.offset, run.source, run.origin, run.records)
