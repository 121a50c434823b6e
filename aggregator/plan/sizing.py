"""What a load needs: cores, memory, tasks, connections and network, by a model of costs. Pure.

The costs are fitted to the benchmark's own pages (docs/sizing.md), and tests hold them to those.
"""

import math
from dataclasses import dataclass

from aggregator.plan.lanes.memory import DEFAULT_HEAP, LEAST_FETCH, MIB, SHARE, heap_bytes
from aggregator.plan.lanes.slots import tasks_per_source

RECORD_SECONDS = 0.4e-6
"""CPU of a record at full speed, whatever its size."""
WIRE_SECONDS = 1.2e-9
"""CPU of a byte that is read from a source or sent to the hub, as it is on the wire."""
CODEC_SECONDS = 1.6e-9
"""CPU of a byte of a record that is decompressed and compressed again."""
ORIGIN_BYTES = 116
"""What the five origin headers add to a record, before compression."""
IDLE_CORES = 0.008
PARTITION_CORES = 0.00003
"""What an instance takes that copies nothing, and more of it for each partition."""
WAKING_CORES = 0.5
WAKING_RATE = 1500.0
WAKING_PARTITIONS = 300
"""Live records come one by one, and each wakes a reader and makes a request. That costs up to
`WAKING_CORES`, and half of them at this rate: beyond it several records come at once. With
`WAKING_PARTITIONS` half of this rate has that effect, as fewer records come at once."""
FREE_PART = 0.5
"""This part of the cores stays free: for peaks, and because latency grows when all are busy."""
TASK_HEAP = SHARE * 2 * LEAST_FETCH
"""Fetches have a quarter of the heap; two of the smallest fit for each task."""
BESIDE_HEAP = 700 * MIB
"""Python, Java's own memory and buffers outside the heap."""
WINDOW_BYTES = 100_000
"""What a connection has in flight with a broker's default `socket.send.buffer.bytes`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What is copied.

    `records` are those per second of all sources, `size` the bytes of one (key and value, not
    compressed), `ratio` the part of them that compression leaves. `partitions` are those of all
    sources; `brokers` those of one source. `round_trip` is in seconds, to a source. `catch_up` is
    how many times as fast records are copied after an outage as they come.
    """

    records: float
    size: int
    ratio: float = 1.0
    sources: int = 1
    partitions: int = 12
    brokers: int = 3
    hub_brokers: int = 3
    round_trip: float = 0.001
    catch_up: float = 2.0


@dataclass(frozen=True, slots=True)
class Sizing:
    """What that needs; cores are those of the machine that the benchmark ran on."""

    live_cores: float
    catch_up_cores: float
    cores: int
    tasks: int
    heap: int
    memory: int
    connections: int
    in_per_second: int
    out_per_second: int


def size_of(load: Workload) -> Sizing:
    """The sizing of a load that one instance copies.

    `cores` has room for catching up while records keep coming, and half of it stays free. The
    network is that of catching up; `tasks` are those of a source.
    """
    live, full = live_cores(load), load.records * load.catch_up * record_seconds(load)
    cores = max(2, math.ceil(max(live, full) / (1 - FREE_PART)))
    arriving = load.records * load.catch_up * load.size * load.ratio
    far = math.ceil(arriving / load.sources / load.brokers * load.round_trip / WINDOW_BYTES)
    tasks = max(tasks_per_source(cores, load.sources, None), far)
    tasks = min(tasks, max(1, load.partitions // load.sources))
    heap = max(heap_bytes(DEFAULT_HEAP) or 0, tasks * load.sources * TASK_HEAP)
    each = load.brokers + load.hub_brokers
    return Sizing(
        live_cores=round(live, 2),
        catch_up_cores=round(full, 2),
        cores=cores,
        tasks=tasks,
        heap=heap,
        memory=heap + BESIDE_HEAP,
        connections=load.sources * (tasks * each + load.brokers) + load.hub_brokers,
        in_per_second=round(arriving),
        out_per_second=round(load.records * load.catch_up * _hub_bytes(load)),
    )


def live_cores(load: Workload) -> float:
    """The cores that records take as they come."""
    rate = load.records * (1 + load.partitions / WAKING_PARTITIONS)
    waking = WAKING_CORES * rate / (rate + WAKING_RATE)
    idle = IDLE_CORES + PARTITION_CORES * load.partitions
    return idle + waking + load.records * record_seconds(load)


def record_seconds(load: Workload) -> float:
    """The CPU of a record in a backlog, where batches are full."""
    codec = load.size * CODEC_SECONDS if load.ratio < 1 else 0.0
    wire = load.size * load.ratio + _hub_bytes(load)
    return RECORD_SECONDS + codec + wire * WIRE_SECONDS


def _hub_bytes(load: Workload) -> float:
    """Bytes of a record on its way to the hub: origin headers compress as well as the rest."""
    return (load.size + ORIGIN_BYTES) * load.ratio
