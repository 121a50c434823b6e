"""Run one command and end it when the process that asked for it is gone, however that one died.

Started as `python guard.py LOG REMOVE COMMAND...` by `aggregator.extras.embedded.processes`; uses
nothing but the standard library, so that it starts fast. The asker holds the other end of our
stdin: the kernel closes it even after `kill -9`. A child that was stopped (SIGSTOP) dies of SIGKILL
as well.
"""

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys

PARENT_CHECK_SECONDS = 1.0
"""A forked sibling may hold the pipe open, so the parent's pid is looked at as well."""


def main(log: str, remove: str, command: list[str]) -> int:
    """Run `command` with its output in `log`; returns its exit code, 128 + N for a signal N.

    The first line on stdout is the child's pid, or `error` and why it did not start. When the
    asker is gone, the child is killed and the folder `remove`, unless empty, is deleted.
    """
    parent = os.getppid()
    wake, wake_writer = socket.socketpair()
    wake_writer.setblocking(False)
    signal.set_wakeup_fd(wake_writer.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    try:
        with open(log, "ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        _write_line(f"error {error}")
        return 127
    _write_line(str(child.pid))

    while child.poll() is None:
        ready, _, _ = select.select([sys.stdin, wake], [], [], PARENT_CHECK_SECONDS)
        if wake in ready:
            wake.recv(4096)
        if sys.stdin in ready or os.getppid() != parent:
            _end(child)
            if remove:
                shutil.rmtree(remove, ignore_errors=True)
            return 0
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _write_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _end(child: subprocess.Popen[bytes]) -> None:
    # It may end by itself in this very moment, which is what we want.
    with contextlib.suppress(ProcessLookupError):
        # The child leads its own session, so its pid is also the id of its group.
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
