"""Which user of this machine holds the other end of a connection, as the kernel reports it."""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
