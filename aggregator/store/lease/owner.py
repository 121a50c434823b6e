"""Who writes a checkpoint, as a value: for people a name, for the next start what it can check."""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from aggregator.plan.lease import EXECUTORS_QUIET_SECONDS, Locality, ProcessPlace, locality_of
from aggregator.store.lease.process import started_of

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
PROCESS_TABLE = Path("/proc/self/ns/pid")


@cache
def here() -> ProcessPlace:
    """Where this process runs; boot id and process table only where Linux shows them.

    Where it does not, as in some sandboxes, each process is on a machine of its own: a container of
    the same name on another one has the same process ids.
    """
    try:
        boot, processes = BOOT_ID.read_text(encoding="utf-8").strip(), os.readlink(PROCESS_TABLE)  # noqa: PTH115
    except OSError:
        boot = f"unknown-{secrets.token_hex(8)}" if sys.platform == "linux" else ""
        processes = ""
    return ProcessPlace(socket.gethostname(), boot, processes)


@dataclass(frozen=True, slots=True)
class Owner:
    """Who writes the checkpoint; `str(owner)` is what an epoch is claimed with.

    `started` and `jvm_started` distinguish a process from a later one with the same id (0:
    unknown). `lease` is how long it may write after a renewal, `quiet` how long after one nothing
    of it can arrive at the hub any more, both in seconds. `jvm` and `pending` are what has to be
    waited for yet before the hub is read: an earlier JVM, until its own has taken its place, and
    the seconds that an earlier writer elsewhere may continue. `remote`: its tasks run in executors.
    `api` is where it listens for commands, "off" for one that does not.
    """

    host: str = field(default_factory=lambda: here().host)
    pid: int = field(default_factory=os.getpid)
    since: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    started: int = field(default_factory=lambda: started_of(os.getpid()))
    boot: str = field(default_factory=lambda: here().boot)
    processes: str = field(default_factory=lambda: here().processes)
    lease: float = 0.0
    quiet: float = 0.0
    pending: float = 0.0
    jvm: int = 0
    jvm_started: int = 0
    remote: bool = False
    api: str = ""

    def __str__(self) -> str:
        return f"host {self.host}, pid {self.pid}, since {self.since}"

    @property
    def place(self) -> ProcessPlace:
        """Where it runs."""
        return ProcessPlace(self.host, self.boot, self.processes)

    def following(self, earlier: Owner | None) -> Owner:
        """This owner, with what has to be waited for of an earlier one whose lock it now has.

        It is noted at once: a start that dies while it waits leaves it to the next one.
        """
        if earlier is None:
            return self
        near = locality_of(earlier.place, self.place)
        if near is Locality.ELSEWHERE:
            return replace(self, pending=max(earlier.quiet, earlier.pending))
        # The process may be seen from here; its executors, wherever they are, cannot be.
        executors = EXECUTORS_QUIET_SECONDS if earlier.remote else 0.0
        own = replace(self, pending=max(earlier.pending, executors))
        if near is not Locality.PROCESSES:
            return own
        return replace(own, jvm=earlier.jvm, jvm_started=earlier.jvm_started)

    def to_json(self, **more: int) -> str:
        """One line that `from_json` reads, with `more` in it."""
        return json.dumps({**asdict(self), **more})

    @classmethod
    def from_json(cls, text: str) -> Owner | None:
        """The owner in `text`; None when it is empty or no owner, as in the midst of a write."""
        try:
            found = json.loads(text)
            known = {each.name: found[each.name] for each in fields(cls) if each.name in found}
            # What is absent, in the line of another version, is unknown: not that of this process.
            absent = {"started": 0, "boot": "", "processes": ""}
            return cls(**{**absent, **known}) if {"host", "pid", "since"} <= set(known) else None
        except (ValueError, TypeError):
            return None
