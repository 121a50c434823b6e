"""Java options of what a test has Spark start: executors, jobs under spark-submit, its daemons."""

from __future__ import annotations

from functools import cache

from aggregator.jars import cache_folder, spark_java_home
from aggregator.stream.classes import archive_options, class_archive
from support.application import QUICK_START


@cache
def quick_java() -> str:
    """Half the CPU of a start: no second compiler, and an archive of classes, made once.

    It is for a Java whose class path is Spark's own. A driver that we start has another archive.
    """
    archive = class_archive(cache_folder(), spark_java_home(), (), lambda _: None)
    return f"{QUICK_START} {archive_options(archive)}".strip()
