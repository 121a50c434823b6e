"""How long batches are: longer with many partitions, and of another length in each lane. Pure."""

from __future__ import annotations

from aggregator.config.schema import Config

KEY = "checkpoint_interval"
BY_PARTITIONS = ((400, 120.0), (100, 60.0))
"""From so many partitions in all on, so many seconds; with fewer, what the config has by default.

At the end of a batch each of its partitions gets a new task. That is work for the cores, and what
comes meanwhile waits.
"""
SPREAD = 0.2
GOLDEN = (5**0.5 - 1) / 2
SHORTEST_BATCH_SECONDS = 1.0


def interval_seconds(config: Config, partitions: int) -> float:
    """How often positions are checkpointed when so many partitions are read in all."""
    stream = config.stream
    # Micro-batches end when they have read what was there, whatever the interval.
    if KEY in stream.model_fields_set or stream.trigger != "realtime":
        return stream.checkpoint_interval
    found = (seconds for least, seconds in BY_PARTITIONS if partitions >= least)
    return next(found, stream.checkpoint_interval)


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


def batch_seconds(generation: int, interval: float) -> float:
    """How long the batches of a lane's generation are: the interval, or up to a fifth less.

    Lanes of one length that end a batch together do so for ever, and wait for each other's CPU each
    time. Generations that follow each other differ the most, by multiples of the golden ratio.
    """
    return max(SHORTEST_BATCH_SECONDS, interval * (1 - SPREAD * (generation * GOLDEN % 1)))
