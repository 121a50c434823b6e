"""A Java without the module that Spark asks for is started without it; others are left alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from aggregator.datapath.jars.java_for_spark import MODULE, has_module, wrapped


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        (f'JAVA_VERSION="17.0.15"\nMODULES="java.base {MODULE} java.se"\n', True),
        ('JAVA_VERSION="25"\nMODULES="java.base java.se"\n', False),
        ('JAVA_VERSION="17.0.15"\n', True),
        (None, True),
    ],
)
def test_the_release_file_names_the_modules(
    tmp_path: Path, release: str | None, expected: bool
) -> None:
    if release is not None:
        (tmp_path / "release").write_text(release)
    assert has_module(tmp_path) is expected


def test_the_wrapper_drops_that_argument_and_keeps_all_others(tmp_path: Path) -> None:
    home = tmp_path / "a java"
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    folder = wrapped(home, tmp_path / "cache")
    assert wrapped(home, tmp_path / "cache") == folder
    arguments = [
        "-cp",
        "a b:c",
        f"--add-modules={MODULE}",
        "-Dx=$y 'z'",
        "",
        "Main",
        "--add-modules",
    ]
    done = subprocess.run([folder / "bin" / "java", *arguments], capture_output=True, text=True)
    kept = [argument for argument in arguments if argument != f"--add-modules={MODULE}"]
    assert done.stdout.split("\n")[:-1] == kept
    assert [path.name for path in (folder / "bin").iterdir()] == ["java"]
