"""Javas of applications that ended well, kept for the next ones: to start one is most of a start.

Only those that ask for it take part: an application that will be killed needs a Java of its own,
which notices. All are held by the process that forks, and end with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyspark import SparkContext

from aggregator.datapath.spark import jvm
from aggregator.datapath.spark.gateway import SERVER, Server, connect, launch
from aggregator.model.failpoint import VARIABLE

FOLDER = "javas-"
MOST_FREE = 1
"""How many wait for a user at most; each has some 400 MB."""
OF_JAVA = ("SPARK_", "JAVA_", "JDK_", "HADOOP_", VARIABLE)
OF_SESSIONS = "-Dspark.master="
"""A session gets its own, so a Java that was started for another one will do."""


class Javas:
    """Made by the process that forks; `use` and `give_back` are for a fork."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=FOLDER))
        self.end, self._held = os.pipe()
        """What they read from; they end when its other side is closed, as it is in a fork."""
        self._taken: Path | None = None

    def use(self) -> None:
        """In a fork: take one that is free where one is started otherwise."""
        jvm.start_quickly = self._start  # type: ignore[attr-defined]

    def give_back(self) -> None:
        """In a fork that is done, and has nothing under way: leave it to others."""
        context = SparkContext._active_spark_context
        if context is not None:
            context.stop()
        if self._taken is not None:
            self._taken.touch()
            self._taken.rename(self._folder / f"{self._taken.stem}.free")

    def end_of(self, fork: int) -> None:
        """Where the Java of a fork that has ended was not given back: kill it."""
        for taken in self._folder.glob(f"*.{fork}"):
            _kill(taken)
        free = sorted(self._folder.glob("*.free"), key=lambda it: it.stat().st_mtime)
        for old in free[:-MOST_FREE]:
            _kill(old)

    def end_all(self) -> None:
        """Kill all of them."""
        for each in self._folder.iterdir():
            _kill(each)
        shutil.rmtree(self._folder)

    def taken(self, key: str, server: Server) -> None:
        """Note one that this process has started, for commands of this key."""
        assert server.process is not None
        said = {"pid": server.process.pid, "port": server.port, "secret": server.secret}
        self._taken = self._folder / f"{key}-{server.process.pid}.{os.getpid()}"
        self._taken.write_text(json.dumps(said))

    def take(self, key: str) -> Server | None:
        """Take one that is free for commands of this key, if there is any."""
        for free in sorted(self._folder.glob(f"{key}-*.free")):
            taken = free.with_suffix(f".{os.getpid()}")
            # Another fork may be quicker.
            with suppress(FileNotFoundError):
                free.rename(taken)
                said = json.loads(taken.read_text())
                if _is_there(said["pid"]):
                    self._taken = taken
                    return Server(None, said["port"], said["secret"])
                taken.unlink()
        return None

    def _start(self, command: Sequence[str], spark_home: Path) -> bool:
        key = _key(command)
        server = self.take(key)
        if server is None:
            server = launch(command, spark_home, self.end)
            if server is None:
                return False
            self.taken(key, server)
        connect(server)
        return True


def taken_by(fork: int) -> list[int]:
    """The Java that this fork uses just now, asked by a process with the same temporary folder."""
    found = Path(tempfile.gettempdir()).glob(f"{FOLDER}*/*.{fork}")
    return [json.loads(it.read_text())["pid"] for it in found]


def _key(command: Sequence[str]) -> str:
    """Of the command, and of what is for Java in its environment."""
    own = {name: it for name, it in os.environ.items() if name.startswith(OF_JAVA)}
    words = [it for it in command if not it.startswith(OF_SESSIONS)]
    return hashlib.sha256(json.dumps([words, own], sort_keys=True).encode()).hexdigest()[:16]


def _kill(java: Path) -> None:
    pid = json.loads(java.read_text(encoding="utf-8"))["pid"]
    if _is_there(pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    java.unlink()


def _is_there(pid: int) -> bool:
    """Whether it is still this Java; a pid may be another's by now."""
    try:
        return SERVER.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
