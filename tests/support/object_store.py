"""A real object store on loopback: versitygw, a server of S3's API, over a folder.

It honours conditional puts, by which Delta's commits are compare-and-set.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.waiting import wait_until

PROGRAM, VARIABLE = "versitygw", "VERSITYGW"
INSTALL = f"go install github.com/versity/{PROGRAM}/cmd/{PROGRAM}@v1.8.0"
BUCKET = "aggregator"
START_SECONDS = 30.0


class NoStoreError(Exception):
    """The server's program is not on this machine."""


@dataclass(frozen=True, slots=True)
class Store:
    """A bucket: `uri` and `options` as `checkpoint.path` and `checkpoint.storage_options`."""

    uri: str
    options: Mapping[str, str] = field(repr=False)


def program() -> str:
    """The server's program: by the environment variable, else on PATH; NoStoreError without it."""
    found = shutil.which(os.environ.get(VARIABLE) or PROGRAM)
    if found is None:
        raise NoStoreError(
            f"a real object store needs {PROGRAM}, which is not on PATH: `{INSTALL}` gets it, and "
            f"the environment variable {VARIABLE} may name the file"
        )
    return found


@contextmanager
def object_store(folder: Path) -> Iterator[Store]:
    """A store with one empty bucket, whose data and log lie under `folder`."""
    server, (port,) = program(), free_ports(1)
    # A bucket is a folder in its folder.
    (folder / "data" / BUCKET).mkdir(parents=True)
    key, secret = "aggregator", secrets.token_hex(20)
    keys = (f"ROOT_ACCESS_KEY={key}", f"ROOT_SECRET_KEY={secret}")
    command = [server, "--port", f"127.0.0.1:{port}", "posix", str(folder / "data")]
    process = GuardedProcess(["env", *keys, *command], folder / "server.log")
    try:
        wait_until(
            lambda: listens(port),
            seconds=START_SECONDS,
            what=lambda: f"{PROGRAM} does not listen: {process.log_tail()}",
        )
        yield Store(
            f"s3://{BUCKET}/state",
            options_at(port, key, secret),
        )
    finally:
        process.kill()


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
