"""An API in a process of its own, which may not take more memory than is good for it.

python -m support.limited STATE [SETTING=VALUE...] prints its URL, and ends with its input.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.rest import ask

ROOM = 1 << 30
"""So much more memory than it began with it may have."""


@dataclass(frozen=True)
class LimitedApi:
    """One that runs: where it answers, and which process it is."""

    url: str
    pid: int

    def figure(self, name: str) -> int:
        """A number of the kernel's about the process: VmRSS in kB, Threads, ..."""
        text = Path(f"/proc/{self.pid}/status").read_text("ascii")
        found = re.search(rf"^{name}:\s+(\d+)", text, re.M)
        assert found is not None, text
        return int(found[1])

    @property
    def open_files(self) -> int:
        """How many files and connections it has open."""
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())


@contextmanager
def limited_api(state: Path, *sets: str) -> Iterator[LimitedApi]:
    """One for as long as the block runs."""
    command = [sys.executable, "-m", "support.limited", str(state), *sets]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[1:3]))},
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        url = process.stdout.readline().strip()
        assert url, "it did not start"
        assert ask("GET", f"{url}/health")[0] == 200
        yield LimitedApi(url, process.pid)
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def main() -> None:
    """Serve until the input ends."""
    from support.played import played_api

    with played_api(Path(sys.argv[1]), *sys.argv[2:]) as api:
        size = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        most = size * resource.getpagesize() + ROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        print(api.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
