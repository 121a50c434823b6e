"""Two instances take turns under load while people change the config: on a disk, or on a store."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from aggregator.config.render import to_yaml
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.processes import GuardedProcess
from faults.build import INCLUDED
from faults.world import ALIASES, Struck, World
from support.application import PROGRAM, Application, Running
from support.locked import PASSWORD, change_password
from support.rest import ask

EDITED, ADDED, LOCKED = ALIASES
"""What is edited in the YAML, what comes and goes over REST, and whose password is rotated."""
LEASE_SECONDS = 4.0
SMALL = {
    "locked": True,
    "rate": 500.0,
    "linger_ms": 50.0,
    "hub_brokers": 1,
    "replication": 1,
    "min_isr": 1,
    # How long a writer elsewhere is waited for.
    "delivery_timeout_seconds": 6.0,
}
FASTER = 1_000_000
"""A limit that limits nothing; each edit adds one."""


class Instance(Application):
    """One of both. It goes by the file as it is, which no start writes."""

    def __init__(self, file: Path, port: int, program: Sequence[str]) -> None:
        number = len(list(file.parent.glob("run-*.log"))) + 1
        log = file.parent / f"run-{number:03}.log"
        words = ["run", "-c", str(file), "--standby", "--set", f"api.listen=127.0.0.1:{port}"]
        Running.__init__(self, GuardedProcess([sys.executable, *program, *words], log), log)
        self.failpoint = ""
        self.started = time.monotonic()
        self.port = port

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The answer of its API."""
        return ask(method, f"http://127.0.0.1:{self.port}{path}", body)


