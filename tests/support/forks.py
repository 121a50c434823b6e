"""Starts `aggregator` as forks of one process that has imported all of it, once.

Run as `python -m support.forks FD`; the asker holds the other end of that socket. A fork is as a
process that was started: it leads a session, has the environment, the folder and the output that
it is given, and one thread. All forks are killed, with all that they started, when the asker is
gone, however it died. One that is started with `again` shares Java with others (`support.javas`).
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any, NoReturn

import aggregator
from aggregator.cli.main import main as command
from aggregator.model import failpoint
from support.javas import Javas

LATER = ("pyspark.sql", "uvicorn.protocols.http.h11_impl", "fastapi", "deltalake")
"""What a run imports late, or by name."""
READY = "ready"
LEAVE = os._exit


def serve(asker: socket.socket) -> None:
    """Answer requests, a line each, until the asker is gone.

    `{"start": {...}}` is answered by a pid, `{"ask": pid}` by its exit code, negative for a signal,
    or null while it lives.
    """
    import_all()
    javas = Javas()
    gc.freeze()
    wake, wake_writer = socket.socketpair()
    wake_writer.setblocking(False)
    signal.set_wakeup_fd(wake_writer.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    codes: dict[int, int | None] = {}
    lines = asker.makefile("rw")
    _answer(lines, READY)
    try:
        while True:
            ready, _, _ = select.select([asker, wake], [], [])
            if wake in ready:
                wake.recv(4096)
            _reap(codes, javas)
            if asker not in ready:
                continue
            if not (line := lines.readline()):
                return
            request = json.loads(line)
            if "ask" in request:
                _answer(lines, codes[request["ask"]])
                continue
            pid = _fork(javas, **request["start"])
            codes[pid] = None
            _answer(lines, pid)
    finally:
        for pid, code in codes.items():
            if code is None:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        javas.end_all()


def import_all() -> None:
    """Import what a run needs, and nothing that a notebook needs."""
    for name in LATER:
        importlib.import_module(name)
    for found in pkgutil.walk_packages(aggregator.__path__, "aggregator."):
        if not found.name.startswith(("aggregator.extras.notebook", "aggregator.__main__")):
            importlib.import_module(found.name)


def _answer(lines: Any, value: Any) -> None:
    lines.write(json.dumps(value) + "\n")
    lines.flush()


def _reap(codes: dict[int, int | None], javas: Javas) -> None:
    for pid, code in codes.items():
        if code is None:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                javas.end_of(pid)
                codes[pid] = os.waitstatus_to_exitcode(status)


def _fork(javas: Javas, *, again: bool, **start: Any) -> int:
    """Start one; its pid, which is that of its group by now: signals to that one reach it."""
    leads, announces = os.pipe()
    pid = os.fork()
    if not pid:
        os.setsid()
        os.write(announces, b"!")
        _become(javas if again else None, **start)
    os.close(announces)
    os.read(leads, 1)
    os.close(leads)
    return pid


def _become(
    javas: Javas | None,
    arguments: list[str],
    env: dict[str, str],
    folder: str,
    out: str,
    log: str,
) -> None:
    """In the child: be `aggregator` with these arguments; does not return."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, file in ((1, out), (2, log)):
            os.dup2(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644), number)
        # No one else may hold the asker's socket, or a file that is not ours.
        kept = 2 if javas is None else javas.end
        os.closerange(3, kept)
        os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(env)
        # Python reads it when it starts.
        sys.path[:0] = [it for it in env.get("PYTHONPATH", "").split(os.pathsep) if it]
        failpoint._SPEC = env.get(failpoint.VARIABLE, "").strip()
        faulthandler.enable()
        sys.argv = ["aggregator", *arguments]
        if javas is not None:
            javas.use()
            os._exit = _end_later  # it ends like this, and then its Java is left to others
        command()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            if javas is not None and code == 0:
                javas.give_back()
            sys.stdout.flush()
            sys.stderr.flush()
        LEAVE(code)


def _end_later(status: int) -> NoReturn:
    if status == 0 and threading.current_thread() is threading.main_thread():
        raise SystemExit(0)
    LEAVE(status)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as ours:
        serve(ours)
