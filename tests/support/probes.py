"""What Kubernetes does about a container: its probes, by their own timings, in any clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Ask = Callable[[str], int | None]
"""The HTTP code of a path; None when nothing answers in time."""
KINDS = ("startupProbe", "livenessProbe", "readinessProbe")


@dataclass
class _Probe:
    """One probe, with what Kubernetes takes where a manifest says nothing."""

    path: str
    period: float
    threshold: int
    due: float = 0.0
    failures: int = 0
    passed: bool = False

    def is_over(self, now: float, ask: Ask) -> bool | None:
        """Ask when it is time: True after a success, False after too many failures, else None."""
        if now < self.due:
            return None
        self.due = now + self.period
        code = ask(self.path)
        if code is not None and 200 <= code < 400:
            self.failures = 0
            return True
        self.failures += 1
        return False if self.failures >= self.threshold else None


@dataclass
class Kubelet:
    """Probes one container of a manifest. `speed`: so many times as fast as the manifest says."""

    container: Mapping[str, Any]
    speed: float = 1.0
    killed: str = ""
    """Which probe it was killed for, and when."""
    ready: list[bool] = field(default_factory=list)
    """What readiness was, in turn, whenever it changed."""
    _probes: dict[str, _Probe] = field(init=False)

    def __post_init__(self) -> None:
        self._probes = {
            kind: _Probe(
                it["httpGet"]["path"],
                it.get("periodSeconds", 10) / self.speed,
                it.get("failureThreshold", 3),
            )
            for kind in KINDS
            for it in [self.container[kind]]
        }

    def look(self, now: float, ask: Ask) -> None:
        """Ask what is to be asked by now, and note what follows."""
        if self.killed:
            return
        startup, liveness, readiness = (self._probes[kind] for kind in KINDS)
        if not startup.passed:
            over = startup.is_over(now, ask)
            startup.passed = over is True
            if over is False:
                self.killed = f"startup, {now:.0f} s"
            if not startup.passed:
                return
        if liveness.is_over(now, ask) is False:
            self.killed = f"liveness, {now:.0f} s"
        ready = readiness.is_over(now, ask)
        if ready is not None and self.ready[-1:] != [ready]:
            self.ready.append(ready)
