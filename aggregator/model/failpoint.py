"""Named failpoints at which tests make a process die, fail or wait.

Those of `task-` are in the connector's Java, where a process can be made to die, or to raise an
Error.

`AGGREGATOR_FAILPOINT=after-lock` kills the process (SIGKILL) when it first passes `after-lock`.
`after-commit:3` means the third pass, `after-scan=pause:20` waits 20 s there instead, and
`before-write=raise` raises a FailpointError. Several are given with commas. Without the variable
a place costs one look at a constant.
"""

import difflib
import os
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass
from functools import cache

from aggregator.model.errors import AggregatorError, ConfigError, Problem

VARIABLE = "AGGREGATOR_FAILPOINT"

POINTS: dict[str, str] = {
    "after-plan": "The clusters are discovered and planned for; a former standby has the lock.",
    "after-lock": "The writer's lock is held; the epoch is not claimed yet.",
    "after-epoch": "The epoch is claimed; no lane has begun.",
    "before-apply": "The plan's actions at the hub are about to be done.",
    "after-apply": "The plan's actions at the hub are done; nothing is recovered or started yet.",
    "before-settle": "Recovery: the hub has not been looked at yet.",
    "after-settle": "Recovery: the hub's ends have stood still; the tail is not read yet.",
    "after-scan": "Recovery: the hub tail is read; nothing is compared yet.",
    "after-recovered": "Recovery: the new positions are committed; the lanes do not run yet.",
    "before-begin": "A lane's start is about to be committed.",
    "after-begin": "A lane's start is committed; its query does not run yet.",
    "after-start": "A lane's query runs; it is not observed yet.",
    "mid-batch": "A lane runs; passed at each look at what it reports, four times a second.",
    "before-point": "What lanes have reported is due; it is not committed yet.",
    "after-snapshot": "The hub's end offsets were read.",
    "before-write": "A checkpoint is about to be written to Delta.",
    "after-write": "A checkpoint is in the Delta log, but not yet forced to the disk.",
    "after-commit": "A checkpoint is committed and on the disk.",
    "after-gap": "A gap is recorded; the position it leads to is not committed yet.",
    "after-change": "A source that was changed over REST is kept; it is not in force yet.",
    "before-drain": "Lanes are about to get the order to end.",
    "before-final-commit": "A lane has ended; its end is not committed yet.",
    "after-final-commit": "A lane's end is committed.",
    "task-skip": "A task leaves out a record that the hub holds already.",
    "task-pass": "A task is about to hand over a batch that is copied as it is.",
    "task-point": "A task has noted its positions; what they cover may be under way yet.",
    "task-report": "A JVM with tasks is about to report to the driver what they did.",
    "task-flush": "A batch ends: what its task has sent is not all acknowledged yet.",
    "task-commit": "A batch ends: all of it is acknowledged; Spark does not know it yet.",
    "task-abort": "A task is stopped: its producer is about to be closed.",
    "backfill-scanned": "A backfill knows what the hub holds of its range; its lane does not run.",
    "backfill-point": "A backfill's progress is due; it is not committed yet.",
    "before-events-known": "The events of a hub topic were read; its records still wait.",
    "before-events-kept": "Events that came into the hub are due; their table has them not yet.",
    "after-events-kept": "Events are in their table; the tasks' JVM may hand them over again.",
    "before-compaction": "Maintenance: the small files of the checkpoint table are still there.",
    "after-compaction": "Maintenance: small files are merged; what they were is not deleted yet.",
    "after-vacuum": "Maintenance: unused files are deleted; the log is not cut yet.",
}
"""Every place, and in a sentence where it is."""

KILL, RAISE, PAUSE = "kill", "raise", "pause"

_SPEC = os.environ.get(VARIABLE, "").strip()
_passes: Counter[str] = Counter()
_lock = threading.Lock()


class FailpointError(AggregatorError):
    """What the action `raise` raises."""


@dataclass(frozen=True, slots=True)
class ArmedFailpoint:
    """What happens at a place: at which pass, which action, and for how many seconds it pauses."""

    at: int = 1
    action: str = KILL
    seconds: float = 0.0


def failpoint(name: str) -> None:
    """Pass the place `name`; a no-op unless it is armed.

    ConfigError when `name`, or what the variable says, is not known.
    """
    if _SPEC:
        _pass(name)


def parse(spec: str) -> dict[str, ArmedFailpoint]:
    """The armed places of `NAME[:PASS][=ACTION][,...]`; ConfigError names what is wrong in it."""
    return dict(_parse_one(part.strip()) for part in spec.split(",") if part.strip())


def _parse_one(text: str) -> tuple[str, ArmedFailpoint]:
    place, _, action = text.partition("=")
    name, _, at = place.partition(":")
    action, _, seconds = (action or KILL).partition(":")
    _check(name)
    if not (at.isdecimal() and int(at) > 0 if at else ":" not in place):
        raise _problem(f"{text!r}: the pass is a number from 1 on", f"write {name}:3")
    if action not in (KILL, RAISE, PAUSE):
        raise _problem(f"{text!r}: unknown action {action!r}", "valid: kill, raise, pause:SECONDS")
    try:
        pause = float(seconds) if action == PAUSE else 0.0
    except ValueError:
        raise _problem(f"{text!r}: a pause needs seconds", f"write {name}=pause:20") from None
    return name, ArmedFailpoint(int(at or 1), action, pause)


def _check(name: str) -> None:
    if name in POINTS:
        return
    near = difflib.get_close_matches(name, POINTS, 1)
    hint = f"did you mean {near[0]}?" if near else f"valid: {', '.join(POINTS)}"
    raise _problem(f"no failpoint {name!r}", hint)


def _problem(reason: str, hint: str) -> ConfigError:
    return ConfigError([Problem(VARIABLE, reason, hint)])


@cache
def _armed() -> dict[str, ArmedFailpoint]:
    return parse(_SPEC)


def _pass(name: str) -> None:
    _check(name)
    armed = _armed().get(name)
    if armed is None:
        return
    with _lock:
        _passes[name] += 1
        if _passes[name] != armed.at:
            return
    # Past every buffer: the process may be gone with the next line.
    os.write(2, f"failpoint {name}, pass {armed.at}: {armed.action}\n".encode())
    if armed.action == KILL:
        os.kill(os.getpid(), signal.SIGKILL)
    elif armed.action == RAISE:
        raise FailpointError(f"failpoint {name}")
    else:
        time.sleep(armed.seconds)
