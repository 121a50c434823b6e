"""A real object store on loopback: versitygw, a server of S3's API, over a folder.

It honours conditional puts, by which Delta's commits are compare-and-set.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from pathlib import Path

from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.waiting import wait_until
from support.proxy import Proxy

PROGRAM, VARIABLE = "versitygw", "VERSITYGW"
INSTALL = f"go install github.com/versity/{PROGRAM}/cmd/{PROGRAM}@v1.8.0"
BUCKET = KEY = "aggregator"
START_SECONDS = 30.0


class NoStoreError(Exception):
    """The server's program is not on this machine."""


class Store:
    """A server with one bucket, which can be killed, frozen and refuse its clients.

    `uri` and `options` are `checkpoint.path` and `checkpoint.storage_options`. `proxy` is between
    the server and its clients, `data` the folder that `uri` names.
    """

    uri = f"s3://{BUCKET}/state"

    def __init__(self, folder: Path, answer_seconds: float = 0.0) -> None:
        own, self._port = free_ports(2)
        self._folder = folder
        self._command = [program(), "--port", f"127.0.0.1:{self._port}", "posix"]
        # A bucket is a folder in its folder.
        (folder / "data" / BUCKET).mkdir(parents=True)
        self.data = folder / "data" / BUCKET / "state"
        self._secret = secrets.token_hex(20)
        self.options = options_at(own, KEY, self._secret)
        target = "127.0.0.1", self._port
        self.proxy = Proxy(("127.0.0.1", own), target, answer_seconds=answer_seconds)
        try:
            self.start()
        except BaseException:
            self.proxy.close()
            raise

    def start(self, *, refuses: bool = False) -> None:
        """Start the server and wait until it listens; `refuses`: with another secret."""
        secret = secrets.token_hex(20) if refuses else self._secret
        keys = (f"ROOT_ACCESS_KEY={KEY}", f"ROOT_SECRET_KEY={secret}")
        command = ["env", *keys, *self._command, str(self._folder / "data")]
        self._process = GuardedProcess(command, self._folder / "server.log")
        try:
            wait_until(
                lambda: listens(self._port),
                seconds=START_SECONDS,
                what=lambda: f"{PROGRAM} does not listen: {self._process.log_tail()}",
            )
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()

    def pause(self) -> None:
        """SIGSTOP."""
        self._process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        self._process.resume()

    def close(self) -> None:
        """End server and proxy."""
        self.proxy.close()
        self.kill()


def program() -> str:
    """The server's program: by the environment variable, else on PATH; NoStoreError without it."""
    found = shutil.which(os.environ.get(VARIABLE) or PROGRAM)
    if found is None:
        raise NoStoreError(
            f"a real object store needs {PROGRAM}, which is not on PATH: `{INSTALL}` gets it, and "
            f"the environment variable {VARIABLE} may name the file"
        )
    return found


def options_at(port: int, key: str, secret: str) -> dict[str, str]:
    """`checkpoint.storage_options` of a store on this machine."""
    return {
        "aws_endpoint": f"http://127.0.0.1:{port}",
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
        "aws_access_key_id": key,
        "aws_secret_access_key": secret,
    }


def listens(port: int) -> bool:
    """Whether something takes connections there."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
