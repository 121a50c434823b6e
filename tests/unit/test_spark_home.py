"""Which Spark is started on a machine that has another one, or another pyspark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aggregator.datapath.jars import spark_home
from aggregator.datapath.jars.spark_home import (
    HOME_VARIABLE,
    pyspark_folder,
    spark_version,
    version_in,
)
from aggregator.model.errors import JarsError


def spark_in(folder: Path, version: str) -> Path:
    """A folder that looks like Spark of that version."""
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return folder


def pyspark_in(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pyspark of that version, without jars, that Python finds first."""
    (folder / "pyspark").mkdir(parents=True)
    (folder / "pyspark" / "__init__.py").touch()
    (folder / "pyspark" / "version.py").write_text(f'__version__: str = "{version}"\n', "utf-8")
    monkeypatch.syspath_prepend(folder)
    # What is imported is found by its own spec.
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    return folder / "pyspark"


def test_the_jars_are_for_the_spark_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    assert spark_home() == pyspark_folder()
    assert version_in(spark_home()) == spark_version()


@pytest.mark.parametrize("version", ["3.5.1", "4.1.0-preview1", None])
def test_another_spark_in_spark_home_is_passed_over(
    version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "other"
    if version is not None:
        spark_in(home, version)
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    assert spark_home() == pyspark_folder()


def test_a_spark_of_the_same_version_in_spark_home_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = spark_in(tmp_path / "same", spark_version())
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    assert spark_home() == home


def test_with_the_pyspark_of_another_version_the_fix_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pyspark_in(tmp_path, "3.5.1", monkeypatch)
    with pytest.raises(JarsError) as caught:
        spark_home()
    said = str(caught.value)
    assert f"pyspark 3.5.1 in {folder}" in said
    assert f"pip install pyspark=={spark_version()}" in said
    assert "PYTHONPATH" in said


def test_a_distribution_has_its_pyspark_beside_its_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark_in(tmp_path / "python", spark_version(), monkeypatch)
    monkeypatch.setenv(HOME_VARIABLE, str(spark_in(tmp_path, "3.5.1")))
    with pytest.raises(JarsError, match=r"SPARK_HOME names 3\.5\.1 in .*has no jars"):
        spark_home()
    same = spark_in(tmp_path / "same", spark_version())
    monkeypatch.setenv(HOME_VARIABLE, str(same))
    assert spark_home() == same


def test_the_pyspark_of_spark_submit_is_in_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark_in(tmp_path / "python", spark_version(), monkeypatch)
    archive = shutil.make_archive(str(tmp_path / "pyspark"), "zip", tmp_path / "python")
    monkeypatch.syspath_prepend(archive)
    same = spark_in(tmp_path / "same", spark_version())
    monkeypatch.setenv(HOME_VARIABLE, str(same))
    assert archive in str(pyspark_folder())
    assert spark_home() == same


def test_a_command_that_cannot_import_its_spark_names_the_fix_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark_in(tmp_path, "3.5.1", monkeypatch)
    called = "from aggregator.cli.main import main; main(['maintain', '-c', 'none.yaml'])"
    config = tmp_path / "none.yaml"
    config.write_text(
        "name: a\nhub: {bootstrap_servers: 127.0.0.1:1}\n"
        "sources: {eu: {bootstrap_servers: 127.0.0.1:2, topics: {include: [orders]}}}\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-c", called],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "pip install pyspark==" in done.stderr
    assert "Traceback" not in done.stderr
