"""A Spark session for jobs that only read Kafka and Delta: notebooks, and `aggregator verify`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.datapath.jars import jars
from aggregator.datapath.spark.jvm import prepare_driver
from aggregator.datapath.spark.session import build_session, session_conf


def open_reader(config: Config, master: str, more: Sequence[str] = ()) -> SparkSession:
    """A session with the settings and jars of the config, and the jar sets `more`, on this master.

    JarsError when the jars or a Java cannot be had.
    """
    driver = prepare_driver(config, lambda _: None)
    # Behind the class path, so that the archive of classes still fits it.
    driver = replace(driver, jars=(*driver.jars, *_jars(config, more)))
    spark = build_session(session_conf(config, master, driver), driver)
    # A JVM that ran before has its class path already, and takes no more from the settings.
    add_jars(spark, config, more)
    return spark


def add_jars(spark: SparkSession, config: Config, more: Sequence[str]) -> None:
    """Have a session read the jar sets `more` as well: each session has its own.

    JarsError when they cannot be had.
    """
    for jar in _jars(config, more):
        spark.sql("ADD JAR '{}'".format(str(jar).replace("'", "\\'")))


def _jars(config: Config, more: Sequence[str]) -> list[Path]:
    folder = Path(config.spark.jars) if config.spark.jars else None
    return [jar for name in more for jar in jars(name, folder=folder)]
