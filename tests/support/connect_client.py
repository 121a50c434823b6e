"""Connect's Java client, in a process that a test asks call by call (tests/java/clients)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aggregator.datapath.connector.build import compile_java
from aggregator.datapath.jars import jars, java_command
from support.java_tests import SOURCES

MAIN = "clients.ConnectClient"
END_SECONDS = 30.0


class JavaClient:
    """Each call returns what the client made of the answer, as JSON.

    A refusal is `{"refused": CODE, "message": TEXT}`.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def __call__(self, call: str, name: str = "", **more: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"call": call, "name": name, **more}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the client has ended at: {call} {name}\n{self._log.read_text('utf-8')}"
        return json.loads(answer)


@contextmanager
def java_client(folder: Path, url: str, *login: str) -> Iterator[JavaClient]:
    """The client of the API at `url`, compiled into `folder`; gone with the block.

    `login` is a user and a password.
    """
    (compiler,) = jars("compiler")
    class_path = jars("connect-client")
    source = SOURCES / "clients" / "ConnectClient.java"
    compile_java(java_command(), compiler, class_path, [source], folder)
    command = [java_command(), "-Dstdout.encoding=UTF-8", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", os.pathsep.join(map(str, [folder, *class_path])), MAIN, url, *login]
    log = folder / "client.log"
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
        ) as process,
    ):
        try:
            yield JavaClient(process, log)
            assert process.stdin is not None
            # The end of its input is its own end; so it is when this process dies.
            process.stdin.close()
            assert process.wait(END_SECONDS) == 0
        finally:
            process.kill()
