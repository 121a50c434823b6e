"""Probes whether an object store honours conditional puts, by which the table has one writer.

delta-rs looks at a table's log before it commits, so commits one after the other are in order on
any store. Only of those that begin at the same moment a put with the condition decides.
"""

import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum, auto
from threading import Barrier

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import PyFileSystem

from aggregator.model.errors import CheckpointError
from aggregator.store.delta import at_known_version, local_path, table_uri, translated

PREFIX = "probe-"
AT_ONCE = 4
"""How many make the same version at the same moment."""
ROUNDS = 20
"""The most that are tried until two puts meet; where none do, the store is taken as it is."""
LOCKS = "locking_provider"
"""Part of the option by which delta-rs asks another service for the order of commits."""
SCHEMA = Schema.from_arrow(pa.schema([("probe", pa.int64())]))


class _Outcome(Enum):
    MADE = auto()
    REFUSED = auto()
    """By the store, as the condition says."""
    FOUND = auto()
    """Another one was there before it could be tried."""


def check_conditional_puts(path: str, options: Mapping[str, str]) -> None:
    """Raise CheckpointError when the store of checkpoint.path accepts the same commit twice.

    Makes a small table there, and deletes it. Does nothing on a local path, and where another
    service orders the commits. Raises CheckpointError as well when the store gives no answer.
    """
    if local_path(path) is not None or any(LOCKS in option.lower() for option in options):
        return
    name = f"{PREFIX}{uuid.uuid4().hex}"
    try:
        for number in range(ROUNDS):
            with translated(path, "created", name):
                outcomes = _race(f"{table_uri(path, name)}/{number}", options)
            if outcomes.count(_Outcome.MADE) > 1:
                raise CheckpointError(
                    f"checkpoint.path {path}: the object store ignores conditional puts "
                    "(If-None-Match): it accepted two that each were to make the same file, so two "
                    "instances could write this checkpoint at once. Use a store, or a version of "
                    "it, that honours them, or a folder on a disk"
                )
            if _Outcome.REFUSED in outcomes:
                return
    finally:
        # What is left of it is a file of a kilobyte, which nothing reads.
        with suppress(Exception):
            PyFileSystem(DeltaStorageHandler(path, dict(options))).delete_dir(name)


def _race(uri: str, options: Mapping[str, str]) -> list[_Outcome]:
    """What becomes of several that make the first version of a table at the same moment."""
    together = Barrier(AT_ONCE)

    def make(_: int) -> _Outcome:
        together.wait()
        try:
            DeltaTable.create(
                uri,
                SCHEMA,
                storage_options=dict(options),
                commit_properties=at_known_version(),
            )
        except CommitFailedError:
            return _Outcome.REFUSED
        except DeltaError as error:
            if "already exists" not in str(error):
                raise
            return _Outcome.FOUND
        return _Outcome.MADE

    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="probe-store") as pool:
        return list(pool.map(make, range(AT_ONCE)))
