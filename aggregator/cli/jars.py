"""`aggregator jars`: the jars of a set, fetched once and verified; for `spark-submit --jars`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.command import Call, command
from aggregator.cli.render import Output, to_json
from aggregator.datapath.jars import cache_folder, download, spark_java_home
from aggregator.datapath.jars import jars as jars_of_set


class JarSet(StrEnum):
    """The sets of the lock file."""

    SPARK = "spark"
    AVRO = "avro"
    BROKER = "broker"
    MIRROR = "mirror"
    REGISTRY = "registry"
    COMPILER = "compiler"
    JAVA_TESTS = "java-tests"
    CONNECT_CLIENT = "connect-client"
    BROKER_2_8 = "broker-2.8"
    BROKER_3_9 = "broker-3.9"
    BROKER_4_0 = "broker-4.0"
    BROKER_4_4 = "broker-4.4"


@command(
    "spark-submit --jars $(aggregator jars) jobs/aggregate.py -c aggregator.yaml",
    "aggregator jars --download ./jars      (for a machine without a network)",
    without=("config_file", "sets"),
)
def jars(
    call: Call,
    jar_set: Annotated[JarSet, typer.Option("--set", help="Which set.")] = JarSet.SPARK,
    to: Annotated[
        Path | None, typer.Option("--download", metavar="DIR", help="Copy the set into a folder.")
    ] = None,
) -> None:
    """Print the paths of the jars, comma separated.

    What is missing is fetched and verified. The set `spark` ends with our own jar, which is
    compiled on the first call; and the archive of classes is made, from which Java starts quickly.
    """
    if to is not None:
        paths = download(jar_set, to, progress=_progress)
    elif jar_set is JarSet.SPARK:
        paths = _spark_jars()
    else:
        paths = jars_of_set(jar_set, progress=_progress)
    names = [str(path) for path in paths]
    typer.echo(to_json(names) if call.output is Output.JSON else ",".join(names))


def _spark_jars() -> list[Path]:
    # Imported here: Spark's library takes a second to import, and the other sets do not need it.
    from aggregator.datapath.spark.class_archive import class_archive
    from aggregator.datapath.spark.jvm import spark_jars

    paths = spark_jars(None, _progress)
    class_archive(cache_folder(), spark_java_home(), paths, _progress, patient=True)
    return paths


def _progress(line: str) -> None:
    typer.echo(line, err=True)
