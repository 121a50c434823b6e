"""`aggregator run` as a process of its own: to be killed, frozen, stopped and started again."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.processes import GuardedProcess
from aggregator.model.failpoint import VARIABLE
from support.forked import ForkedProcess
from support.javas import taken_by
from support.processes import processes
from support.reading import SECONDS

T = TypeVar("T")
R = TypeVar("R", bound="Running")
KILLED = 128 + signal.SIGKILL
GONE_SECONDS = 60.0
STACKS_SECONDS = 10.0
END_OF_STACKS = b"class space"
"""Java says how full its heap is after the stacks of its threads; this comes last."""
PROGRAM = ("-m", "aggregator")
NONE: Mapping[str, str] = {}


def with_batches(seconds: float) -> tuple[str, ...]:
    """`aggregator` with batches of `seconds` seconds instead of minutes."""
    return (
        "-c",
        f"import aggregator.datapath.spark.lane as lane; lane.BATCH_SECONDS = {seconds:g}\n"
        "from aggregator.cli.main import main; main()",
    )


SHORT_BATCHES = with_batches(1)


class Running:
    """A process of the application, and its log. It ends when this process dies.

    With `again` it shares its Java, one after the other: for tests that end it well, and look for
    nothing of its Java.
    """

    def __init__(
        self, process: GuardedProcess | ForkedProcess, log: Path, *, again: bool = False
    ) -> None:
        self._process = process
        self.log = log
        self.again = again

    @property
    def pid(self) -> int:
        """Process id of Python; also the id of the group that its JVMs are in."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether Python is there, running or frozen."""
        return self._process.alive

    @property
    def exit_code(self) -> int | None:
        """None while it runs; KILLED after kill -9."""
        return self._process.exit_code

    def kill(self) -> None:
        """kill -9, of Python alone: its JVM has to notice."""
        self._process.kill()

    def terminate(self) -> None:
        """Ask for a clean stop (SIGTERM)."""
        self._process.signal(signal.SIGTERM)

    def hang_up(self) -> None:
        """Have it read its config again (SIGHUP)."""
        self._process.signal(signal.SIGHUP)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to Python and to all its JVMs."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Wait for the end of Python; False when it is still there after `seconds`."""
        return self._process.wait(seconds)

    def until(self, check: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
        """Call `check` until it returns something true, and return that.

        AssertionError with the log when the application ends before; when it is late, with the
        stacks of all its threads as well, and then it is dead.
        """
        deadline = time.monotonic() + seconds
        while True:
            # Looked at first: what it did last, before its end, counts.
            over = not self.alive
            if found := check():
                return found
            assert not over, f"exit code {self.exit_code}, before: {what}\n{self.text}"
            late = time.monotonic() > deadline
            assert not late, f"not within {seconds:g} s: {what}\n{self.die_with_stacks()}"
            time.sleep(0.1)

    def until_logged(self, kind: str, seconds: float = SECONDS) -> None:
        """Wait for an event of this kind, as `until` does."""
        self.until(lambda: self.has_logged(kind), f"it logs {kind}", seconds)

    def die_with_stacks(self) -> str:
        """End it; returns its log, and where the threads of Java and Python were."""
        java = [pid for pid, command in self.members().items() if "/java " in command]
        stacks = [_stacks_of(pid) for pid in java or taken_by(self.pid)]
        self._process.signal(signal.SIGABRT)
        self.wait(STACKS_SECONDS)
        return "\n".join([self.text, *stacks])

    @property
    def text(self) -> str:
        """All that it and its JVM wrote so far."""
        return self.log.read_text("utf-8", errors="replace")

    def members(self) -> dict[int, str]:
        """Processes of its group that are there, dead Python or not: pid -> command line."""
        return {it.pid: it.command for it in processes() if it.group == self.pid}

    def wait_gone(self, seconds: float = GONE_SECONDS) -> bool:
        """Wait until its JVMs are gone, too; False when they are still there after `seconds`."""
        deadline = time.monotonic() + seconds
        while self.members():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True

    def end_well(self) -> None:
        """Ask it to stop, unless it has ended, and wait; it has to end well."""
        self.terminate()
        assert self.wait(GONE_SECONDS), f"it does not end\n{self.die_with_stacks()}"
        assert self.exit_code == 0, f"exit code {self.exit_code}\n{self.text}"

    def end(self) -> None:
        """Leave nothing of it, whatever state it is in; but for a Java that is used again."""
        if self.again and self.exit_code == 0:
            return
        self.signal_all(signal.SIGKILL)
        self.wait(GONE_SECONDS)

    def events(self) -> list[dict[str, Any]]:
        """What it logged so far; lines that are no events are left out."""
        return list(events_in(self.log))

    def has_logged(self, kind: str) -> bool:
        """Whether an event of this kind is in the log."""
        return any(event["event"] == kind for event in self.events())

    def failpoints(self) -> list[str]:
        """The places at which it died, failed or waited: `name:pass`."""
        text = self.log.read_text("utf-8", errors="replace")
        # Not only where a line begins: the JVM may have written a part of one of its own before.
        found = re.findall(r"failpoint (\S+), pass (\d+): ", text)
        return [f"{name}:{number}" for name, number in found]


class Application(Running):
    """One life of the application.

    `failpoint` arms places of `aggregator.model.failpoint`; `program` is what Python runs, and
    `command` its first argument; where none is given, Python forks instead of starting a new
    interpreter. `env` is added to the environment. Its log is `folder`/run-NUMBER.log, one file for
    each life.
    """

    def __init__(
        self,
        config: Config,
        folder: Path,
        *,
        failpoint: str = "",
        program: Sequence[str] | None = None,
        arguments: Sequence[str] = (),
        command: str = "run",
        again: bool = False,
        env: Mapping[str, str] = NONE,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = file = folder / "aggregator.yaml"
        file.write_text(to_yaml(config), "utf-8")
        number = len(list(folder.glob("run-*.log"))) + 1
        log = folder / f"run-{number:03}.log"
        self.failpoint = failpoint
        self.started = time.monotonic()
        words = [command, "-c", str(file), *arguments]
        env = {**env, VARIABLE: failpoint, "PYTHONFAULTHANDLER": "1"}
        process: GuardedProcess | ForkedProcess
        if program is None:
            process = ForkedProcess(words, log, env, again=again)
        else:
            # `env` becomes the command, so the pid is the application's.
            line = ["env", *(f"{name}={it}" for name, it in env.items()), sys.executable]
            process = GuardedProcess([*line, *program, *words], log)
        super().__init__(process, log, again=again)

    def reload(self, config: Config) -> None:
        """Have it read another config (SIGHUP)."""
        self._file.write_text(to_yaml(config), "utf-8")
        self.hang_up()


@contextmanager
def application(config: Config, folder: Path, **options: Any) -> Iterator[Application]:
    """An application that is gone with the block; with `again` it has to end well there."""
    with gone_with_the_block(Application(config, folder, **options)) as running:
        yield running


@contextmanager
def gone_with_the_block(running: R) -> Iterator[R]:
    """What runs is gone with the block; with `again` it has to end well there."""
    try:
        yield running
        if running.again and running.alive:
            running.end_well()
    finally:
        running.end()


def _stacks_of(java: int) -> str:
    """Where the threads of a Java are; it writes that where it writes all, maybe another's log."""
    out = Path(f"/proc/{java}/fd/1")
    said, deadline = b"", time.monotonic() + STACKS_SECONDS
    try:
        before = out.stat().st_size
        os.kill(java, signal.SIGQUIT)
        while END_OF_STACKS not in said and time.monotonic() < deadline:
            time.sleep(0.1)
            said = out.read_bytes()[before:]
    except OSError as error:
        return f"no more stacks of {java}: {error}"
    return said.decode(errors="replace")


def events_in(log: Path) -> Iterator[dict[str, Any]]:
    """The events of a log on which a JVM writes as well."""
    text = log.read_text("utf-8", errors="replace")
    # Not only where a line begins: the JVM may have written a part of one of its own before.
    for start in re.finditer(r'\{"message": ', text):
        # A line may be cut off where the process was killed.
        with suppress(ValueError):
            yield json.JSONDecoder().raw_decode(text, start.start())[0]
