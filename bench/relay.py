"""`python -m bench.relay PORT TARGET MS`: a loopback port behind a long line, for bench only.

What comes in at PORT goes to TARGET, each way so many milliseconds later, as fast as it came: a
round trip takes twice that, and the bandwidth is not touched. A process of its own, because
bytes that are moved in the bench's process would hold up its load.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

CHUNK = 1 << 20
UNDERWAY = 1 << 28
"""So many bytes may be on the line: more than bandwidth times delay on any machine."""


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Bytes from one side to the other, `delay` seconds later, until their end."""
    loop = asyncio.get_running_loop()
    line: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(UNDERWAY // CHUNK)

    async def take() -> None:
        # Also when the connection is torn: the other side is to hear of it.
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await line.put((loop.time() + delay, data))
        await line.put((loop.time() + delay, b""))

    taking = asyncio.create_task(take())
    try:
        while True:
            due, data = await line.get()
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
    finally:
        taking.cancel()


async def serve(port: int, target: int, delay: float) -> None:
    """Relay connections until the process ends."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_connection("127.0.0.1", target, limit=CHUNK)
            try:
                await asyncio.gather(carry(reader, back, delay), carry(there, writer, delay))
            finally:
                for each in (back, writer):
                    each.close()
                    await each.wait_closed()

    server = await asyncio.start_server(connected, "127.0.0.1", port, limit=CHUNK)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000))
