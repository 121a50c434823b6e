"""Programs that copy and do nothing else: plain loops over clients, and Spark's own connector."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from aggregator.datapath.connector.build import codec_jars, compile_java, connector_jar, spark_jars
from aggregator.datapath.jars import jars, java_command
from aggregator.model.errors import AggregatorError
from aggregator.plan.lanes.memory import DEFAULT_HEAP
from bench.job import BY_SIGTERM, CONSUMER, PRODUCER, Job, Tool, java, producer, properties
from bench.measure import BATCH_LOOP, FRANZ_LOOP, LOOP, LOOP_ORIGIN, PASS_LOOP, STOCK_SPARK

HERE = Path(__file__).parent
SPARK_SETS = frozenset({"auto.offset.reset", "key.serializer", "value.serializer"})
"""What Spark's reader and writer set themselves and refuse to be given."""


def settings(job: Job) -> dict[str, object]:
    """The producer's and the consumers' properties."""
    return {"producer": producer(job), "consumer": dict(CONSUMER)}


def spark_settings(job: Job) -> dict[str, object]:
    """The same for Spark, with the heap of its driver."""
    consumer = {name: value for name, value in CONSUMER.items() if name not in SPARK_SETS}
    return {"producer": producer(job), "consumer": consumer, "spark": {"heap": DEFAULT_HEAP}}


def franz_settings(job: Job) -> dict[str, object]:
    """The options of the loop over franz-go; what else it has is in its source."""
    return {
        "compression": job.work.compression,
        "batch.size": PRODUCER["batch.size"],
        "linger.ms": PRODUCER["linger.ms"],
    }


def _clients(job: Job) -> list[str]:
    """Files of the producer and of a consumer per source."""
    files = [properties(job, "producer", {**producer(job), "bootstrap.servers": job.hub})]
    for alias, servers in job.sources.items():
        files.append(properties(job, alias, {**CONSUMER, "bootstrap.servers": servers}))
    return list(map(str, files))


def _loop(job: Job, *options: str) -> list[str]:
    program = [str(HERE / "Loop.java"), *options, job.topic]
    return [*java(job, jars("broker")), *program, *_clients(job)]


def _loop_with_origin(job: Job) -> list[str]:
    return _loop(job, "--origin")


def compile_batch_loop(classes: Path) -> list[Path]:
    """Compile the batch loop into a folder, against the connector; returns its class path.

    What it uses of the connector is private to its package, so no source file is run.
    """
    (compiler,) = jars("compiler")
    class_path = [connector_jar(), *jars("spark"), *spark_jars(), *codec_jars()]
    compile_java(java_command(), compiler, class_path, [HERE / "BatchLoop.java"], classes)
    return [classes, *class_path]


def _batch_loop(job: Job, *options: str) -> list[str]:
    class_path = compile_batch_loop(job.folder / "classes")
    program = ["aggregator.connector.BatchLoop", *options, job.topic]
    return [*java(job, class_path), *program, str(job.work.hub_partitions), *_clients(job)]


def _pass_loop(job: Job) -> list[str]:
    return _batch_loop(job, "--whole")


def _franz_loop(job: Job) -> list[str]:
    go = shutil.which("go")
    if go is None:
        raise AggregatorError(f"{FRANZ_LOOP} needs the command go, which is not on PATH")
    program = job.folder / "loop"
    built = subprocess.run(
        [go, "build", "-o", str(program), "."],
        cwd=HERE / "franz",
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode:
        raise AggregatorError(f"{FRANZ_LOOP} does not compile: {built.stderr.strip()}")
    options = map(str, franz_settings(job).values())
    sources = [f"{alias}={servers}" for alias, servers in job.sources.items()]
    return [str(program), job.topic, *options, job.hub, *sources]


def _stock_spark(job: Job) -> list[str]:
    file = job.folder / "settings.json"
    file.write_text(json.dumps(spark_settings(job)), "utf-8")
    state = job.folder / "state"
    program = [sys.executable, "-m", "bench.stock_spark", job.topic, job.hub, str(state), str(file)]
    return [*program, *job.sources.values()]


TOOLS = (
    Tool(LOOP, settings, _loop, BY_SIGTERM),
    Tool(LOOP_ORIGIN, settings, _loop_with_origin, BY_SIGTERM),
    Tool(BATCH_LOOP, settings, _batch_loop, BY_SIGTERM),
    Tool(PASS_LOOP, settings, _pass_loop, BY_SIGTERM),
    Tool(FRANZ_LOOP, franz_settings, _franz_loop, frozenset({0})),
    Tool(STOCK_SPARK, spark_settings, _stock_spark, frozenset({0})),
)
