"""Machines as they are: their folders, users and Javas. It works, or a sentence names the fix."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from aggregator.datapath.jars import cache_folder, find_java
from aggregator.datapath.spark import java_options
from aggregator.datapath.spark.java_options import driver_options, is_noexec
from aggregator.datapath.spark.jvm import memory_limit, require_heap, require_name, why_too_small
from aggregator.model.errors import AggregatorError, JarsError
from aggregator.plan.lanes.memory import MIB


def noexec_below(*folders: Path) -> object:
    """What the kernel says where these are mounted `noexec`."""
    return lambda folder: any(folder.is_relative_to(each) for each in folders)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "the cache"
    monkeypatch.setenv("AGGREGATOR_CACHE", str(folder))
    return folder


def test_the_temporary_folder_will_do_where_it_can(tmp_path: Path, cache: Path) -> None:
    assert not is_noexec(tmp_path)
    assert "ZstdTempFolder" not in driver_options("log4j", None, tmp_path, "")
    assert not cache.exists()


def test_else_they_are_in_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    monkeypatch.setattr(java_options, "is_noexec", noexec_below(temporary))
    options = driver_options("log4j", None, temporary, "-Dmine=1")
    assert f"-DZstdTempFolder='{cache}/native'" in options
    assert f"-Dorg.xerial.snappy.tempdir='{cache}/native'" in options
    assert options.endswith("-Dmine=1")
    assert (cache / "native").is_dir()


def test_where_nothing_can_be_run_the_settings_are_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java_options, "is_noexec", noexec_below(tmp_path))
    with pytest.raises(AggregatorError, match=r"mounted noexec.*TMPDIR or AGGREGATOR_CACHE"):
        driver_options("log4j", None, tmp_path / "tmp", "")


def test_a_user_without_a_home_is_asked_for_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("AGGREGATOR_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(JarsError, match=r"no home folder.*set AGGREGATOR_CACHE"):
        cache_folder()


def test_a_user_without_a_name_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    require_name()

    def nameless(number: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr(pwd, "getpwuid", nameless)
    with pytest.raises(AggregatorError, match=r"user \d+ has no name.*/etc/passwd"):
        require_name()


@pytest.mark.parametrize("version", ["25", "25.0.1", "25.0.2"])
def test_a_java_whose_g1_damages_data_is_refused_with_it_and_taken_without(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = tmp_path / "release"
    release.write_text(f'IMPLEMENTOR="N/A"\nJAVA_VERSION="{version}"\n', "utf-8")
    monkeypatch.setattr(java_options, "java_home", lambda: tmp_path)
    with pytest.raises(AggregatorError, match=rf"Java {version} in .*UseG1GC out of.*25\.0\.3"):
        driver_options("log4j", None, tmp_path, "-XX:+UseG1GC")
    # What we choose, and any other, does not do that.
    assert "-XX:+UseParallelGC" in driver_options("log4j", None, tmp_path, "")
    assert "-XX:+UseZGC" in driver_options("log4j", None, tmp_path, "-XX:+UseZGC")
    for mended in ("25.0.3", "25.0.10", "26", "21.0.8", "17.0.12"):
        release.write_text(f'JAVA_VERSION="{mended}"\n', "utf-8")
        assert "-XX:+UseG1GC" in driver_options("log4j", None, tmp_path, "-XX:+UseG1GC")


def a_java(folder: Path, version: str) -> Path:
    """A program that answers as a Java of this version does; its home."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    lines = [f"java.home = {folder}", f"java.specification.version = {version}"]
    program.write_text("\n".join(["#!/bin/sh", *(f"echo '  {it}'" for it in lines)]), "utf-8")
    program.chmod(0o755)
    return folder


def test_a_java_home_that_is_too_old_broken_or_gone_gives_way_to_the_one_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = a_java(tmp_path / "good", "21")
    old = a_java(tmp_path / "old", "11")
    broken = a_java(tmp_path / "broken", "21")
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n", "utf-8")
    monkeypatch.setattr(find_java, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", f"{good}/bin:/usr/bin:/bin")
    for home in (old, broken, tmp_path / "gone"):
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert find_java.java_home() == good
    monkeypatch.setenv("PATH", "/nowhere")
    for home, why in (
        (old, f"JAVA_HOME: Java 11 in {old} is too old"),
        (broken, "bin/java does not answer as a Java"),
        (tmp_path / "gone", "bin/java does not run"),
    ):
        monkeypatch.setenv("JAVA_HOME", str(home))
        with pytest.raises(JarsError) as caught:
            find_java.java_home()
        text = str(caught.value)
        assert text.startswith("no Java 17 or newer found (JAVA_HOME: ") and why in text
        assert "set JAVA_HOME" in text


def test_a_java_that_answers_in_another_encoding_than_ours_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the user and the folder too, in the encoding of the locale."""
    home = a_java(tmp_path / "java", "21")
    with (home / "bin" / "java").open("ab") as program:
        program.write(b"\necho '  user.name = J\xe4ger'\n")
    monkeypatch.setattr(find_java, "find_spec", lambda _: None)
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java.java_home() == home


V1_GROUPS = "5:cpu,cpuacct:/\n3:memory:/docker/abc\n"


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max", "a/memory.max": str(512 * MIB)}, 512 * MIB),
        # As a container has it, which sees its own group alone.
        ("0::/\n", {"memory.max": str(768 * MIB)}, 768 * MIB),
        ("0::/../elsewhere\n", {"memory.max": "max"}, 4096 * MIB),
        (V1_GROUPS, {"memory/memory.limit_in_bytes": str(600 * MIB)}, 600 * MIB),
        # No limit, as the old kind writes it.
        (V1_GROUPS, {"memory/memory.limit_in_bytes": str(2**63 - 4096)}, 4096 * MIB),
        ("", {}, 4096 * MIB),
    ],
)
def test_the_memory_of_a_container_is_read_in_both_kinds_of_groups(
    groups: str, files: dict[str, str], limit: int, tmp_path: Path
) -> None:
    own, machine = tmp_path / "groups", tmp_path / "meminfo"
    own.write_text(groups, "utf-8")
    machine.write_text(f"MemTotal:  {4096 * 1024} kB\nMemFree: 1 kB\n", "utf-8")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n", "utf-8")
    assert memory_limit(tmp_path, own, machine) == limit
    assert memory_limit(tmp_path, tmp_path / "none", tmp_path / "none") is None


def test_a_heap_that_a_container_has_no_room_for_is_named_with_the_fix() -> None:
    assert why_too_small(2048 * MIB, None) == ""
    assert why_too_small(2048 * MIB, 4096 * MIB) == ""
    small = why_too_small(2048 * MIB, 1100 * MIB)
    assert "spark.driver.memory is 2048 MiB" in small and "1100 MiB of memory" in small
    assert "set spark.conf to {spark.driver.memory: 588m}" in small
    assert "provide at least 1024 MiB" in why_too_small(2048 * MIB, 512 * MIB)
    require_heap(512 * MIB)
    with pytest.raises(AggregatorError, match=r"is 256 MiB.*set spark.conf.*memory: 512m"):
        require_heap(256 * MIB)
