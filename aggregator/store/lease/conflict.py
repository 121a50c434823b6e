"""The error for a writer that finds another's commit, and the clocks that measure a lease."""

import time
from typing import NamedTuple

from deltalake import DeltaTable

from aggregator.model.errors import CheckpointConflictError
from aggregator.plan.lease import Moment
from aggregator.store.delta import last_commit
from aggregator.store.lease.owner import Owner

STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux's monotonic clock stops while the machine sleeps; this one does not."""


def now() -> Moment:
    """This moment, by both clocks."""
    return Moment(time.clock_gettime(STEADY), time.time())


FENCED = "fenced: "
"""How the error begins for a writer in whose place another one writes now."""


class LastCommit(NamedTuple):
    """The numbers that a writer believes to be the table's last."""

    version: int
    seq: int
    epoch: int


def conflict_error(
    path: str, expected: LastCommit, found: DeltaTable | None
) -> CheckpointConflictError:
    """Names what the writer expected and what the table holds, and the other writer if it can."""
    info = last_commit(found) if found is not None else {}
    version = found.version() if found is not None else "no table"
    epoch = str(info.get("epoch", "unknown"))
    other = Owner.from_json(str(info.get("owner", "")))
    fenced = epoch.isdecimal() and int(epoch) > expected.epoch
    return CheckpointConflictError(
        f"checkpoint.path {path}: {FENCED if fenced else ''}expected version {expected.version} "
        f"(seq {expected.seq}, epoch {expected.epoch}), found version {version} "
        f"(seq {info.get('seq', 'unknown')}, epoch {epoch}). Another aggregator"
        f"{f' ({other})' if other else ''} runs on this checkpoint, or changed it: stop this one, "
        "and start again only when the other is stopped"
    )