@dataclass
class Pair:
    """The instance that writes, the one on standby, and the current config.

    `edits` and `rotations` count what was done; `added` is whether the source over REST is there.
    """

    world: World
    program: Sequence[str]
    writer: Instance = field(init=False)
    standby: Instance = field(init=False)
    edits: int = 0
    rotations: int = 0
    added: bool = False

    def __post_init__(self) -> None:
        folder = self.world.folder / "pair"
        folder.mkdir()
        self.file, self.secret = folder / "aggregator.yaml", folder / "secret"
        self.tree: dict[str, Any] = yaml.safe_load(to_yaml(self.world.config))
        del self.tree["sources"][ADDED]
        login = self.tree["sources"][LOCKED]["kafka"]
        login["sasl.jaas.config"] = login["sasl.jaas.config"].replace(PASSWORD, "${file:secret}")
        self.tree["checkpoint"]["lease"] = f"{LEASE_SECONDS:g}s"
        self._put(self.secret, PASSWORD)
        self._put(self.file, yaml.safe_dump(self.tree))
        first, second = free_ports(2)
        self.writer = self._start(first)
        self.writer.until_logged("running", self.world.allowed_seconds)
        self.standby = self._start(second)

    @property
    def sources(self) -> set[str]:
        """Of the config by now."""
        return {EDITED, LOCKED} | ({ADDED} if self.added else set())

    def add(self) -> None:
        """Add a source over REST, at the one that writes."""
        cluster = self.world.sources[ADDED]
        config = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.bootstrap.servers": cluster.bootstrap_servers,
            "topics": INCLUDED,
        }
        self._command("PUT", f"/connectors/{ADDED}/config", config)
        self.added = True

    def remove(self) -> None:
        """Take it out again."""
        self._command("DELETE", f"/connectors/{ADDED}")
        self.added = False

    def edit(self) -> None:
        """Change the YAML, and let no instance read it again."""
        self.edits += 1
        self.tree["sources"][EDITED]["max_records_per_second"] = FASTER + self.edits
        self._put(self.file, yaml.safe_dump(self.tree))

    def rotate(self) -> None:
        """Set another password at a source: the writer does not learn it, and is refused."""
        before, self.rotations = self._password, self.rotations + 1
        change_password(self.world.sources[LOCKED], before, self._password, quietly=True)
        self._put(self.secret, self._password)

    def take_over(self, end: Callable[[Instance], None]) -> None:
        """End the one that writes; the other has to write then, by the config as it is now."""
        old, new, world = self.writer, self.standby, self.world
        end(old)
        new.until_logged("running", world.allowed_seconds)
        runs = time.monotonic()
        world.lives.remove(new)
        world.lives.append(new)
        if end is stop and (not old.wait(world.allowed_seconds) or old.exit_code):
            world.note(f"after SIGTERM: exit code {old.exit_code}")
        # One on another machine may be frozen yet: what it holds must not arrive when it wakes.
        old.end()
        self.writer = new
        for alias in sorted(self.sources):
            world.wait_for_records(runs, f"{end.__name__}, {alias}", alias=alias)
        self._judge_config()
        self.standby = self._start(old.port)

    def end_well(self) -> None:
        """Leave one that writes, of all sources."""
        self.standby.terminate()
        if not self.standby.wait(self.world.allowed_seconds) or self.standby.exit_code:
            self.world.note(f"a standby ends with {self.standby.exit_code}")
        if not self.added:
            self.add()

    @property
    def _password(self) -> str:
        return f"{PASSWORD}-{self.rotations}" if self.rotations else PASSWORD

    def _judge_config(self) -> None:
        code, shown = self.writer.ask("GET", "/api/config")
        sources = set(shown["sources"]) if code == 200 else set()
        limit = FASTER + self.edits if self.edits else None
        edited = shown["sources"].get(EDITED, {}).get("max_records_per_second")
        if sources != self.sources or edited != limit:
            words = f"{sorted(sources)}, limit {edited}"
            self.world.note(f"in force: {words}; wanted: {sorted(self.sources)}, limit {limit}")

    def _command(self, method: str, path: str, body: Any = None) -> None:
        deadline = time.monotonic() + self.world.allowed_seconds
        while True:
            code, answer = self.writer.ask(method, path, body)
            if code < 300:
                return
            if code != 503 or time.monotonic() > deadline:
                raise AssertionError(f"{method} {path}: {code} {answer}")
            time.sleep(0.5)

    def _start(self, port: int) -> Instance:
        """Start a standby; where no other instance writes, it begins at once."""
        made = Instance(self.file, port, self.program)
        self.world.lives.append(made)
        if hasattr(self, "writer"):
            # The present life of the application is the one that writes.
            self.world.lives.remove(self.writer)
            self.world.lives.append(self.writer)
            made.until_logged("standing_by", self.world.allowed_seconds)
        return made

    @staticmethod
    def _put(file: Path, text: str) -> None:
        new = file.with_suffix(".new")
        new.write_text(text, "utf-8")
        new.replace(file)


def kill(writer: Instance) -> None:
    """kill -9 of Python; its JVM notices by itself."""
    writer.kill()


def freeze(writer: Instance) -> None:
    """SIGSTOP, for good."""
    writer.signal_all(signal.SIGSTOP)


def stop(writer: Instance) -> None:
    """SIGTERM."""
    writer.terminate()


ENDS = (kill, freeze, stop)
CHANGES = (Pair.add, Pair.edit, Pair.rotate, Pair.remove)
"""Three ends and four changes: in twelve turns each comes with each."""


def take_overs(times: int, program: Sequence[str] = PROGRAM) -> Callable[[World], None]:
    """Take over `times` times, each after a config change that only the file or REST knows."""

    def script(world: World) -> None:
        rng = random.Random(world.settings.seed)
        world.stop_app()
        pair = Pair(world, program)
        for turn in range(times):
            time.sleep(rng.uniform(1.0, 4.0))
            change, end = CHANGES[turn % len(CHANGES)], ENDS[turn % len(ENDS)]
            change(pair)
            began = world.seconds
            pair.take_over(end)
            what = f"{change.__name__}, then {end.__name__}"
            world.struck.append(Struck(round(began, 1), what, round(world.seconds - began, 1)))
            world.progress(f"{what}: the other one writes after {world.seconds - began:.1f} s")
        pair.end_well()

    return script
