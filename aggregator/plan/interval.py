"""How long batches are: longer with many partitions, and of another length in each lane. Pure."""

from __future__ import annotations

from aggregator.config.schema import Config

KEY = "checkpoint_interval"
MANY = 100
MANY_SECONDS = 120.0
"""How long batches are from so many partitions in all on; with fewer, as the config's default says.

At the end of a batch each of its partitions gets a new task. That is work for the cores, and what
comes meanwhile waits.
"""
FEW_LANES, MOST_LANES = 4, 10
SPREAD_OF_A_LANE = 0.05
"""How much shorter than the interval batches may be, for each lane: from a fifth of it to a half.

The first ends, of which nothing is compiled yet, take longest, and they must not meet.
"""
GOLDEN = (5**0.5 - 1) / 2
SHORTEST_BATCH_SECONDS = 1.0


def interval_seconds(config: Config, partitions: int) -> float:
    """How often positions are checkpointed when so many partitions are read in all."""
    stream = config.stream
    # Micro-batches end when they have read what was there, whatever the interval.
    if KEY in stream.model_fields_set or stream.trigger != "realtime":
        return stream.checkpoint_interval
    return MANY_SECONDS if partitions >= MANY else stream.checkpoint_interval


def with_interval(config: Config, seconds: float) -> Config:
    """The config as if it named this interval, so that it stays however many partitions come."""
    stream = config.stream.model_copy(update={KEY: seconds})
    return config.model_copy(update={"stream": stream})


def keep_interval(config: Config, running: Config) -> Config:
    """The config that was read again; if it names no interval, with that of the one that runs.

    Another interval starts every lane anew: too much for some partitions more.
    """
    if KEY in config.stream.model_fields_set:
        return config
    return with_interval(config, running.stream.checkpoint_interval)


def batch_seconds(generation: int, interval: float, lanes: int = 1) -> float:
    """How long the batches of a lane's generation are: the interval, or up to a half less.

    Lanes of one length that end a batch together do so for ever, and wait for each other's CPU each
    time. Generations that follow each other differ the most, by multiples of the golden ratio; and
    the more lanes there are, the more of the interval their ends are spread over.
    """
    spread = SPREAD_OF_A_LANE * min(max(lanes, FEW_LANES), MOST_LANES)
    return max(SHORTEST_BATCH_SECONDS, interval * (1 - spread * (generation * GOLDEN % 1)))
