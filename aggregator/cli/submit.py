"""Puts the master and executors of spark-submit into the config.

spark-submit starts the JVM first and hands its settings to it; a session built with a master of
our own would silently replace the one of the command line.
"""

import os
from collections.abc import Mapping

from aggregator.config.schema import Config

GATEWAY_VARIABLE = "PYSPARK_GATEWAY_PORT"
"""spark-submit sets it for the Python program that it starts."""
TAKEN = ("spark.executor.", "spark.cores.", "spark.dynamicAllocation.", "spark.driver.")
"""Settings of the submission that slots are counted with, or that the session would replace."""
NO_MASTER = "local[*]"
"""The master of a submission without `--master`; it says nothing about what is wanted."""


def as_submitted(config: Config) -> Config:
    """The config, with spark-submit's settings when the process was started by it."""
    if not os.environ.get(GATEWAY_VARIABLE):
        return config
    return with_submission(config, submitted_settings())


def with_submission(config: Config, settings: Mapping[str, str]) -> Config:
    """The config with the submission's settings where it leaves them open.

    What the config says wins. A master that is `auto` becomes the submitted one, unless that is
    the default of spark-submit.
    """
    spark = config.spark
    submitted = settings.get("spark.master", NO_MASTER)
    master = submitted if spark.master == "auto" and submitted != NO_MASTER else spark.master
    conf = {name: value for name, value in settings.items() if name.startswith(TAKEN)}
    changed = spark.model_copy(update={"master": master, "conf": {**conf, **spark.conf}})
    return config.model_copy(update={"spark": changed})


def submitted_settings() -> dict[str, str]:
    """Every Spark setting of the submission; attaches to the JVM that spark-submit has started."""
    from pyspark import SparkConf, SparkContext

    # Without it SparkConf would not know the JVM, and be empty.
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())
