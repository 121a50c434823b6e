"""The archive of classes: made once, refused quietly, and what a session really starts from."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aggregator.datapath.jars import jars, java_home, spark_java_home
from aggregator.datapath.spark import class_archive as classes
from aggregator.datapath.spark import jvm as driver
from aggregator.datapath.spark.class_archive import archive_options, class_archive
from aggregator.datapath.spark.gateway import PORT
from aggregator.datapath.spark.jvm import prepare_driver
from support.sessions import plain_config

FEW = "java/lang/Object\njava/lang/String\norg/apache/spark/SparkConf\nno/such/Thing\n"


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for archives of a few classes, one of which does not exist."""
    listed = tmp_path / "few.txt"
    listed.write_text(FEW)
    monkeypatch.setattr(classes, "CLASS_LIST", listed)
    return tmp_path / "cache"


def test_it_is_made_once(few: Path) -> None:
    said: list[str] = []
    first = class_archive(few, spark_java_home(), jars("spark"), said.append)
    assert first is not None
    assert len(said) == 1
    made = first.stat().st_ino
    # In an image it is as it was: a container would copy all of it for another time.
    os.utime(first, (0, 0))
    assert class_archive(few, spark_java_home(), jars("spark"), said.append) == first
    assert (first.stat().st_ino, first.stat().st_mtime, len(said)) == (made, 0.0, 1)
    # Of another class path it is another one.
    other = class_archive(few, spark_java_home(), jars("spark")[1:], said.append)
    assert other not in (None, first)


def test_a_reinstalled_jar_gets_another_archive_and_unused_ones_are_removed(
    few: Path, tmp_path: Path
) -> None:
    jar = tmp_path / "of.jar"
    shutil.copy(jars("spark")[0], jar)
    first = class_archive(few, spark_java_home(), [jar], lambda _: None)
    assert first is not None
    unused = few / "classes-unused.jsa"
    unused.write_text("")
    killed = few / "classes-1234"
    (killed / "part.jsa").mkdir(parents=True)
    os.utime(killed, (0, 0))
    os.utime(first, (0, 0))
    assert class_archive(few, spark_java_home(), [jar], lambda _: None) == first
    # Java compares the times of the files, and would silently continue without the archive.
    for path, age in ((jar, 60.0), (unused, classes.UNUSED_SECONDS + 60.0)):
        os.utime(path, (time.time() - age, time.time() - age))
    again = class_archive(few, spark_java_home(), [jar], lambda _: None)
    assert again not in (None, first)
    assert ({*few.glob("*.jsa")}, killed.exists()) == ({first, again}, False)


def test_no_one_waits_for_the_archive_of_another_installation(
    few: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, done = threading.Event(), threading.Event()

    def make(archive: Path, _: Path, class_path: Sequence[Path], __: float) -> str:
        if not class_path:
            begun.set()
            done.wait(30)
        archive.write_text("", encoding="utf-8")
        return ""

    monkeypatch.setattr(classes, "_make", make)
    other = threading.Thread(
        target=class_archive, args=(few, spark_java_home(), [], lambda _: None)
    )
    other.start()
    assert begun.wait(30)
    assert class_archive(few, spark_java_home(), jars("spark"), lambda _: None) is not None
    assert other.is_alive()
    done.set()
    other.join(30)


def test_without_a_java_the_reason_is_reported_once(few: Path, tmp_path: Path) -> None:
    said: list[str] = []
    assert class_archive(few, tmp_path / "no-java", [], said.append) is None
    assert "starts will be slower" in said[-1]
    assert "no-java" in said[-1]
    count = len(said)
    assert class_archive(few, tmp_path / "no-java", [], said.append) is None
    assert len(said) == count
    assert archive_options(None) == ""


def test_a_machine_that_was_too_busy_once_tries_again_an_hour_later(
    few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow"
    (slow / "bin").mkdir(parents=True)
    (slow / "bin" / "java").write_text("#!/bin/sh\nexec sleep 60\n")
    (slow / "bin" / "java").chmod(0o755)
    monkeypatch.setattr(classes, "TIMEOUT_SECONDS", 0.1)
    said: list[str] = []
    for _ in range(2):
        assert class_archive(few, slow, [], said.append) is None
    assert [text for text in said if "took longer" in text] == said[-1:]
    (note,) = few.glob("classes-*.none")
    hour_ago = note.stat().st_mtime - classes.RETRY_SECONDS
    os.utime(note, (hour_ago, hour_ago))
    assert class_archive(few, slow, [], said.append) is None
    assert len([text for text in said if "took longer" in text]) == 2
    # One that is made in advance, as in an image, is tried at once and takes longer.
    monkeypatch.setattr(classes, "PATIENT_SECONDS", 0.2)
    assert class_archive(few, slow, [], said.append, patient=True) is None
    assert said[-1].endswith("took longer than 0.2 s")


def test_where_nothing_can_be_written_it_starts_without(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "file").write_text("")
    assert class_archive(tmp_path / "file" / "cache", spark_java_home(), [], said.append) is None
    assert "starts will be slower" in said[-1]


def test_under_spark_submit_none_is_made(few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java runs already there: the archive would be of no use to anybody."""
    said: list[str] = []
    monkeypatch.setattr(driver, "cache_folder", lambda: few)
    monkeypatch.setattr(driver, "spark_jars", lambda *_: jars("spark"))
    monkeypatch.setenv(PORT, "12345")
    submitted = prepare_driver(plain_config(), said.append)
    assert (submitted.archive, submitted.words) == (None, ())
    assert (said, few.exists()) == ([], False)

    monkeypatch.delenv(PORT)
    assert prepare_driver(plain_config(), said.append).archive
    assert said


def test_a_session_starts_from_it(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    beans = jvm.java.lang.management.ManagementFactory
    given = list(beans.getRuntimeMXBean().getInputArguments())
    (archive,) = [it for it in given if it.startswith("-XX:SharedArchiveFile=")]
    class_path = str(jvm.java.lang.System.getProperty("java.class.path"))

    def starts(path: str) -> bool:
        # With `on`, Java does not start when the archive does not fit.
        command = [str(java_home() / "bin" / "java"), "-Xshare:on", archive, "-cp", path]
        return subprocess.run([*command, "-version"], capture_output=True).returncode == 0

    assert starts(class_path)
    last = class_path.rpartition(":")[2]
    assert not starts(f"{last}:{class_path}")
