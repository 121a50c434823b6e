"""Javas of spark-submit and of its executors that start from the archive, as a run's own does.

Java takes an archive where its class path begins as that of the archive does. So what a run's Java
has before Spark's jars these are given as well. So they do not show that `--jars` is enough: others
do that.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from functools import cache

from aggregator.datapath.spark.class_archive import archive_options
from aggregator.datapath.spark.java_options import EXECUTOR
from aggregator.datapath.spark.jvm import Driver, prepare_driver
from support.java_options import QUICK_START
from support.sessions import plain_config

CLASS_PATH = "spark.executor.extraClassPath"


def executors(*more: str) -> dict[str, str]:
    """The `spark.conf` of executors that start quickly; `more` are options of their Java."""
    options = (archive_options(_driver().archive), QUICK_START, _temporary(), *more)
    return {CLASS_PATH: _class_path(), EXECUTOR: " ".join(options)}


def submission(*more: str) -> list[str]:
    """The same for the driver, as words for `spark-submit`."""
    options = (archive_options(_driver().archive), _temporary(), *more)
    return ["--driver-class-path", _class_path(), "--driver-java-options", " ".join(options)]


@cache
def _driver() -> Driver:
    return prepare_driver(plain_config(), lambda _: None)


def _class_path() -> str:
    return os.pathsep.join(map(str, _driver().class_path))


def _temporary() -> str:
    """Java does not look at TMPDIR: what one that is killed has unpacked would stay in `/tmp`."""
    return f"-Djava.io.tmpdir={shlex.quote(tempfile.gettempdir())}"
