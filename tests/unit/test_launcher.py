"""How Spark's launcher is made quick: its own jar ahead of all others, where that can be said."""

from __future__ import annotations

from pathlib import Path

import pytest

from aggregator.datapath.jars import spark_home
from aggregator.datapath.spark.jvm import launcher_options


def test_of_the_spark_that_is_installed_its_jar_comes_first() -> None:
    option, _, jar = launcher_options(spark_home()).partition(":")
    assert option == "-Xbootclasspath/a"
    assert Path(jar).is_file()


@pytest.mark.parametrize("folder", ["spark", "my spark"], ids=["no jar", "a space in its path"])
def test_else_it_starts_as_spark_starts_it(folder: str, tmp_path: Path) -> None:
    jars = tmp_path / folder / "jars"
    jars.mkdir(parents=True)
    if " " in folder:
        (jars / "spark-launcher_2.13-4.2.0.jar").touch()
    assert launcher_options(tmp_path / folder) == ""
