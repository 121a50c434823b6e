"""A store of S3's API over a folder, in a process of its own; it may ignore conditional puts.

`python small_store.py PORT FOLDER honours|ignores`. It checks no signature.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

HONOURS, IGNORES = "honours", "ignores"
DATE = "2026-01-01T00:00:00.000Z"


@contextmanager
def small_store(folder: Path, conditions: str) -> Iterator[tuple[str, dict[str, str]]]:
    """`checkpoint.path` and `checkpoint.storage_options` of a store whose data is in `folder`."""
    from aggregator.extras.embedded.ports import free_ports
    from aggregator.extras.embedded.processes import GuardedProcess
    from aggregator.extras.embedded.waiting import wait_until
    from support.object_store import listens, options_at

    (port,) = free_ports(1)
    words = [sys.executable, __file__, str(port), str(folder / "data"), conditions]
    process = GuardedProcess(words, folder / "store.log")
    try:
        wait_until(lambda: listens(port), seconds=30, what=process.log_tail)
        yield "s3://bucket/state", options_at(port, "key", "secret")
    finally:
        process.kill()


class Store(ThreadingHTTPServer):
    """The server, and what its requests share."""

    def __init__(self, port: int, folder: Path, *, honours: bool) -> None:
        super().__init__(("127.0.0.1", port), Request)
        self.folder = folder
        self.honours = honours
        self.lock = threading.Lock()


class Request(BaseHTTPRequestHandler):
    """GET (an object or a list), HEAD, PUT and DELETE of objects, POST of a list to delete."""

    protocol_version = "HTTP/1.1"
    server: Store

    def do_PUT(self) -> None:
        body = self._body()
        with self.server.lock:
            taken = self._file.exists() and self.headers.get("If-None-Match") == "*"
            if taken and self.server.honours:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._file.write_bytes(body)
        self._answer(200, b"", body)

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "list-type" in query:
            after = query.get("start-after", [""])[0]
            self._answer(200, self._listed(query.get("prefix", [""])[0], after))
        elif self._file.is_file():
            body = self._file.read_bytes()
            self._answer(200, body, body)
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self._file.unlink(missing_ok=True)
        self._answer(204, b"")

    def do_POST(self) -> None:
        deleted = b"<DeleteResult></DeleteResult>"
        for part in self._body().decode().split("<Key>")[1:]:
            (self.server.folder / "bucket" / part.split("</Key>")[0]).unlink(missing_ok=True)
        self._answer(200, deleted)

    def log_message(self, *_: object) -> None:
        """Nothing."""

    @property
    def _file(self) -> Path:
        return self.server.folder / unquote(urlsplit(self.path).path).lstrip("/")

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _listed(self, prefix: str, after: str) -> bytes:
        root = self.server.folder / "bucket"
        files = sorted(it for it in root.rglob("*") if it.is_file())
        names = [str(it.relative_to(root)) for it in files]
        rows = "".join(
            f"<Contents><Key>{escape(it)}</Key><LastModified>{DATE}</LastModified><ETag>x</ETag>"
            f"<Size>{(root / it).stat().st_size}</Size></Contents>"
            for it in names
            if it.startswith(prefix) and it > after
        )
        return (
            f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>".encode()
        )

    def _answer(self, code: int, body: bytes, content: bytes = b"") -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.md5(content).hexdigest()}"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


if __name__ == "__main__":
    Store(int(sys.argv[1]), Path(sys.argv[2]), honours=sys.argv[3] == HONOURS).serve_forever()
