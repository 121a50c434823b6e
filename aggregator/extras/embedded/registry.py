"""A real schema registry as a child process: Apicurio's, which speaks Confluent's API."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

import fastavro

from aggregator.datapath.jars import jars, java_command
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.extras.embedded.waiting import wait_until
from aggregator.model.errors import ClusterError

JAVA = ("-Xmx192m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
START_SECONDS = 90.0
ASK_SECONDS = 60.0


class EmbeddedRegistry:
    """A running registry, empty at first; `url` is where it speaks Confluent's API.

    `runner` is what `unpack_registry` returns, `folder` takes its log. Its memory is its only
    store. ClusterError when it cannot be started.
    """

    def __init__(self, runner: Path, folder: Path, java: Sequence[str] = JAVA) -> None:
        (port,) = free_ports(1)
        # What it unpacks would stay where all temporary files are when it is killed.
        unpacked = f"-Djava.io.tmpdir={folder.absolute()}"
        own = (unpacked, "-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}")
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        self.process = GuardedProcess(
            [java_command(), *java, *own, "-jar", str(runner)], folder / f"registry-{port}.log"
        )

    def wait_ready(self) -> None:
        """Wait until it answers; ClusterError with the end of its log when it does not."""
        wait_until(
            self.answers,
            seconds=START_SECONDS,
            what=lambda: f"the registry does not answer; its log:\n{self.process.log_tail()}",
        )

    def answers(self) -> bool:
        """Whether it is up; ClusterError with the end of its log when it has ended."""
        if not self.process.alive:
            raise ClusterError(f"the registry has ended; its log:\n{self.process.log_tail()}")
        try:
            ask_registry(self.url, "GET", "/subjects")
        except (ClusterError, OSError):
            return False
        return True

    def register(
        self,
        subject: str,
        schema: Any,
        references: Sequence[tuple[str, str, int]] = (),
        kind: str = "AVRO",
    ) -> int:
        """Register a schema; returns its id. References are name, subject, version.

        ClusterError with the registry's words when it refuses.
        """
        body = {
            "schemaType": kind,
            "schema": schema if isinstance(schema, str) else json.dumps(schema),
            "references": [
                {"name": name, "subject": other, "version": version}
                for name, other, version in references
            ],
        }
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return int(ask_registry(self.url, "POST", path, body)["id"])


def ask_registry(url: str, method: str, path: str, body: Any = None) -> Any:
    """What a registry answers; ClusterError with its words when it refuses, else OSError."""
    request = Request(
        url + path,
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        method=method,
    )
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=ASK_SECONDS) as answer:
            return json.load(answer)
    except HTTPError as error:
        with error:
            raise ClusterError(f"{path}: {error.code} {error.read()!r}") from error


def unpack_registry(folder: Path) -> Path:
    """Unpack the registry into a folder, after a download of 142 MB where it was never used.

    Returns the jar to run. JarsError when it cannot be had.
    """
    (archive,) = jars("registry")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    (runner,) = folder.glob("*-runner.jar")
    return runner


def framed_avro(schema_id: int, schema: Any, value: Any) -> bytes:
    """A value as Confluent's serializers write it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + stream.getvalue()
