"""Estimates a lag in bytes, by the records that a running instance has copied. Pure.

The estimate is the number of offsets times the mean size of what was copied of the topic since the
start. Where nothing was copied yet it is not known, which is None, never 0.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from aggregator.status.schema import SourceStatus, Status

Sizes = Callable[[str, str, int | None], int | None]
"""Source, topic, and a lag of it in offsets -> the same in bytes."""


def sizes_of(status: Status) -> Sizes:
    """A function that estimates the bytes of a lag, by this status."""
    means = {
        (source.alias, topic): mean
        for source in status.sources
        for topic, mean in means_of(source).items()
    }
    return lambda alias, topic, lag: in_bytes(lag, means.get((alias, topic)))


def means_of(source: SourceStatus) -> Mapping[str, float]:
    """Topic -> mean bytes of its records, of those of which any was copied."""
    return {it.topic: it.bytes / it.records for it in source.copied if it.records > 0}


def in_bytes(lag: int | None, mean: float | None) -> int | None:
    """A lag in bytes; 0 is known whatever the records are like."""
    if not lag:
        return lag
    return None if mean is None else round(lag * mean)


def sum_sized(lags: Iterable[tuple[int | None, int | None]]) -> int | None:
    """The bytes of all that is known to be behind: pairs of a lag and its bytes.

    None while the bytes of any are not known: a sum without them would be far too little.
    """
    known = [size if lag else 0 for lag, size in lags if lag is not None]
    sizes = [size for size in known if size is not None]
    return sum(sizes) if known and len(sizes) == len(known) else None


def lag_bytes_of(status: Status) -> Mapping[str, int | None]:
    """Source -> the bytes of its lag."""
    size = sizes_of(status)
    lags: dict[str, list[tuple[int | None, int | None]]] = defaultdict(list)
    for part in status.partitions:
        lags[part.cluster].append((part.lag, size(part.cluster, part.topic, part.lag)))
    return {alias: sum_sized(of) for alias, of in lags.items()}
