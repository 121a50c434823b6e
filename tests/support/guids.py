"""A registry that gives schemas GUIDs, in front of a real one that has none.

It plays Confluent's from 8.0 on, whose GUID is the MD5 of a schema's text and of the names,
subjects and versions that it refers to: the same in every registry that has it so.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from uuid import UUID


def guid_of(body: Any) -> UUID:
    """The GUID of a schema as it is registered."""
    content = str(body["schema"]).encode()
    for each in body.get("references") or ():
        content += f"{each['name']}{each['subject']}".encode()
        content += int(each["version"]).to_bytes(4, "big")
    return UUID(bytes=hashlib.md5(content, usedforsecurity=False).digest())


@dataclass
class InFront:
    """Where a registry answers: that of `upstream`, which may become another one.

    A request whose method is in `refused` is not allowed.
    """

    upstream: str
    url: str = ""
    refused: set[str] = field(default_factory=set)


@contextmanager
def guids_in_front(upstream: str) -> Iterator[InFront]:
    """Where the same registry answers, and knows the GUIDs of what is registered from here on."""
    ids: dict[str, int] = {}
    found = InFront(upstream)

    class Front(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, place, kind, *rest = [*self.path.split("/"), "", ""]
            if (place, kind) != ("schemas", "guids"):
                self.forward()
            elif rest[0] not in ids:
                self.reply(404, {"error_code": 40403, "message": "Schema not found"})
            elif rest[1] == "ids":
                self.reply(200, [{"context": ".", "id": ids[rest[0]]}])
            else:
                self.path = f"/schemas/ids/{ids[rest[0]]}"
                self.forward()

        def do_PUT(self) -> None:
            self.forward(self.rfile.read(int(self.headers["Content-Length"])))

        def do_POST(self) -> None:
            self.forward(self.rfile.read(int(self.headers["Content-Length"])))

        def forward(self, body: bytes | None = None) -> None:
            if self.command in found.refused:
                self.reply(403, {"error_code": 403, "message": "Forbidden"})
                return
            kind = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
            request = Request(found.upstream + self.path, body, kind, method=self.command)
            try:
                with urlopen(request, timeout=60) as answer:
                    code, document = answer.status, json.load(answer)
            except HTTPError as error:
                with error:
                    code, document = error.code, json.load(error)
            if self.command == "POST" and code == 200 and "id" in document:
                guid = str(guid_of(json.loads(body or b"")))
                ids[guid] = document["id"]
                document["guid"] = guid
            self.reply(code, document)

        def reply(self, code: int, document: Any) -> None:
            self.send_response(code)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: Any) -> None:
            """No one reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Front) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
