"""A real schema registry for tests: Apicurio's, which speaks Confluent's API; its own process."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import fastavro

from aggregator.datapath.jars import jars, java_command
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from support.java_options import QUICK_START
from support.reading import wait_for

JAVA = ("-Xmx192m", "-Xshare:auto", *QUICK_START.split())
START_SECONDS = 90


class ApicurioRegistry:
    """A running one; `url` is where it speaks Confluent's API."""

    def __init__(self, port: int, process: GuardedProcess) -> None:
        self.url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
        self.process = process

    def register(
        self,
        subject: str,
        schema: Any,
        references: Sequence[tuple[str, str, int]] = (),
        kind: str = "AVRO",
    ) -> int:
        """Register a schema; returns its id. References are name, subject, version."""
        body = {
            "schemaType": kind,
            "schema": schema if isinstance(schema, str) else json.dumps(schema),
            "references": [
                {"name": name, "subject": other, "version": version}
                for name, other, version in references
            ],
        }
        path = f"/subjects/{quote(subject, safe='')}/versions"
        return int(asked(self.url, "POST", path, body)["id"])

    def level(self, subject: str, new: str | None = None) -> str:
        """The compatibility setting of a subject, after setting it to `new`."""
        path = f"/config/{quote(subject, safe='')}"
        body = None if new is None else {"compatibility": new}
        told = asked(self.url, "GET" if new is None else "PUT", path, body)
        return str(told.get("compatibilityLevel") or told["compatibility"])

    def answers(self) -> bool:
        """Whether it is up; AssertionError with its log when it has ended."""
        assert self.process.alive, self.process.log_tail()
        try:
            with urlopen(f"{self.url}/subjects", timeout=5) as response:
                return bool(response.status == 200)
        except (HTTPError, URLError, ConnectionError, TimeoutError):
            return False


def asked(url: str, method: str, path: str, body: Any = None) -> Any:
    """What a registry answers; AssertionError with what it said when it refuses."""
    request = Request(
        url + path,
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        method=method,
    )
    try:
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except HTTPError as error:
        with error:
            raise AssertionError(f"{path}: {error.code} {error.read()!r}") from error


@contextmanager
def schema_registries(folder: Path, count: int = 1) -> Iterator[list[ApicurioRegistry]]:
    """So many, each with nothing in it, started at once and gone with the block."""
    app = folder / "app"
    (archive,) = jars("registry")
    with tarfile.open(archive) as files:
        files.extractall(app, filter="data")
    (runner,) = app.glob("*-runner.jar")
    found: list[ApicurioRegistry] = []
    try:
        for port in free_ports(count):
            own = ("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}")
            command = [java_command(), *JAVA, *own, "-jar", str(runner)]
            process = GuardedProcess(command, folder / f"registry-{port}.log")
            found.append(ApicurioRegistry(port, process))
        for registry in found:
            wait_for(registry.answers, "the registry answers", START_SECONDS)
        yield found
    finally:
        for registry in found:
            registry.process.kill()
        shutil.rmtree(app)


def framed_avro(schema_id: int, schema: Any, value: Any) -> bytes:
    """A value as Confluent's serializers write it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + stream.getvalue()
