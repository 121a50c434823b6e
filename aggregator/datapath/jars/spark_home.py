"""Which Spark is started: that of SPARK_HOME where it fits, else the one inside pyspark."""

import os
import re
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aggregator.datapath.jars.lockfile import jars_of
from aggregator.model.errors import JarsError

HOME_VARIABLE = "SPARK_HOME"


def spark_home() -> Path:
    """The folder of the Spark to start, which has the version that our jars are made for.

    Many machines set SPARK_HOME for a Spark of their own: it counts where it has that version, and
    is passed over where it has not, as the package pyspark brings a whole Spark along.

    JarsError with the fix when neither has it, or when the pyspark that Python finds is another.
    """
    package = pyspark_folder()
    version = spark_version()
    found = pyspark_version(package)
    if found != version:
        raise JarsError(
            f"Python finds pyspark {found or 'of an unknown version'} in {package}, and "
            f"{version} is needed: take that folder out of PYTHONPATH, or "
            f"pip install pyspark=={version}"
        )
    named = os.environ.get(HOME_VARIABLE, "")
    for home in (Path(named), package) if named else (package,):
        if version_in(home) == version:
            return home
    there = f"{HOME_VARIABLE} is not set"
    if named:
        there = f"{HOME_VARIABLE} names {version_in(Path(named)) or 'no Spark'} in {named}"
    raise JarsError(
        f"{there}, the pyspark in {package} has no jars, and Spark {version} is needed: "
        f"pip install pyspark=={version}, or set {HOME_VARIABLE} to a Spark of that version"
    )


def spark_version() -> str:
    """The version of Spark that our jars are made for."""
    return next(it.version for it in jars_of("spark") if it.name.startswith("spark-sql-kafka"))


def pyspark_folder() -> Path:
    """The folder of the pyspark that Python finds; not imported, as that takes half a second.

    JarsError when there is none.
    """
    return Path(next(iter(_spec().submodule_search_locations or ())))


def pyspark_version(package: Path) -> str:
    """The version that the pyspark in this folder states; empty where it states none.

    Under spark-submit the folder is in an archive.
    """
    # Of files and of archives alike, though no class of the standard library says so for both.
    loader: Any = _spec().loader
    try:
        text = loader.get_data(str(package / "version.py")).decode()
    except OSError:
        return ""
    found = re.search(r"^__version__[^\"']*[\"']([^\"']+)", text, re.MULTILINE)
    return found[1] if found else ""


def _spec() -> ModuleSpec:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarsError(f"there is no pyspark: pip install pyspark=={spark_version()}")
    return spec


def version_in(home: Path) -> str:
    """The version of the Spark in a folder, by the name of its core jar; empty where none is."""
    return next(_versions((home / "jars").glob("spark-core_*.jar")), "")


def _versions(jars: Iterable[Path]) -> Iterator[str]:
    for jar in jars:
        if found := re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", jar.name):
            yield found[1]
