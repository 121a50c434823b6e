"""What Kubernetes does about a container: its probes, by their own timings, in any clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.rest import ask

MANIFEST = Path(__file__).parents[2] / "docker" / "kubernetes.yaml"
LOOK_SECONDS = 0.05
Ask = Callable[[str], int | None]
"""The HTTP code of a path; None when nothing answers in time."""
KINDS = ("startupProbe", "livenessProbe", "readinessProbe")


def manifest_pods() -> dict[str, Any]:
    """The template of the pods of docker/kubernetes.yaml."""
    objects = yaml.safe_load_all(MANIFEST.read_text("utf-8"))
    (deployment,) = [it for it in objects if it["kind"] == "Deployment"]
    found: dict[str, Any] = deployment["spec"]["template"]
    return found


def manifest_container() -> dict[str, Any]:
    """Their container."""
    (container,) = manifest_pods()["spec"]["containers"]
    found: dict[str, Any] = container
    return found


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
    """Probes one container of a manifest. `speed`: how many times as fast as the manifest says."""

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
        """Ask what is due, and note what follows."""
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


@contextmanager
def probed(url: str, container: Mapping[str, Any], speed: float) -> Iterator[Kubelet]:
    """Probes of what answers there, while the block runs."""
    kubelet, over = Kubelet(container, speed), threading.Event()

    def code_of(path: str) -> int | None:
        try:
            return ask("GET", url + path)[0]
        except OSError:
            return None

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            kubelet.look(time.monotonic(), code_of)

    thread = threading.Thread(target=look, name="kubelet", daemon=True)
    thread.start()
    try:
        yield kubelet
    finally:
        over.set()
        thread.join()
