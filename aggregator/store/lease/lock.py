"""One writer at a time on a local checkpoint: an OS lock on `<checkpoint.path>/lock`.

The file names the holder for people and for the next start. The holder renews it, so that one on
another machine that shares the folder can see whether it is alive.
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from aggregator.config.schema import CheckpointConfig
from aggregator.model.errors import HeldError
from aggregator.plan.lease import (
    ClaimMove,
    Earlier,
    Life,
    Locality,
    RenewalOutcome,
    locality_of,
    plan_start,
)
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.delta import local_path, translated
from aggregator.store.lease.owner import Owner, here
from aggregator.store.lease.process import life_of

LOCK = "lock"
JVM_LOCK = "jvm.lock"
TAKE_OVER_LOCK = "take-over.lock"
RECORD_BYTES = 1024
"""A record is padded to this, so that one write puts it whole in the place of the last."""
WATCH_SECONDS = 0.5
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""The record cannot be written, but the lock is held by the kernel and stays so."""
GLANCE_SECONDS = 0.2
"""A command that checks the lock holds it for a moment: taking it is retried for this time."""


def held_by(path: str, holder: Owner | None) -> HeldError:
    """The error of a start that finds another writer on the checkpoint at `path`."""
    return HeldError(
        f"checkpoint.path {path}: another aggregator runs on it "
        f"({holder or 'it has just started'}); stop that one first, take its place with "
        "`aggregator run --take-over`, wait for it with `aggregator run --standby`, or give this "
        "one a checkpoint.path of its own"
    )


def has_lock(path: str) -> bool:
    """Whether the checkpoint at `path` has an OS lock: on an object store there is none."""
    return local_path(path) is not None


def jvm_lock_file(path: str) -> str:
    """The file that the JVM of a writer locks; the writer's own lock ends with Python alone."""
    folder = local_path(path)
    assert folder is not None
    return str((folder / JVM_LOCK).absolute())


class WriterLock:
    """Held for the life of a writer; the OS frees it when the process ends, however it ends.

    On an object store there is no such lock: there the lease in the checkpoint table replaces it.
    """

    def __init__(self, path: Path | None, handle: int | None, owner: Owner) -> None:
        self._path = path
        self._handle = handle
        self._renewals = 0
        self._noted = False
        self.owner = owner
        self.earlier: Owner | None = None

    @classmethod
    def acquire(cls, path: str, owner: Owner | None = None) -> Self:
        """Take the lock of the checkpoint at `path` (the setting checkpoint.path).

        `earlier` of the lock is the one that had it before and did not give it back. Raises
        CheckpointConflictError naming the holder when there is one; CheckpointError when the
        folder cannot be made or written.
        """
        owner = owner or Owner()
        folder = local_path(path)
        if folder is None:
            return cls(None, None, owner)
        file = folder / LOCK
        with translated(path, "locked"):
            folder.mkdir(parents=True, exist_ok=True)
            # Opened without truncation: the text in it is the holder's, until we are.
            lock = cls(file, os.open(file, os.O_RDWR | os.O_CREAT, 0o644), owner)
            try:
                lock._take(path)
            except BaseException:
                lock._close()
                raise
        return lock

    @property
    def is_ours(self) -> bool:
        """Whether the file that is locked is still the one in its place."""
        if self._path is None or self._handle is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._handle), self._path.stat())
        except FileNotFoundError:
            return False

    def note(self, owner: Owner) -> None:
        """Note what the next start has to know of this one; the earlier one counts no more.

        CheckpointError when it cannot be written.
        """
        before, self.owner = self.owner, owner
        if self._handle is not None and self._path is not None:
            try:
                with translated(str(self._path.parent), "locked"):
                    self._write()
            except BaseException:
                self.owner = before
                raise
        self._noted = True

    def renew(self) -> RenewalOutcome:
        """Show that the holder is alive; returns whether it still is the holder."""
        if not self.is_ours:
            return RenewalOutcome.REFUSED
        try:
            self._write()
        except OSError as error:
            # On a network file system the server reports with it that it has given the lock away.
            return RenewalOutcome.RENEWED if error.errno in NO_SPACE else RenewalOutcome.FAILED
        return RenewalOutcome.RENEWED

    def release(self, *, ended: bool = True) -> None:
        """Give the lock back; a second call does nothing.

        `ended`: nothing of this writer is on its way any more, so the next need not ask for it.
        Until a holder has written its record the file stays as found: the next asks for the
        earlier.
        """
        if self._handle is None:
            return
        if self.is_ours:
            if self.earlier is not None and not self._noted:
                self.owner = self.earlier
                self._write()
            elif ended:
                os.ftruncate(self._handle, 0)
        self._close()

    def _take(self, path: str) -> None:
        assert self._handle is not None
        _hold(self._handle, path)
        if not self.is_ours:
            # A take-over has lifted it out of its place between the opening and the locking.
            raise held_by(path, holder_of(path))
        self.earlier = holder_of(path)
        self.owner = self.owner.following(self.earlier)
        # In the place of the earlier one's: with a full disk that stays, and with it what the next
        # start has to wait for. What an older version has written may be longer.
        self._write()
        os.ftruncate(self._handle, RECORD_BYTES)

    def _write(self) -> None:
        assert self._handle is not None
        self._renewals += 1
        text = self.owner.to_json(renewals=self._renewals).ljust(RECORD_BYTES - 1) + "\n"
        os.pwrite(self._handle, text.encode(), 0)

    def _close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.release(ended=error is None)


