"""The session that is built, and the one Java class that it loads."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from aggregator.config.schema import Config
from aggregator.errors import JarsError
from aggregator.jars import jars, java_command
from aggregator.stream.driver import Driver
from aggregator.stream.interceptor import interceptor_jar
from aggregator.stream.session import ENFORCED, session_conf, session_with
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
    conf = session_conf(with_conf(**mine), "local[9]", driver, 900)
    assert conf["spark.task.maxFailures"] == "1"
    assert conf["spark.driver.memory"] == "7g"
    assert "-Dlog4j2.configurationFile=" in conf["spark.driver.extraJavaOptions"]
    assert conf["spark.driver.extraJavaOptions"].endswith(" -Dmine=1")
    assert "-XX:SharedArchiveFile=/cache/classes.jsa" in conf["spark.driver.extraJavaOptions"]
    assert conf["spark.jars"] == "/x/a.jar,b.jar"
    assert conf["spark.driver.extraClassPath"] == "/x/a.jar:b.jar:mine.jar"
    assert (conf["spark.master"], conf["spark.app.name"]) == ("local[9]", "aggregator-central")
    # An idle consumer above the capacity would be closed and opened at every batch.
    assert int(conf["spark.kafka.consumer.cache.capacity"]) == 1800


def test_a_flight_recording_starts_without_the_archive() -> None:
    # Java 17 aborts when it has both.
    driver = Driver(Path("/java"), (), (), Path("/cache/classes.jsa"))
    mine = {"spark.driver.extraJavaOptions": "-XX:StartFlightRecording=filename=/x.jfr"}
    options = session_conf(with_conf(**mine), "local[9]", driver, 9)
    assert "SharedArchiveFile" not in options["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize("where", ["driver", "executor"])
def test_a_collector_of_the_user_is_the_only_one(where: str) -> None:
    # Java refuses to start with two.
    name = f"spark.{where}.extraJavaOptions"
    driver = Driver(Path("/java"), (), (), None)
    ours = session_conf(plain_config(), "local[9]", driver, 9)[name]
    mine = session_conf(with_conf(**{name: "-Xmn1g -XX:+UseG1GC"}), "local[9]", driver, 9)[name]
    assert "-XX:+UseParallelGC" in ours
    assert "ParallelGC" not in mine
    assert mine.endswith("-Xmn1g -XX:+UseG1GC")
    # The last of two counts: a user's compiler settings win.
    assert "-XX:Tier4InvocationThreshold=" in ours
    assert "-XX:Tier4InvocationThreshold=" in mine


def test_the_interceptor_is_compiled_once(tmp_path: Path) -> None:
    clients = next(path for path in jars("spark") if path.name.startswith("kafka-clients-"))
    first = interceptor_jar(tmp_path, clients, java_command())
    made = first.stat().st_mtime_ns
    assert interceptor_jar(tmp_path, clients, "/no/such/java") == first
    assert first.stat().st_mtime_ns == made
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_an_interceptor_that_does_not_compile_says_why(tmp_path: Path) -> None:
    with pytest.raises(JarsError, match=r"does not compile: .*kafka"):
        interceptor_jar(tmp_path, tmp_path / "no-clients.jar", java_command())
    assert list(tmp_path.iterdir()) == []


def test_a_session_beside_another_interprets_rows_and_the_other_does_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    def plan(session: SparkSession) -> str:
        # A streaming query, because it takes its settings over from the session when it starts.
        rows = session.readStream.format("rate").load().selectExpr("value + 1 AS v").where("v > 0")
        query = (
            rows.writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path / session._jsparkSession.sessionUUID()))
            .start()
        )
        try:
            query.processAllAvailable()
            return str(query._jsq.streamingQuery().lastExecution().executedPlan().toString())
        finally:
            query.stop()

    beside = session_with(spark, {"spark.sql.codegen.factoryMode": "NO_CODEGEN"})
    assert "*(1)" not in plan(beside)
    # Of generated code Spark says the stage's number.
    assert "*(1)" in plan(spark)
    # What a run gives its session by name holds in both.
    assert beside.conf.get("spark.sql.session.timeZone") == "UTC"
    assert beside.conf.get("spark.sql.streaming.minBatchesToRetain") == "2"
