"""`python -m bench.line OWN MS`: a long line within this machine, for bench only.

Who connects to another address in the network of OWN reaches what listens at OWN, each packet MS
milliseconds later, as fast as it came. The packets are the kernel's own and go through its TCP as
on any line, so a connection has no more under way than the buffers of both ends allow: what makes
long lines slow. A relay that hands bytes from one connection to another does not show that.

Needs Linux, its device /dev/net/tun, and the right to make a network device. The device is gone
with the process.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
import sys
import time
from collections import deque

DEVICE = "/dev/net/tun"
NAME = b"aggregator-%d"
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
TUN_WITH_OFFLOAD = 0x0001 | 0x1000 | 0x4000
"""A device of IP packets, nothing before them but the 10 bytes that say what is left to do."""
CHECKSUMS_AND_TCP4 = 0x01 | 0x02
"""Packets come as large as TCP hands them on: one call for 64 kB of segments."""
SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8914, 0x8916, 0x891C
UP_AND_RUNNING = 0x0001 | 0x0040

LARGEST = 70_000
AT_ONCE = 64
SOURCE, TARGET = slice(22, 26), slice(26, 30)
"""Where the addresses stand in a packet of IPv4, behind those 10 bytes."""


def turned(packet: bytes) -> bytes:
    """The packet with its two addresses exchanged: what went there comes back from there.

    Checksums stay right, as they are sums in which the addresses count alike.
    """
    back = bytearray(packet)
    back[SOURCE], back[TARGET] = packet[TARGET], packet[SOURCE]
    return bytes(back)


def make_device(own: str) -> int:
    """A network device with the address `own` in a network of 256; its file. OSError if refused."""
    device = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
    made = fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", NAME, TUN_WITH_OFFLOAD))
    name: bytes = made[:16]
    fcntl.ioctl(device, TUNSETOFFLOAD, CHECKSUMS_AND_TCP4)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for what, address in ((SIOCSIFADDR, own), (SIOCSIFNETMASK, "255.255.255.0")):
            packed = struct.pack("16sH2x4s16x", name, socket.AF_INET, socket.inet_aton(address))
            fcntl.ioctl(asked, what, packed)
        fcntl.ioctl(asked, SIOCSIFFLAGS, struct.pack("16sH22x", name, UP_AND_RUNNING))
    return device


def carry(device: int, delay: float) -> None:
    """Take packets and put them back `delay` seconds later, turned, until the process ends."""
    line: deque[tuple[float, bytes]] = deque()
    while True:
        left = max(0.0, line[0][0] - time.monotonic()) if line else None
        if select.select([device], [], [], left)[0]:
            for _ in range(AT_ONCE):
                try:
                    packet = os.read(device, LARGEST)
                except BlockingIOError:
                    break
                line.append((time.monotonic() + delay, turned(packet)))
        while line and line[0][0] <= time.monotonic():
            os.write(device, line.popleft()[1])


if __name__ == "__main__":
    own, milliseconds = sys.argv[1:]
    try:
        tun = make_device(own)
    except OSError as error:
        sys.exit(f"a long line needs {DEVICE} and the right to make a network device: {error}")
    carry(tun, float(milliseconds) / 1000)
