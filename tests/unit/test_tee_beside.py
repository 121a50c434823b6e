"""A tee beside an instance is watched: what becomes of it is a state, and it is started again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

import aggregator.features.delta_sink.supervisor as beside
from aggregator.config import load_text
from aggregator.config.in_force import InForce
from aggregator.config.schema import Config, SourceConfig
from aggregator.features.child_process import Child
from aggregator.features.delta_sink.supervisor import TeeBeside
from aggregator.features.service import Now
from aggregator.model.events import Event
from aggregator.model.loop import FOREVER
from aggregator.status.sink import TeeState, TeeStatus
from aggregator.store.checkpoint.start_state import CheckpointState
from support.reading import wait_for

# Child processes, and waits for what becomes of them.
pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, sys
# To load the config would take each of them half a second.
pickled = os.read(0, 1 << 20)
while not pickled.endswith(b"."):
    pickled += os.read(0, 1 << 20)
path = "/other" if b"/other" in pickled else "/lake"
topic = {"topic": "orders", "table": "t", "positions": {}, "commits": 1, "records": 5,
    "undecoded": 2, "columns": 0, "lost": 0, "lag": 3, "seconds_behind": 1.5}
report = {"name": "n", "path": path, "at": "2026-11-25T00:00:00Z", "seconds": 1.0}
def emit(**what):
    print(json.dumps(what), flush=True)
"""
RUNS = PROGRAM + "emit(report={**report, 'topics': [topic]}); sys.stdin.buffer.read()"
FAILS = PROGRAM + "emit(error='password=\"s3cr3t\" it is no folder'); sys.exit(3)"
HELD = PROGRAM + "emit(error='another tee writes there', held=True); sys.exit(3)"
DIES = PROGRAM + "os.kill(os.getpid(), 9)"
UNWELL = PROGRAM + "emit(report={**report, 'hub': 'is away'}); sys.stdin.buffer.read()"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it waits is for others to test; that it does is seen by its states."""
    monkeypatch.setattr(beside, "plan_rest", lambda _: 0.5)
    monkeypatch.setattr(beside, "LAST_SECONDS", 1.0)
    monkeypatch.setattr(beside, "TURN_SECONDS", 0.05)


def config_of(tee: str = "{path: /lake}") -> Config:
    return load_text(
        'hub: {bootstrap_servers: "hub:9092"}\n'
        'sources: {eu: {bootstrap_servers: "eu:9092", topics: {include: orders}}}\n'
        + (f"tee: {tee}\n" if tee else "")
    )


def child_of(program: str) -> Child:
    line = [sys.executable, "-c", program]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


class Watched:
    """A tee whose process is one of these programs, one after the other, the last for ever."""

    def __init__(self, *programs: str, config: Config | None = None) -> None:
        self.in_force = InForce(config or config_of())
        self.events: list[Event] = []
        self.children: list[Child] = []
        self._programs = programs
        self.tee = TeeBeside(self.in_force, self.events.append, self._begin)

        self.now = Now(self.in_force.config, None, CheckpointState())

    def _begin(self) -> Child:
        at = min(len(self.children), len(self._programs) - 1)
        self.children.append(child_of(self._programs[at]))
        return self.children[-1]

    def until(self, check: Callable[[TeeStatus], object], what: str) -> TeeStatus:
        """Wait until its status is so."""

        def checked() -> TeeStatus | None:
            status = self.tee.status()
            return status if status is not None and check(status) else None

        found = wait_for(checked, what)
        assert found is not None
        return found


@contextmanager
def watched(*programs: str) -> Iterator[Watched]:
    found = Watched(*programs)
    found.tee.follow(found.now)
    try:
        yield found
    finally:
        found.tee.stop()
    assert all(child.poll() is not None for child in found.children)


def test_where_the_config_has_no_tee_none_is_started() -> None:
    for text in ("", "{run: alone}"):
        without = Watched(RUNS, config=config_of(text))
        without.tee.follow(without.now)
        without.tee.stop()
        assert (without.children, without.tee.status()) == ([], None)


def test_without_a_tee_its_thread_rests_until_the_config_has_one() -> None:
    without = Watched(RUNS, config=config_of(""))
    without.tee._turn()
    assert without.tee._rest == FOREVER
    woken: list[bool] = []
    without.tee._loop.start = lambda **_: None  # type: ignore[method-assign]
    without.tee._loop.wake = lambda: woken.append(True)  # type: ignore[method-assign]
    without.tee.follow(without.now)
    assert not woken
    without.in_force.config = config_of("{run: beside}")
    without.tee.follow(without.now)
    assert woken


def test_what_it_prints_is_the_status() -> None:
    with watched(RUNS) as it:
        status = it.until(lambda now: now.state is TeeState.RUNNING, "it runs")
        assert (status.path, status.topics, status.failures) == ("/lake", 1, 0)
        assert (status.records, status.undecoded, status.lag) == (5, 2, 3)
        assert (status.seconds_behind, status.problems) == (1.5, ())
    # No one has to kill one that runs.
    assert [child.returncode for child in it.children] == [0]


@pytest.mark.parametrize(
    ("program", "kind", "reason"),
    [
        (FAILS, "tee_failed", "it is no folder"),
        (HELD, "tee_held", "another tee writes there"),
        (DIES, "tee_failed", "it ended with exit code -9"),
        ("this is no Python", "tee_failed", "exit code 1"),
    ],
)
def test_one_that_ends_by_itself_is_logged_once_and_started_again(
    program: str, kind: str, reason: str
) -> None:
    with watched(program, program, RUNS) as it:
        waits = it.until(lambda now: now.state is TeeState.WAITING, "it waits")
        assert reason in waits.problems[0]
        assert "s3cr3t" not in waits.problems[0]
        status = it.until(lambda now: now.state is TeeState.RUNNING, "it runs")
        assert (status.failures, status.problems) == (2, ())
        wait_for(lambda: it.events[-1].kind == "tee_back", "it says that it is back")
        assert [event.kind for event in it.events] == [kind, "tee_back"]


def test_what_does_not_land_is_a_problem_of_one_that_runs() -> None:
    with watched(UNWELL) as it:
        status = it.until(lambda now: now.state is TeeState.FAILING, "it fails")
        assert status.problems == ("hub: is away",)


def test_a_change_of_the_config_is_another_process_and_counts_continue() -> None:
    with watched(RUNS) as it:
        it.until(lambda now: now.state is TeeState.RUNNING, "it runs")
        it.in_force.config = config_of("{path: /other}")
        status = it.until(lambda now: now.path == "/other" and now.records == 10, "it runs again")
        assert status.failures == 0
        # Whose schemas records name is asked of the sources, one of which is new.
        decoding = config_of("{path: /other, decode: true}")
        it.in_force.config = decoding
        it.until(lambda now: now.records == 15, "it runs again")
        fields = {"bootstrap_servers": "us:9092", "topics": {"include": "orders"}}
        us = SourceConfig.model_validate({**fields, "schemas": {"registry": "http://us"}})
        sources = {**decoding.sources, "us": us}
        it.in_force.config = decoding.model_copy(update={"sources": sources})
        it.until(lambda now: now.records == 20, "it runs again")
        it.in_force.config = config_of("")
        wait_for(lambda: all(child.poll() is not None for child in it.children), "it has ended")
        assert it.tee.status() is None
        assert len(it.children) == 4
    assert it.events == []


def test_one_that_does_not_end_is_killed_when_the_instance_stops() -> None:
    deaf = RUNS.replace("sys.stdin.buffer.read()", "import time; time.sleep(600)")
    with watched(deaf) as it:
        it.until(lambda now: now.state is TeeState.RUNNING, "it runs")
    assert [child.returncode for child in it.children] == [-9]
