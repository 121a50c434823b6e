"""The image is built from docker/Dockerfile, by buildah without a daemon, and does its work.

Needs root, as `buildah` and `mmdebstrap` are used here: nothing is pulled, so that what the
Dockerfile begins with is made of Debian's own packages, under its name. A registry's image has
another Python of the same version; all else is what is shipped. `make test-image` runs it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.debian import program

ROOT = Path(__file__).parents[2]
BASE = "docker.io/library/python:3.11-slim-bookworm"
BASE_PACKAGES = "python3,python3-pip,python3-venv,ca-certificates"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
BUILD_SECONDS = 1500

pytestmark = pytest.mark.timeout(2 * BUILD_SECONDS)


class Builder:
    """buildah with a store of its own."""

    def __init__(self, store: Path) -> None:
        self._buildah = program("buildah", package="buildah")
        store.mkdir()
        self._options = [
            *("--storage-driver", "vfs"),
            *("--root", str(store / "root"), "--runroot", str(store / "run")),
        ]

    def __call__(self, *words: str, seconds: float = 300) -> str:
        """What a command of it prints; AssertionError with all its words when it fails."""
        command = [self._buildah, *self._options, *words]
        # BUILDAH_ISOLATION: the kernel may allow neither namespaces nor cgroups here.
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
            cwd=ROOT,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
        return done.stdout

    def run(self, container: str, *words: str, seconds: float = 300) -> str:
        """What a command in a container prints."""
        return self("run", container, "--", *words, seconds=seconds)


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    folder = tmp_path_factory.mktemp("image")
    yield Builder(folder / "store")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def base(buildah: Builder, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the Dockerfile begins with: Debian bookworm with Python 3.11 as `python` and `pip`."""
    folder = tmp_path_factory.mktemp("base")
    archive = folder / "base.tar"
    subprocess.run(
        [
            program("mmdebstrap", package="mmdebstrap"),
            *("--mode=root", "--variant=minbase", f"--include={BASE_PACKAGES}"),
            *("bookworm", str(archive)),
        ],
        check=True,
        timeout=BUILD_SECONDS,
        capture_output=True,
    )
    container = buildah("from", "scratch").strip()
    buildah("add", container, str(archive), "/")
    archive.unlink()
    trust(buildah, container, folder)
    for name, value in (("PIP_CERT", CERTIFICATES), ("PIP_BREAK_SYSTEM_PACKAGES", 1)):
        buildah("config", "--env", f"{name}={value}", container)
    for name in ("python", "pip"):
        buildah.run(container, "ln", "-s", f"/usr/bin/{name}3", f"/usr/local/bin/{name}")
    buildah("commit", "--rm", container, BASE)
    return BASE


def trust(buildah: Builder, container: str, folder: Path) -> None:
    """Have the container trust what this machine trusts, as behind a proxy with a CA of its own."""
    known = set(certificates(buildah.run(container, "cat", str(CERTIFICATES))))
    own = [it for it in certificates(CERTIFICATES.read_text(encoding="utf-8")) if it not in known]
    for number, each in enumerate(own):
        file = folder / f"own-{number}.crt"
        file.write_text(each)
        # One a file, and in this folder: so Java gets them too, when it is installed.
        buildah("copy", container, str(file), f"/usr/local/share/ca-certificates/{file.name}")
    buildah.run(container, "update-ca-certificates")


def certificates(bundle: str) -> list[str]:
    """The certificates of a PEM file, each by itself."""
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", bundle, re.S)


@pytest.fixture(scope="module")
def image(buildah: Builder, base: str) -> str:
    """The image, built as the README says."""
    name = f"aggregator-{uuid.uuid4().hex[:8]}"
    buildah(
        "bud",
        "--pull-never",
        "--format",
        "docker",
        "-t",
        name,
        "-f",
        "docker/Dockerfile",
        ".",
        seconds=BUILD_SECONDS,
    )
    return name


@pytest.fixture(scope="module")
def container(buildah: Builder, image: str) -> str:
    return buildah("from", "--pull-never", image).strip()


def test_it_is_what_the_dockerfile_says(buildah: Builder, image: str) -> None:
    config = json.loads(buildah("inspect", "--type", "image", image))["Docker"]["config"]
    assert config["Entrypoint"] == ["tini", "--", "aggregator"]
    assert config["User"] == "10001"
    assert config["StopSignal"] == "SIGTERM"
    assert config["Volumes"] == {"/state": {}}
    assert "8083/tcp" in config["ExposedPorts"]


def test_it_has_its_jars_and_its_archive_of_classes_and_no_tools_of_developers(
    buildah: Builder, container: str
) -> None:
    # Before anything runs: a start has nothing to make, and nothing to write there.
    (archive,) = archives(buildah, container)
    # Also what a command starts as its child is the package that is installed.
    found = "import aggregator; print(aggregator.__file__)"
    assert "-packages/" in buildah.run(container, "python", "-c", found)
    printed = buildah.run(container, "aggregator", "jars").strip()
    fetched = [it for it in printed.split(",") if not it.endswith("/aggregator-connector.jar")]
    assert archives(buildah, container) == [archive]
    assert len(fetched) == printed.count(",") >= 6
    assert {str(Path(it).parent) for it in fetched} == {"/opt/aggregator/cache/jars"}
    listed = buildah.run(container, "pip", "list", "--format", "json")
    names = {it["name"].lower() for it in json.loads(listed)}
    assert {"pyspark", "deltalake", "confluent-kafka"} <= names
    assert not names & {"pytest", "ruff", "mypy", "playwright", "schemathesis"}


def test_the_demo_copies_records_in_it(buildah: Builder, container: str) -> None:
    printed = buildah.run(
        container, "aggregator", "demo", "--seconds", "10", "-o", "json", seconds=BUILD_SECONDS
    )
    found = json.loads(printed)
    assert found["perfect"] is True, printed
    # It started from the archive of the image, and made no other.
    assert len(archives(buildah, container)) == 1


def archives(buildah: Builder, container: str) -> list[str]:
    """The archives of classes in a container, also those that could not be made."""
    found = buildah.run(container, "find", "/opt/aggregator/cache", "-name", "classes-*.lock")
    return found.split()
