"""How long the batches are where the config leaves it open: longer with many partitions."""

from __future__ import annotations

from aggregator.config.schema import Config

KEY = "checkpoint_interval"
BY_PARTITIONS = ((400, 120.0), (100, 60.0), (0, 30.0))
"""From so many partitions in all on, so many seconds.

At the end of a batch each of its partitions gets a new task. That is work for the cores, and what
comes meanwhile waits.
"""


def interval_seconds(config: Config, partitions: int) -> float:
    """How often positions are checkpointed when so many partitions are read in all."""
    stream = config.stream
    # Micro-batches end when they have read what was there, whatever the interval.
    if KEY in stream.model_fields_set or stream.trigger != "realtime":
        return stream.checkpoint_interval
    return next(seconds for least, seconds in BY_PARTITIONS if partitions >= least)


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
