"""A token server as OpenID Connect describes it: client credentials in, signed tokens out."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY_ID = "of-the-tests"
SECONDS = 300


@dataclass
class TokenServer:
    """What it knows: client id -> secret. `asked` counts requests for a token.

    While it is `hung` it takes requests for a token and never answers them, but serves its keys.
    A token is good for `seconds`.
    """

    key: Path
    port: int = 0
    clients: dict[str, str] = field(default_factory=dict)
    asked: int = 0
    seconds: int = SECONDS
    hung: threading.Event = field(default_factory=threading.Event)

    @property
    def token_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    def token(self, client: str) -> str:
        """A signed token for a client."""
        now = int(time.time())
        head = {"alg": "RS256", "kid": KEY_ID, "typ": "JWT"}
        body = {"sub": client, "iat": now, "exp": now + self.seconds, "scope": "kafka"}
        signed = f"{_url64(json.dumps(head).encode())}.{_url64(json.dumps(body).encode())}"
        command = [_openssl(), "dgst", "-sha256", "-sign", str(self.key)]
        made = subprocess.run(command, input=signed.encode(), capture_output=True, check=True)
        return f"{signed}.{_url64(made.stdout)}"

    def keys(self) -> dict[str, Any]:
        """The public key as a set of keys."""
        command = [_openssl(), "rsa", "-in", str(self.key), "-noout", "-modulus"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        modulus = bytes.fromhex(done.stdout.strip().partition("=")[2])
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID}
        return {"keys": [{**key, "n": _url64(modulus), "e": "AQAB"}]}

    def allows(self, header: str) -> str:
        """The client that a header of a request proves; empty when it proves none."""
        words = header.partition("Basic ")[2]
        client, _, secret = base64.b64decode(words).decode().partition(":")
        return client if self.clients.get(client) == secret else ""


@contextmanager
def token_server(folder: Path, clients: dict[str, str]) -> Iterator[TokenServer]:
    """A token server on a free port for as long as the block runs."""
    key = folder / "tokens.key"
    subprocess.run(
        [_openssl(), "genrsa", "-out", str(key), "2048"], capture_output=True, check=True
    )
    state, ended = TokenServer(key, clients=clients), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, state.keys())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            state.asked += 1
            if state.hung.is_set():
                # Never answered, not even once it answers others again.
                ended.wait()
                return
            client = state.allows(self.headers.get("Authorization", ""))
            if not client:
                self._answer(401, {"error": "invalid_client", "error_description": "not known"})
                return
            answer = {"access_token": state.token(client), "token_type": "Bearer"}
            self._answer(200, {**answer, "expires_in": state.seconds})

        def _answer(self, code: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _openssl() -> str:
    return str(shutil.which("openssl"))


def _url64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
