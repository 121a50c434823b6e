"""Machines whose temporary folder runs no program, and users without a home or a name."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from aggregator.datapath.jars import cache_folder
from aggregator.datapath.spark import java_options
from aggregator.datapath.spark.java_options import driver_options, is_noexec
from aggregator.datapath.spark.jvm import require_name
from aggregator.model.errors import AggregatorError, JarsError


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
