"""Who may write: how a start treats an earlier writer, and a writer its own lease.

Pure: readings of clocks and what is known about a process are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

RENEWALS = 3
"""How many times a lease is renewed while it lasts."""
USABLE = 0.9
"""The part of a lease in which its holder writes: the rest is for clocks that differ in speed."""
EXECUTOR_SECONDS = 5.0
"""An executor accepts nothing new to send after this time without an answer of its driver."""
EXECUTORS_QUIET_SECONDS = EXECUTOR_SECONDS + 2.0
"""How long after a driver's end its executors may still write, unseen by the next start: as a rule
they notice and end earlier. The rest of this time is for delivering what producers hold."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading of this machine's clocks, in seconds: one monotonic, and the wall's. Neither
    alone shows every pause: the first may stop while a machine sleeps, the second is set by people
    and by NTP.
    """

    steady: float
    wall: float

    def until(self, later: Moment) -> float:
        """Seconds from here to `later`: the most that one of the clocks has seen."""
        return max(later.steady - self.steady, later.wall - self.wall, 0.0)


@dataclass(frozen=True, slots=True)
class ProcessPlace:
    """Where a process runs: host name, boot id of the kernel, id of the process table."""

    host: str
    boot: str = ""
    processes: str = ""


class Locality(Enum):
    """How near an earlier writer is: what can be observed of it, and done about it."""

    PROCESSES = "in the same process table"
    KERNEL = "in another container on this machine"
    RESTARTED = "on this machine, before it was restarted"
    ELSEWHERE = "on another machine"


FIRST_PROCESS_TABLE = "pid:[4026531836]"
"""The process table of a machine itself, outside of any container (Linux, PROC_PID_INIT_INO)."""


def locality_of(earlier: ProcessPlace, own: ProcessPlace) -> Locality:
    """How near `earlier` is to `own`. A host name alone proves nothing: containers share some."""
    if not earlier.boot or not own.boot:
        # Not Linux, or written by a version that did not note it: by the name after all.
        if earlier.host != own.host:
            return Locality.ELSEWHERE
        return Locality.PROCESSES if earlier.boot == own.boot else Locality.KERNEL
    if earlier.boot == own.boot:
        return Locality.PROCESSES if earlier.processes == own.processes else Locality.KERNEL
    if earlier.host == own.host and earlier.processes == own.processes == FIRST_PROCESS_TABLE:
        return Locality.RESTARTED
    return Locality.ELSEWHERE


class Life(Enum):
    """What a process table says about a process, known by its id and its start."""

    RUNS = "runs"
    FROZEN = "is frozen"
    GONE = "is gone"
    UNKNOWN = "cannot be seen"


@dataclass(frozen=True, slots=True)
class Earlier:
    """An earlier writer that did not say that it had ended.

    `locked`: whether the OS lock is another's; None where there is no such lock.
    """

    kin: Locality
    life: Life
    locked: bool | None


class ClaimMove(Enum):
    """What a start does about an earlier writer."""

    TAKE = "no one writes: continue"
    REFUSE = "it writes: end with a message that names it"
    END = "ask it to end, kill it if it does not, then continue"
    WATCH = "watch whether it renews its lease: if it does, REFUSE, else continue"
    OVERRULE = "claim the epoch at once; continue when its last lease is over"


def plan_start(earlier: Earlier | None, *, take_over: bool) -> ClaimMove:
    """What to do about an earlier writer; None when there is none, or it has ended cleanly."""
    if earlier is None:
        return ClaimMove.TAKE
    if not earlier.locked:
        # The kernel frees a lock when its process is gone, and knows the lock of its own files.
        if earlier.locked is False and earlier.kin in (Locality.PROCESSES, Locality.KERNEL):
            return ClaimMove.TAKE
        if earlier.kin is Locality.RESTARTED:
            return ClaimMove.TAKE
        if earlier.kin is Locality.PROCESSES and earlier.life is Life.GONE:
            return ClaimMove.TAKE
    if earlier.kin is Locality.PROCESSES:
        return ClaimMove.END if take_over else ClaimMove.REFUSE
    if take_over:
        return ClaimMove.OVERRULE
    return ClaimMove.REFUSE if earlier.locked else ClaimMove.WATCH


class Turn(Enum):
    """What a standby does next."""

    FREE = "no one writes: start"
    OVERDUE = "the writer shows no sign of life any more: take its place"
    WAIT = "it writes: keep waiting"


@dataclass(frozen=True, slots=True)
class Sighting:
    """The writer as a standby sees it.

    `still`: seconds since its record changed last, as far as was seen. `claimed`: it has renewed
    its lease before; one that has not still starts, and may take `slow` seconds more for that.
    """

    life: Life
    still: float
    lease: float
    claimed: bool
    slow: float


def plan_turn(writer: Sighting | None) -> Turn:
    """What to do; None when no writer is noted, or it has ended cleanly."""
    if writer is None or writer.life is Life.GONE:
        return Turn.FREE
    patience = writer.lease + (0.0 if writer.claimed else writer.slow)
    return Turn.OVERDUE if writer.still >= patience else Turn.WAIT


class RenewalOutcome(Enum):
    """How an attempt to renew a lease ended."""

    RENEWED = "renewed: no one else has taken it"
    REFUSED = "another one has it"
    FAILED = "unknown: the place of the checkpoint does not answer"


class Verdict(Enum):
    """What a writer does after an attempt to renew its lease."""

    WRITE = "continue"
    WAIT = "send nothing until it is renewed"
    FENCE = "end, and write nothing more"


def renewal_due(since_renewal: float, lease: float) -> bool:
    """Whether a lease of `lease` seconds, renewed `since_renewal` ago, must be renewed now."""
    return since_renewal >= lease / RENEWALS


def plan_lease(
    tried: RenewalOutcome, since_renewal: float, lease: float, *, guarded: bool
) -> Verdict:
    """What a writer does now; `since_renewal` is the age of the last renewal before the attempt.

    Being late is no reason to end: a writer that still holds the lock and the epoch has not been
    replaced while it was frozen or slow. `guarded`: the JVM that sends waits by itself while the
    lease is over; where it does not (executors), a lease that cannot be renewed ends the writer.
    """
    if tried is RenewalOutcome.REFUSED:
        return Verdict.FENCE
    if tried is RenewalOutcome.RENEWED or since_renewal < lease * USABLE:
        return Verdict.WRITE
    return Verdict.WAIT if guarded else Verdict.FENCE
