"""Builds the one Spark session of an aggregation, with the settings the promise depends on.

Jobs that only read Kafka and Delta, notebooks and `aggregator verify`, have a session of their own.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.datapath.connector.connector import PLUGIN
from aggregator.datapath.jars import jars
from aggregator.datapath.spark.gateway import CLASS_PATH
from aggregator.datapath.spark.java_options import (
    DRIVER,
    EXECUTOR,
    driver_options,
    executor_options,
)
from aggregator.datapath.spark.jvm import Driver, prepare_driver, start_jvm
from aggregator.model.errors import AggregatorError
from aggregator.plan.lanes.memory import DEFAULT_HEAP, HEAP
from aggregator.plan.lanes.producer import is_local

LOG4J_FILE = Path(__file__).with_name("log4j2.properties")

ENFORCED = {
    # A second attempt of a task would write its records twice: the sink is at-least-once.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Lanes share the session; FIFO would let one lane's long batch hold the slots of the others.
    "spark.scheduler.mode": "FAIR",
    "spark.sql.session.timeZone": "UTC",
    # Spark's list of sources and sinks for real-time mode does not know ours.
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
}
"""Settings a user cannot change."""

FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    HEAP: DEFAULT_HEAP,
    # Work beside the lanes (recovery, SQL) is small: 200 shuffle tasks would only cost.
    "spark.sql.shuffle.partitions": "8",
    "spark.default.parallelism": "8",
    # Nor are our tables large: Delta reads a table's log in fifty tasks, each time it is opened.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Real-time batches may be shorter than Spark's five seconds.
    "spark.sql.streaming.realTimeMode.minBatchDuration": "1000",
    # A task lives for minutes and there are few: what Spark remembers of old ones is never asked.
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.streaming.stopTimeout": "10000",
    # What a query notes at each batch's end is scratch, by plain files: with checksums, and through
    # Hadoop's FileContext, Java starts some twenty programs (chmod, readlink) at each batch's end.
    "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # And so does Delta at each commit. This one renames as well; who else may write is our matter.
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    # Of a query's own notes we read the newest.
    "spark.sql.streaming.minBatchesToRetain": "2",
    # By default one for each slot: 1024 threads and 100 MB that nothing uses.
    "spark.rpc.netty.dispatcher.numThreads": "8",
    # Spark's own pattern does not know that a JAAS config holds a password.
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|jaas|credential|pem",
}
"""Settings a user may change under `spark.conf`."""


def session_conf(config: Config, master: str, driver: Driver) -> dict[str, str]:
    """Every Spark setting of the session, as name -> value; `master` is a URL, never `auto`."""
    conf = config.spark.conf
    # With a local master the driver is the only Java: what it has by its class path, some 20 MB,
    # each start would copy besides.
    there = driver.class_path if is_local(master) else ()
    sent = [path for path in driver.jars if path not in there]
    jars = ",".join(filter(None, [*map(str, sent), conf.get("spark.jars")]))
    return {
        **DEFAULTS,
        **conf,
        **ENFORCED,
        "spark.app.name": f"aggregator-{config.name}",
        "spark.master": master,
        "spark.plugins": ",".join(filter(None, [PLUGIN, conf.get("spark.plugins")])),
        **({"spark.jars": jars} if jars else {}),
        # In any case: the class loader of `spark.jars` has no part in the archive.
        CLASS_PATH: os.pathsep.join(map(str, driver.class_path)),
        DRIVER: driver_options(
            LOG4J_FILE.as_uri(), driver.archive, Path(tempfile.gettempdir()), conf.get(DRIVER, "")
        ),
        EXECUTOR: executor_options(conf.get(EXECUTOR, "")),
    }


def build_session(conf: dict[str, str], driver: Driver) -> SparkSession:
    """Start the session with exactly these settings, on this driver's Java.

    Raises AggregatorError when an open session does not have the enforced ones.
    """
    start_jvm(conf, driver)
    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    with _quick_session():
        session = builder.getOrCreate()
    # getOrCreate hands out a session that is open already, whatever it was made with.
    found = session.sparkContext.getConf()
    wrong = [name for name, value in ENFORCED.items() if found.get(name) != value]
    if wrong:
        raise AggregatorError(
            f"a Spark session is open already, without {', '.join(wrong)} as it has to be: "
            "stop it, or run in a process of its own"
        )
    return session


@contextmanager
def _quick_session() -> Iterator[None]:
    """Have a session that is made here leave out what `SessionLoader.java` names."""
    jvm = SparkContext._jvm
    # One that is open already was made by others, and its JVM may not have our classes.
    if jvm is None or SparkContext._active_spark_context is not None:
        yield
        return
    loader = jvm.aggregator.connector.SessionLoader
    before = loader.enter()
    try:
        yield
    finally:
        loader.leave(before)


def open_reader(config: Config, master: str, more: Sequence[str] = ()) -> SparkSession:
    """A session with the settings and jars of the config, and the jar sets `more`, on this master.

    `auto` is as many threads as this machine has cores. JarsError when the jars or a Java cannot be
    had.
    """
    if master == "auto":
        master = f"local[{os.cpu_count() or 1}]"
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
