"""Delta through delta-rs: opening, committing at a known version, and its errors as ours."""

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from pyarrow.dataset import Dataset
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from aggregator import __version__
from aggregator.model.errors import AggregatorError, CheckpointConflictError, CheckpointError

TABLE = "checkpoints"
"""The folder of the checkpoint table under checkpoint.path, where others may lie beside it."""

FORMAT, FORMAT_PROPERTY = 1, "aggregator.format"
"""Of the tables that this version reads, and the property that names it; 1 where it is absent.

A version raises it, and sets the property, when an older one would misread what it writes. Columns
that are only added need no other format: an older version leaves them empty.
"""

NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Log checkpoints and cleaning are the business of `maintenance`, not of a commit."""

_MARKS = re.compile(r"\x1b\[[0-9;]*m|\u21b3|^Kernel error -> ")
"""Colours, arrows and a word before the lines of delta-rs."""
_ANSWER = re.compile(
    r"<Code>(?P<code>[^<]*)</Code>\s*<Message>(?P<message>[^<]*)|\"message\":\s*\"(?P<text>[^\"]*)\""
)
"""An error of S3 or Azure, in XML, or of Google, in JSON."""
_NEW_FILE = re.compile(r"\S+\.parquet#\d+")
"""A file that delta-rs is about to write. Its name is another one with each try, and the same error
must be recognised as the same."""
FIXES = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the disk quota is used up: free some space",
    errno.EROFS: "the file system is read-only: choose a folder that can be written",
    errno.EACCES: "no permission: choose a folder that this user can write",
    errno.EPERM: "no permission: choose a folder that this user can write",
    errno.ENOTDIR: "a part of the path is a file, not a folder: choose another one",
    errno.EEXIST: "a part of the path is a file, not a folder: choose another one",
}


def local_path(path: str) -> Path | None:
    """The folder that `path` names, or none when it is on an object store."""
    if "://" not in path:
        return Path(path)
    parts = urlsplit(path)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def table_uri(path: str, table: str = TABLE) -> str:
    """Where a table lies under `path` (the setting checkpoint.path)."""
    folder = local_path(path)
    return str(folder / table) if folder is not None else f"{path.rstrip('/')}/{table}"


def table_at(path: str, table: str = TABLE) -> str:
    """Where a table lies under `path`: an absolute path, or a URI of an object store."""
    uri = table_uri(path, table)
    folder = local_path(uri)
    return str(folder.absolute()) if folder is not None else uri


def open_delta(
    path: str,
    storage_options: Mapping[str, str] | None,
    table: str = TABLE,
    *,
    may_be_begun: bool = False,
) -> DeltaTable | None:
    """A table under `path` at its newest version; none when nothing was ever written there.

    A table that cannot be read, whose log is damaged or gone, or that a newer version has written
    in a format of its own, is a CheckpointError. With `may_be_begun` another thread may just write
    the first commit, whose files are there before the log is: that is no table yet.
    """
    uri = table_uri(path, table)
    check_log(path, table)
    with translated(path, "read", table):
        try:
            delta = DeltaTable(uri, storage_options=dict(storage_options or {}))
            check_format(delta, path, table)
            return delta
        except TableNotFoundError:
            folder = local_path(uri)
            if may_be_begun:
                return None
            if folder is not None and folder.exists() and any(folder.iterdir()):
                what = "the folder holds files, but no readable Delta log"
                raise damaged(path, what, table=table) from None
            return None


def check_format(delta: DeltaTable, path: str, table: str = TABLE) -> None:
    """CheckpointError where a newer version has written a table in a format unknown to this one."""
    found = delta.metadata().configuration.get(FORMAT_PROPERTY, "1")
    if not found.isdigit() or int(found) > FORMAT:
        raise CheckpointError(
            f"checkpoint.path {path}: {_called(table)} has format {found}, and this is version "
            f"{__version__}, which reads formats up to {FORMAT}: a newer version has written it, "
            "so use that one or a later one"
        )


def check_log(path: str, table: str) -> None:
    """CheckpointError when a commit file of a local table is missing, empty or cut off.

    delta-rs skips some of that silently; an older state taken for the newest would write twice.
    """
    folder = local_path(table_uri(path, table))
    log = folder / "_delta_log" if folder is not None else None
    if log is None or not log.is_dir():
        return
    with translated(path, "read", table):
        # Commits up to the newest log checkpoint are not read any more, and cleaned bit by bit.
        start = max((_version(file) for file in log.glob("*.checkpoint.parquet")), default=-1)
        commits = sorted(file for file in log.glob("*.json") if file.stem.isdigit())
        commits = [file for file in commits if _version(file) > start]
        for expected, file in enumerate(commits, start + 1):
            if _version(file) != expected:
                raise damaged(path, f"commit file {expected:020}.json is missing", table=table)
            if not _is_whole(file):
                raise damaged(path, f"commit file {file.name} is empty or cut off", file, table)


def _version(file: Path) -> int:
    return int(file.name.split(".")[0])


def _is_whole(file: Path) -> bool:
    try:
        actions = [
            json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()
        ]
    except ValueError:
        return False
    return bool(actions) and all(isinstance(action, dict) for action in actions)


def damaged(
    path: str, what: str, culprit: Path | None = None, table: str = TABLE
) -> CheckpointError:
    """The error for a table that must not be taken for an empty or an older one."""
    fix = "restore the folder from a backup"
    if culprit is not None:
        fix = f"after a power loss, and if it is the last one, move {culprit} away; else {fix}"
    return CheckpointError(
        f"checkpoint.path {path}: the log of {_called(table)} is damaged: {what} ({fix})"
    )


def dataset(delta: DeltaTable, path: str, table: str = TABLE) -> Dataset:
    """The rows of `delta`, a table under `path`.

    On a local disk pyarrow reads the files itself. Through the default, a file system written in
    Python, its threads still want the interpreter when that ends, and abort the process (134).
    """
    folder = local_path(table_uri(path, table))
    if folder is None:
        return delta.to_pyarrow_dataset()
    local = SubTreeFileSystem(str(folder.resolve()), LocalFileSystem())
    return delta.to_pyarrow_dataset(filesystem=local)


def at_known_version(**metadata: str) -> CommitProperties:
    """Commit properties for compare-and-set: no retry, so only the known version + 1 is tried.

    With any retry delta-rs would put an append behind the other writer's commit, since appends
    do not conflict in Delta.
    """
    return CommitProperties(max_commit_retries=0, custom_metadata=dict(metadata))


def highest(delta: DeltaTable, column: str) -> int:
    """The highest value of a column of numbers, by the statistics of the files; 0 when none has."""
    return int(statistic(delta, "max", column) or 0)


def lowest(delta: DeltaTable, column: str) -> int:
    """The lowest one; 0 as well."""
    return int(statistic(delta, "min", column) or 0)


def latest(delta: DeltaTable, column: str) -> datetime | None:
    """The latest moment in a column, by the statistics of the files; None when none has any."""
    found = statistic(delta, "max", column)
    return found if isinstance(found, datetime) else None


def statistic(delta: DeltaTable, which: Literal["min", "max"], column: str) -> Any:
    """The least or the largest value in a column, by the statistics of the files, or None."""
    files = pa.table(delta.get_add_actions(flatten=True))
    name = f"{which}.{column}"
    if files.num_rows == 0 or name not in files.column_names:
        return None
    return (pc.min if which == "min" else pc.max)(files[name]).as_py()


def last_commit(table: DeltaTable) -> dict[str, Any]:
    """The commit info of the table's version, with our metadata in it."""
    return dict(next(iter(table.history(1)), {}))


