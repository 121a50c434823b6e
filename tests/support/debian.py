"""Programs that no Python package brings: found on PATH, else installed by apt-get."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from support.scratch import FOR_ALL

INSTALL_SECONDS = 600
LOCK = Path(os.environ.get(FOR_ALL, tempfile.gettempdir())) / "aggregator-tests-install.lock"
SCRIPT = """
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    # Debian starts the services of what it installs, unless this says no.
    trap 'rm -f "$policy"' EXIT
    printf '#!/bin/sh\\nexit 101\\n' > "$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$1"
}
install "$1" || { apt-get update && install "$1"; }
"""
"""Installs the package that is named by its argument, and leaves none of its services running."""


def program(*names: str, package: str) -> str:
    """The path of the first of these programs that is there; a Debian package is to bring one.

    Installing needs root, or a sudo that asks for no password. RuntimeError says what to install
    where that is not possible: a test that needs a program is never left out.
    """
    if (found := _on_path(names)) is None:
        _install(names, package)
        found = _on_path(names)
    if found is None:
        raise RuntimeError(f"the Debian package {package} is there, but none of {list(names)} is")
    return found


def _on_path(names: tuple[str, ...]) -> str | None:
    return next((found for name in names if (found := shutil.which(name))), None)


def _install(names: tuple[str, ...], package: str) -> None:
    advice = f"install {' or '.join(names)} and put it on PATH; on Debian: apt install {package}"
    if shutil.which("apt-get") is None:
        raise RuntimeError(f"there is no apt-get here: {advice}")
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if root and shutil.which("sudo") is None:
        raise RuntimeError(f"only root may install: {advice}")
    with LOCK.open("a") as lock:
        # Several processes that test side by side may want it at once: the first one installs.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _on_path(names) is not None:
            return
        done = subprocess.run(
            [*root, "sh", "-ec", SCRIPT, "install", package],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL_SECONDS,
        )
    if done.returncode != 0:
        raise RuntimeError(f"apt-get failed: {advice}\n{done.stdout[-2000:]}")
