"""A Spark session for jobs that only read Kafka and Delta: notebooks, and `aggregator verify`."""

from __future__ import annotations

from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.stream.driver import prepare_driver
from aggregator.stream.session import build_session, session_conf


def open_reader(config: Config, master: str) -> SparkSession:
    """A session with the settings and jars of the config, on this master.

    JarsError when the jars or a Java cannot be had.
    """
    driver = prepare_driver(config, lambda _: None)
    return build_session(session_conf(config, master, driver), driver.java_home)