def make_durable(path: str, version: int, table: str = TABLE) -> None:
    """Force commit `version` of a local table to the disk: delta-rs leaves that to the kernel."""
    folder = local_path(table_uri(path, table))
    if folder is None:
        return
    with translated(path, "written", table):
        commit = folder / "_delta_log" / f"{version:020}.json"
        actions = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
        added = [folder / unquote(item["add"]["path"]) for item in actions if "add" in item]
        _force(*added, folder, commit, commit.parent)


def cut_log(delta: DeltaTable, path: str, table: str = TABLE) -> None:
    """Write a checkpoint of Delta's log, and delete the commits before it that are old enough.

    The checkpoint is forced to the disk first: else a power loss could leave neither.
    """
    delta.create_checkpoint()
    folder = local_path(table_uri(path, table))
    if folder is not None:
        log = folder / "_delta_log"
        _force(*log.glob(f"{delta.version():020}.checkpoint*.parquet"), log / "_last_checkpoint")
        _force(log)
    delta.cleanup_metadata()


def _force(*files: Path) -> None:
    for file in files:
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def translated(path: str, doing: str, table: str = TABLE) -> Iterator[None]:
    """Turn whatever delta-rs and the OS raise into CheckpointError; `doing` is read or written.

    A commit to the checkpoint table that lost against another one is a CheckpointConflictError. In
    the other tables commands of other processes may write as well.
    """
    try:
        yield
    except AggregatorError:
        raise
    except CommitFailedError as error:
        if table != TABLE:
            raise CheckpointError(
                f"checkpoint.path {path}: {_called(table)} was written by another process at the "
                f"same moment: try again ({reason_of(error)})"
            ) from error
        raise CheckpointConflictError(
            f"checkpoint.path {path}: the commit was refused ({error}); hypothesis: another "
            "aggregator runs on this checkpoint"
        ) from error
    except Exception as error:
        raise CheckpointError(
            f"checkpoint.path {path}: {_called(table)} cannot be {doing}: "
            f"{_NEW_FILE.sub('(a new one)', reason_of(error))} ({_fix(error, path)})"
        ) from error


def _called(table: str) -> str:
    return "the checkpoint table" if table == TABLE else f"the table of {table}"


def reason_of(error: Exception) -> str:
    """What a foreign error says: its first line, and the cause at the end of its others.

    delta-rs writes one line for each error that caused another one, and below them what a store
    answers. Lines between say no more, and have the address of a file, maybe with a signature.
    """
    lines = [_MARKS.sub("", line).strip() for line in str(error).strip().splitlines()]
    lines = [line for line in lines if line] or [type(error).__name__]
    if (answer := _ANSWER.search(str(error))) is not None:
        message = (answer["message"] or answer["text"] or "").strip()
        cause = ": ".join(filter(None, (answer["code"], *message.splitlines()[:1])))
    else:
        cause = lines[-1]
    return lines[0] if cause in ("", lines[0]) else f"{lines[0]}: {cause}"


def _fix(error: Exception, path: str) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if number in FIXES:
        return FIXES[number]
    # delta-rs gives the OS error as text only.
    for code, fix in FIXES.items():
        if f"os error {code})" in str(error) or os.strerror(code) in str(error):
            return fix
    if local_path(path) is None:
        return "check checkpoint.path and checkpoint.storage_options"
    return "it may be damaged: restore the folder from a backup"
