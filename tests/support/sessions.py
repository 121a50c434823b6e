"""A Spark session as a run builds it, without a run and without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.datapath.spark.jvm import prepare_driver
from aggregator.datapath.spark.session import build_session, session_conf


def plain_config() -> Config:
    """The smallest config; nothing listens at its addresses."""
    return load_text(
        """
        hub: {bootstrap_servers: "hub:9092"}
        sources:
          eu: {bootstrap_servers: "eu:9092", topics: {include: orders}}
        """
    )


@contextmanager
def running_session(slots: int = 2) -> Iterator[SparkSession]:
    """A session with every jar of a run and `slots` slots; stopped with the block."""
    driver = prepare_driver(plain_config(), lambda _: None)
    session = build_session(session_conf(plain_config(), f"local[{slots}]", driver), driver)
    try:
        yield session
    finally:
        session.stop()
