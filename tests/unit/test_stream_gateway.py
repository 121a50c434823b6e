"""When a driver's Java is started without Spark's launcher, and by which command."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from aggregator.datapath.spark.class_archive import JAVA_ENVIRONMENT
from aggregator.datapath.spark.gateway import (
    CONF_FILES,
    OF_SUBMIT,
    SERVER,
    quick_command,
    start_quickly,
)

WORDS = ("/other/java", "-cp", "a.jar:conf:jars/*", "-Xmx1g", "--add-opens=java.base/a=ALL")
SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.master": "local[4]",
    "spark.driver.extraClassPath": "a.jar",
    "spark.driver.extraJavaOptions": "-Dmine='a b' -XX:+UseSerialGC",
}
JAVA = Path("/java")


def command(
    home: Path,
    environment: Mapping[str, str] | None = None,
    *,
    settings: Mapping[str, str] = SETTINGS,
    words: tuple[str, ...] = WORDS,
) -> tuple[str, ...]:
    return quick_command(words, settings, JAVA, home, environment or {})


def test_it_is_what_spark_would_have_started_with_the_server_for_python(tmp_path: Path) -> None:
    found = command(tmp_path, {JAVA_ENVIRONMENT: "-XX:TieredStopAtLevel=1"})
    assert found == (
        "/java/bin/java",
        *("-cp", "a.jar:conf:jars/*", "-XX:TieredStopAtLevel=1", "-Xmx3g", "-Dmine=a b"),
        *("-XX:+UseSerialGC", "--add-opens=java.base/a=ALL"),
        *("-Dspark.driver.memory=3g", "-Dspark.master=local[4]"),
        "-Dspark.driver.extraClassPath=a.jar",
        "-Dspark.driver.extraJavaOptions=-Dmine='a b' -XX:+UseSerialGC",
        SERVER,
    )


@pytest.mark.parametrize(
    "more",
    [
        {"spark.jars": "mine.jar"},
        {"spark.jars.packages": "a:b:1"},
        {"spark.driver.userClassPathFirst": "true"},
        {"spark.submit.pyFiles": "a.py"},
        {"spark.driver.extraJavaOptions": "-Xmx9g"},
        {"spark.driver.extraJavaOptions": "-Dmine='a"},
    ],
)
def test_what_spark_has_to_make_sense_of_goes_its_way(more: dict[str, str], tmp_path: Path) -> None:
    assert command(tmp_path, settings={**SETTINGS, **more}) == ()


def test_so_does_what_is_configured_elsewhere(tmp_path: Path) -> None:
    for name in OF_SUBMIT:
        assert command(tmp_path, {name: "x"}) == ()
    for name in CONF_FILES:
        file = tmp_path / "conf" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
        assert command(tmp_path) == ()
        file.unlink()
    assert command(tmp_path, words=()) == ()
    assert command(tmp_path) != ()


@pytest.mark.slow
@pytest.mark.parametrize("program", ["exit 3", "exec sleep 600"])
def test_where_no_server_comes_of_it_nothing_is_left(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.datapath.spark.gateway.START_SECONDS", 2.0)
    marker = tmp_path / "pid"
    started = ["sh", "-c", f"echo $$ > {marker}; {program}"]
    assert not start_quickly(started, tmp_path)
    assert not start_quickly([str(tmp_path / "no-such-java")], tmp_path)
    assert not Path(f"/proc/{marker.read_text().strip()}").exists()


@pytest.mark.slow
def test_an_interrupt_does_not_reach_it(tmp_path: Path) -> None:
    copied = tmp_path / "status"
    # The process that runs the tests may ignore it already, and children would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert not start_quickly(["sh", "-c", f"cp /proc/$$/status '{copied}'"], tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    (ignored,) = re.findall(r"^SigIgn:\s*(\w+)$", copied.read_text(), re.M)
    assert int(ignored, 16) >> signal.SIGINT - 1 & 1
