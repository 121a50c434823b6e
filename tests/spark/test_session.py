"""The session that is built, and the settings that it is built with."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.datapath.connector.build import connector_jar
from aggregator.datapath.connector.connector import PLUGIN
from aggregator.datapath.spark.gateway import PORT, SECRET, SERVER
from aggregator.datapath.spark.jvm import Driver, spark_jars
from aggregator.datapath.spark.session import ENFORCED, session_conf
from support.sessions import plain_config


def with_conf(**conf: str) -> Config:
    config = plain_config()
    spark = config.spark.model_copy(update={"conf": conf})
    return config.model_copy(update={"spark": spark})


def test_what_the_promise_depends_on_is_in_force(spark: SparkSession) -> None:
    running = dict(spark.sparkContext.getConf().getAll())
    assert {name: running[name] for name in ENFORCED} == ENFORCED
    assert ENFORCED["spark.task.maxFailures"] == ENFORCED["spark.stage.maxConsecutiveAttempts"]
    assert (ENFORCED["spark.task.maxFailures"], ENFORCED["spark.speculation"]) == ("1", "false")
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.master == "local[2]"


def test_a_user_changes_defaults_and_not_what_is_enforced() -> None:
    mine = {
        "spark.task.maxFailures": "4",
        "spark.driver.memory": "7g",
        "spark.driver.extraJavaOptions": "-Dmine=1",
    }
    found = (Path("/x/a.jar"), Path("b.jar"))
    driver = Driver(Path("/java"), found, (*found, Path("mine.jar")), Path("/cache/classes.jsa"))
    conf = session_conf(with_conf(**mine), "local[9]", driver)
    assert conf["spark.task.maxFailures"] == "1"
    assert conf["spark.driver.memory"] == "7g"
    assert "-Dlog4j2.configurationFile=" in conf["spark.driver.extraJavaOptions"]
    assert conf["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")
    assert "-XX:SharedArchiveFile=/cache/classes.jsa" in conf["spark.driver.extraJavaOptions"]
    assert "spark.jars" not in conf
    assert conf["spark.driver.extraClassPath"] == "/x/a.jar:b.jar:mine.jar"
    assert (conf["spark.master"], conf["spark.app.name"]) == ("local[9]", "aggregator-central")


def test_java_has_its_temporary_files_where_python_has_them(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    driver = Driver(Path("/java"), (), (), None)
    monkeypatch.setattr(tempfile, "tempdir", "/var/a folder")
    options = session_conf(plain_config(), "local[9]", driver)["spark.driver.extraJavaOptions"]
    assert " -Djava.io.tmpdir='/var/a folder' " in options
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    assert jvm.java.lang.System.getProperty("java.io.tmpdir") == os.environ["TMPDIR"]


def test_jars_are_sent_where_there_are_executors_to_send_them_to() -> None:
    found = (Path("/x/a.jar"), Path("b.jar"))
    driver = Driver(Path("/java"), found, found, None)
    mine = with_conf(**{"spark.jars": "mine.jar"})
    for master in ("local-cluster[2,1,512]", "spark://m:7077"):
        assert session_conf(plain_config(), master, driver)["spark.jars"] == "/x/a.jar,b.jar"
        assert session_conf(mine, master, driver)["spark.jars"] == "/x/a.jar,b.jar,mine.jar"
    # Tasks in the driver's Java have its class path, on which not all may be.
    assert session_conf(mine, "local[9]", driver)["spark.jars"] == "mine.jar"
    more = Driver(Path("/java"), (*found, Path("avro.jar")), found, None)
    assert session_conf(plain_config(), "local[9]", more)["spark.jars"] == "avro.jar"


def test_a_flight_recording_starts_without_the_archive() -> None:
    # Java 17 aborts when it has both.
    driver = Driver(Path("/java"), (), (), Path("/cache/classes.jsa"))
    mine = {"spark.driver.extraJavaOptions": "-XX:StartFlightRecording=filename=/x.jfr"}
    options = session_conf(with_conf(**mine), "local[9]", driver)
    assert "SharedArchiveFile" not in options["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize("where", ["driver", "executor"])
def test_a_collector_of_the_user_is_the_only_one(where: str) -> None:
    # Java refuses to start with two.
    name = f"spark.{where}.extraJavaOptions"
    driver = Driver(Path("/java"), (), (), None)
    ours = session_conf(plain_config(), "local[9]", driver)[name]
    mine = session_conf(with_conf(**{name: "-Xmn1g -XX:+UseG1GC"}), "local[9]", driver)[name]
    assert "-XX:+UseParallelGC" in ours
    assert "ParallelGC" not in mine
    assert mine.endswith("-Xmn1g -XX:+UseG1GC")
    # The last of two counts: a user's compiler settings win.
    assert "-XX:Tier4InvocationThreshold=" in ours
    assert "-XX:Tier4InvocationThreshold=" in mine


def test_tasks_report_by_a_plugin_beside_those_of_the_user(spark: SparkSession) -> None:
    driver = Driver(Path("/java"), (), (), None)
    assert session_conf(plain_config(), "local[9]", driver)["spark.plugins"] == PLUGIN
    mine = with_conf(**{"spark.plugins": "my.Plugin"})
    assert session_conf(mine, "local[9]", driver)["spark.plugins"] == f"{PLUGIN},my.Plugin"
    assert spark.sparkContext.getConf().get("spark.plugins") == PLUGIN


def test_real_time_mode_takes_sources_that_spark_does_not_know(spark: SparkSession) -> None:
    # Spark asks the session for it with each query, and refuses ours otherwise.
    name = "spark.sql.streaming.realTimeMode.allowlistCheck"
    assert spark.conf.get(name) == "false"
    driver = Driver(Path("/java"), (), (), None)
    assert session_conf(with_conf(**{name: "true"}), "local[9]", driver)[name] == "false"


def test_our_own_jar_is_behind_those_of_spark(spark: SparkSession) -> None:
    found = spark_jars(None, lambda _: None)
    assert found[-1] == connector_jar()
    loaded = spark.sparkContext.getConf().get("spark.driver.extraClassPath", "") or ""
    assert loaded.split(":") == [str(path) for path in found]


def test_its_java_was_started_without_the_launcher_of_spark(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    assert gateway.proc.args[-1] == SERVER
    assert not {PORT, SECRET} & set(os.environ)
