"""Getting jars: from the user's folder, the cache, and a Maven repository that is not there."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aggregator.datapath.jars import download, jars, java_command, java_home
from aggregator.datapath.jars.lockfile import jars_of
from aggregator.model.errors import JarsError


@pytest.fixture
def full_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "jars"
    download("spark", folder)
    return folder


@pytest.fixture
def closed_port() -> Iterator[int]:
    # Bound but not listening: connections are refused, and no one else can get the port.
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_a_full_folder_is_used_as_it_is(full_folder: Path) -> None:
    found = jars("spark", folder=full_folder)
    assert found == [full_folder / jar.file_name for jar in jars_of("spark")]


def test_the_folder_can_come_from_the_environment(
    full_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGGREGATOR_JARS", str(full_folder))
    assert {path.parent for path in jars("spark")} == {full_folder}


def test_a_folder_lists_all_that_is_missing_or_wrong(full_folder: Path) -> None:
    first, second = jars_of("spark")[:2]
    (full_folder / first.file_name).unlink()
    (full_folder / second.file_name).write_bytes(b"not a jar")
    with pytest.raises(JarsError) as caught:
        jars("spark", folder=full_folder)
    text = str(caught.value)
    assert f"{first.file_name} is missing ({first.coordinates})" in text
    assert f"{second.file_name} has sha256 " in text
    assert f"expected {second.sha256}" in text
    assert text.count("\n  - ") == 2
    # The folder is the user's: nothing in it is touched.
    assert (full_folder / second.file_name).read_bytes() == b"not a jar"


def test_a_damaged_file_of_the_cache_is_refused_and_removed(
    full_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGGREGATOR_CACHE", str(tmp_path))
    damaged = full_folder / jars_of("spark")[2].file_name
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(JarsError, match=rf"{damaged.name} has sha256 \w+, expected \w+"):
        jars("spark")
    assert not damaged.exists()


def test_offline_says_what_is_missing_and_what_to_do(
    full_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_port: int
) -> None:
    monkeypatch.setenv("AGGREGATOR_CACHE", str(tmp_path))
    monkeypatch.setenv(
        "JAVA_TOOL_OPTIONS",
        f"-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={closed_port} "
        f"-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={closed_port}",
    )
    lost = full_folder / jars_of("spark")[3].file_name
    lost.unlink()
    said: list[str] = []
    with pytest.raises(JarsError) as caught:
        jars("spark", progress=said.append)
    text = str(caught.value)
    assert text.startswith(f"cannot fetch 1 of 1 jars for spark:\n  - {lost.name} (")
    assert "no network" in text
    assert "spark.jars: FOLDER" in text
    assert "AGGREGATOR_JARS=FOLDER" in text
    assert said == [f"fetching 1 jar for spark, once, into {full_folder}"]
    assert sorted(path.name for path in full_folder.iterdir() if path.is_dir()) == []


def test_a_java_that_runs_is_found() -> None:
    assert java_command() == str(java_home() / "bin" / "java")
    subprocess.run([java_command(), "-version"], check=True, capture_output=True)


def test_no_java_names_what_was_tried_and_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text(
        "#!/bin/sh\necho '    java.home = /opt/old'\necho '    java.specification.version = 1.8'\n"
    )
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("aggregator.datapath.jars.find_java.find_spec", lambda _name: None)
    with pytest.raises(JarsError) as caught:
        java_home()
    assert "JAVA_HOME: Java 8 in /opt/old is too old" in str(caught.value)
    assert "set JAVA_HOME" in str(caught.value)


def test_a_missing_part_is_fetched_again(full_folder: Path, tmp_path: Path) -> None:
    """The one test that needs the Maven repository: a single small file."""
    lost = full_folder / "commons-pool2-2.13.1.jar"
    lost.unlink()
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGGREGATOR_CACHE", str(tmp_path))
        found = jars("spark", progress=said.append)
    assert lost in found
    assert said[1:] == ["  1/1 commons-pool2.jar (2.13.1)"]
