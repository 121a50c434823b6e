"""Who may change something, and the error for all others.

A request with the write token, or a certificate where those are required, may. Else a request has
to come from this machine, by default from the user that this process runs as, and to name it as its
host (a page that points a name of its own at us does not). Never may it come from a page of another
site.
"""

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from fastapi import Request

from aggregator.api.auth import RIGHT, Right, is_loopback
from aggregator.config.api import ApiConfig
from aggregator.config.values import parse_listen
from aggregator.model.errors import EXIT_CONFIG, AggregatorError

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
ESTABLISHED = "01"
READINGS = 10
ROOT = 0

Address = tuple[str, int]


class _End(NamedTuple):
    """A line of the table: whose socket, and which."""

    user: int
    inode: str


def is_same_user(peer: Address, own: Address, tables: tuple[Path, ...] = TABLES) -> bool:
    """Whether the process at the other end runs as the user of this one, or as root.

    False also when it is unknown: without such tables, or with the other end in another network.
    A socket that was closed counts as root's in the table. So it has to be open, and the same, in
    two readings. A reading may miss a line, or show it twice, where other connections come and go
    meanwhile: the kernel hands a long table out in pieces. So there are a few of them.
    """
    before: set[_End] = set()
    for _ in range(READINGS):
        ends = _ends(peer, own, tables)
        if len(ends) == 1 and ends == before:
            return all(it.user in (ROOT, os.geteuid()) and it.inode != "0" for it in ends)
        before = ends
    return False


def _ends(peer: Address, own: Address, tables: tuple[Path, ...]) -> set[_End]:
    wanted = {(one, other) for one in _spelled(peer) for other in _spelled(own)}
    found = set()
    for table in tables:
        try:
            lines = table.read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if (words[1], words[2]) in wanted and words[3] == ESTABLISHED:
                found.add(_End(int(words[7]), words[9]))
    return found


def _spelled(address: Address) -> Iterator[str]:
    """An address as the tables write it: words of four bytes, each in this machine's order."""
    try:
        ip = ipaddress.ip_address(address[0].partition("%")[0])
    except ValueError:
        return
    port = f"{address[1]:04X}"
    mapped = getattr(ip, "ipv4_mapped", None)
    for it in {ip, mapped or ip}:
        yield f"{_words(it.packed)}:{port}"
        if it.version == 4:
            family = socket.inet_pton(socket.AF_INET6, f"::ffff:{it}")
            yield f"{_words(family)}:{port}"


def _words(packed: bytes) -> str:
    return "".join(f"{it:08X}" for it in struct.unpack(f"={len(packed) // 4}I", packed))


SITES = ("same-origin", "none")
"""What a browser says of a request from our own page, and of one that was typed in."""
JSON = "application/json"


class CallerError(AggregatorError):
    """A request that is not for us to carry out, with its HTTP status."""

    exit_code = EXIT_CONFIG

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


def check_caller(request: Request, api: ApiConfig) -> None:
    """Raise CallerError for a request that may come from another user, by the config of the API."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    empty = "transfer-encoding" not in request.headers and not int(
        request.headers.get("content-length") or 0
    )
    if request.method == "POST" and kind != JSON and not (empty and not kind):
        # A form of any site may send the other kinds without asking.
        raise CallerError(415, f"the content type has to be {JSON}")
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", SITES[0])
    if site not in SITES or (origin is not None and _split(origin).netloc != host):
        raise CallerError(403, f"the request comes from a page of another site: {origin or site}")
    right = request.scope.get(RIGHT)
    if right is Right.WRITE:
        return
    if right is Right.READ:
        raise CallerError(403, "this token may read; to change anything show api.write_token")
    own = str((request.scope.get("server") or ("",))[0])
    client = request.client.host if request.client is not None else ""
    if not (is_loopback(client) or client == own):
        raise CallerError(
            403, f"only this machine may change anything, not {client}: show api.write_token"
        )
    name = _split(f"//{host}").hostname or ""
    listen = parse_listen(api.listen)
    if not (is_loopback(name) or name in (own, "" if listen is None else listen[0])):
        raise CallerError(
            403,
            f"the request is for the host '{host}', which is not this machine: "
            "set api.write_token, and show it",
        )
    if api.local_writers == "same_user" and not _is_same_user(request):
        raise CallerError(
            403,
            "without a token only the user that this instance runs as may change anything, and "
            "root: ask as that user, set api.write_token, or api.local_writers: everybody",
        )


def _is_same_user(request: Request) -> bool:
    client, server = request.client, request.scope.get("server")
    if client is None or server is None:
        return False
    return is_same_user((client.host, client.port), (str(server[0]), int(server[1] or 0)))


def _split(url: str) -> SplitResult:
    """The parts of a URL; CallerError (400) for what is none."""
    try:
        return urlsplit(url)
    except ValueError as error:
        raise CallerError(400, f"{url} is no address: {error}") from error


def caller_name(request: Request) -> str:
    """Who asks, as it is kept with what they change."""
    return f"REST from {request.client.host if request.client is not None else 'unknown'}"
