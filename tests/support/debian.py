"""Programs of other people that tests need: found on PATH, else installed; never done without."""

from __future__ import annotations

import os
import shutil
import subprocess


def program(*names: str, package: str) -> str:
    """The path of the first of these programs that is there; its Debian package is installed.

    Raises RuntimeError with the fix when it is not there and cannot be installed.
    """
    if (found := _found(names)) is not None:
        return found
    said = _install(package)
    if (found := _found(names)) is not None:
        return found
    raise RuntimeError(
        f"{' or '.join(names)} is needed on PATH, and cannot be installed here: "
        f"apt-get install --no-install-recommends {package}\n{said}"
    )


def _found(names: tuple[str, ...]) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


def _install(package: str) -> str:
    """Install a package as root, or with a sudo that asks nothing; returns what was said."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get"
    first = [] if os.geteuid() == 0 else ["sudo", "-n"]
    # Nothing of it is to run by itself.
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    said = ""
    for words in (["update"], ["install", "-y", "--no-install-recommends", package]):
        try:
            done = subprocess.run(
                [*first, "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *words],
                env=env,
                capture_output=True,
                text=True,
                timeout=600,
            )
        except OSError as error:
            return str(error)
        said = (done.stdout + done.stderr)[-2_000:]
    return said