def _hold(handle: int, path: str) -> None:
    """Lock the file; HeldError when another one has it for longer than a glance."""
    deadline = time.monotonic() + GLANCE_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise held_by(path, holder_of(path)) from error
            time.sleep(0.02)
        else:
            return


def record_of(path: str) -> str:
    """The text in the lock file of a local checkpoint: it changes with every renewal."""
    folder = local_path(path)
    try:
        return (folder / LOCK).read_text("utf-8", errors="replace") if folder else ""
    except OSError:
        return ""


def renewals_of(record: str) -> int:
    """How often the holder has written its record; 0 of a text that is none."""
    try:
        return int(json.loads(record)["renewals"])
    except (ValueError, TypeError, KeyError):
        return 0


def holder_of(path: str) -> Owner | None:
    """Who has the lock of a local checkpoint, or had it last and did not give it back."""
    return Owner.from_json(record_of(path))


@contextmanager
def for_the_next(place: CheckpointConfig, report: Callable[[str], object]) -> Iterator[None]:
    """While the block runs no one writes this checkpoint: its changes are for the next start.

    Raises as `refuse_if_held` does, and HeldError at the end of the block when one has begun in the
    meantime: what was noted stays, but that one may have been too early to read it.
    """
    before = refuse_if_held(place, report)
    yield
    record, mark = _sign_of(place)
    if _is_locked(place.path) or mark != before:
        raise HeldError(
            f"checkpoint.path {place.path}: another aggregator began at the same moment "
            f"({Owner.from_json(record) or 'it has just started'}): this is noted, but that one "
            "may have been too early to read it, so give the command again"
        )


def refuse_if_held(place: CheckpointConfig, report: Callable[[str], object]) -> object:
    """Raise HeldError that names another writer of the checkpoint, and how to reach it.

    By the lock, and where none can be seen (an object store, another machine) by its record: a
    writer that did not say that it had ended, and cannot be seen to be gone, is waited for as long
    as its lease lasts. `report` gets words for that. Returns a mark that changes with each write.
    """
    if _is_locked(place.path):
        raise _unreached(place.path, holder_of(place.path))
    record, mark = _sign_of(place)
    holder = Owner.from_json(record)
    if holder is None:
        return mark
    near = locality_of(holder.place, here())
    life = life_of(holder.pid, holder.started) if near is Locality.PROCESSES else Life.UNKNOWN
    locked = False if has_lock(place.path) else None
    move = plan_start(Earlier(near, life, locked), take_over=False)
    if move is ClaimMove.REFUSE:
        raise _unreached(place.path, holder)
    if move is ClaimMove.WATCH:
        report(f"{holder} left no end mark: waiting {holder.lease:.0f} s for a sign of life")
        deadline = time.monotonic() + holder.lease
        while time.monotonic() < deadline:
            time.sleep(WATCH_SECONDS)
            if _sign_of(place)[1] != mark:
                raise _unreached(place.path, holder)
    return mark


def refuse_if_locked(path: str) -> None:
    """Raise HeldError when another writer has the lock of a local checkpoint now."""
    if _is_locked(path):
        raise held_by(path, holder_of(path))


def _is_locked(path: str) -> bool:
    folder = local_path(path)
    if folder is None or not has_lock(path) or not (folder / LOCK).exists():
        return False
    with translated(path, "locked"), (folder / LOCK).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _sign_of(place: CheckpointConfig) -> tuple[str, object]:
    """The record of the last writer, and a mark that changes with each sign that it is alive."""
    if has_lock(place.path):
        record = record_of(place.path)
        return record, record
    table = CheckpointTable.open(place.path, place.storage_options)
    return ("", -1) if table is None else (table.holder(), table.version)


def _unreached(path: str, holder: Owner | None) -> HeldError:
    """The error of a command that a writer has not got."""
    if holder is None or not holder.api:
        way = "give the command where its API answers, or stop it first"
    elif holder.api == "off":
        way = "it has no API (api.listen: off), so stop it first, or restart it with one"
    else:
        way = (
            f"its API listens on {holder.api} there: give the command on that machine, or with "
            "--set api.listen=HOST:PORT and the token that it asks for"
        )
    return HeldError(
        f"checkpoint.path {path}: another aggregator runs on it "
        f"({holder or 'it has just started'}) and has not got this command; {way}"
    )


def lift(path: str) -> None:
    """Put locks that a writer on another machine has out of their places: they are none then."""
    folder = local_path(path)
    if folder is not None:
        with translated(path, "locked"):
            for name in (LOCK, JVM_LOCK):
                (folder / name).unlink(missing_ok=True)


@contextmanager
def alone(path: str) -> Iterator[bool]:
    """Whether this is the only take-over on a local checkpoint, as long as the block runs."""
    folder = local_path(path)
    if folder is None:
        yield True
        return
    with translated(path, "locked"):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / TAKE_OVER_LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
