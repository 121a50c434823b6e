"""Runs an aggregation in a thread, in this process: many runs share one JVM."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.datapath.spark.java_options import DRIVER
from aggregator.engine.application import RunResult, run
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.model.events import Event
from aggregator.status.assemble import status
from aggregator.status.schema import Phase, Status
from support.java_options import QUICK_START
from support.reading import SECONDS, wait_for

T = TypeVar("T")
PATH_VARIABLE = "TESTS_STREAM_PATH"
"""An environment variable: all runs have this `stream.path`, where a test asks for none."""
LOG = logging.getLogger(__name__)


def source(cluster: EmbeddedCluster | str, include: str, **options: Any) -> dict[str, Any]:
    """The config of one source."""
    servers = cluster if isinstance(cluster, str) else cluster.bootstrap_servers
    return {"bootstrap_servers": servers, "topics": {"include": include}, **options}


def make_config(
    cluster: EmbeddedCluster, state: Path, sources: dict[str, dict[str, Any]], /, **parts: Any
) -> Config:
    """A config with `cluster` as its hub, short intervals, and a Java that starts quickly.

    `parts` are laid over them. Where no name is given, what cannot be delivered goes to a topic of
    its own for each state: in one that others share it would be looked for.
    """
    spark = parts.pop("spark", {})
    topics, path = parts.pop("topics", {}), os.environ.get(PATH_VARIABLE, "bytes")
    if "batches" in json.dumps(topics):
        # They are copied as bytes alone.
        path = "bytes"
    digest = hashlib.sha256(str(state).encode()).hexdigest()[:12]
    aside = {} if "name" in parts else {"quarantine": f"aside-{digest}"}
    tree: dict[str, Any] = {
        "hub": {"bootstrap_servers": cluster.bootstrap_servers, **parts.pop("hub", {})},
        "sources": sources,
        "topics": {"refresh_interval": "2s", **aside, **topics},
        "stream": {"checkpoint_interval": "2s", "path": path, **parts.pop("stream", {})},
        "checkpoint": {"path": str(state)},
        "spark": {**spark, "conf": {DRIVER: QUICK_START, **spark.get("conf", {})}},
        **parts,
    }
    return load_text(yaml.safe_dump(tree))


@dataclass
class Run:
    """A run in the background, and all that it has reported so far. `control` commands it."""

    config: Config
    control: Control | None = None
    events: list[Event] = field(default_factory=list)
    statuses: list[Status] = field(default_factory=list)
    result: RunResult | None = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="run", daemon=True)

    @property
    def status(self) -> Status:
        """The newest status."""
        return self.statuses[-1]

    def kinds(self) -> list[str]:
        """The kinds of the events so far."""
        return [event.kind for event in self.events]

    def wait_for(self, check: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
        """As `support.reading.wait_for`; an error that ends the run is raised at once."""

        def checked() -> T:
            found = check()
            if not found and not self._thread.is_alive():
                if self.error is not None:
                    raise self.error
                raise AssertionError(f"the run has ended: {what}: {self.result}")
            return found

        return wait_for(checked, what, seconds)

    def stop(self) -> RunResult:
        """Stop it as SIGTERM would, and wait; returns its result or raises its error."""
        self._stop.set()
        return self.join()

    def join(self) -> RunResult:
        """Wait for its end; returns its result or raises its error."""
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), f"the run does not end; it reported {self.kinds()}"
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def begin(self) -> Run:
        """Start it, and wait for nothing."""
        self._thread.start()
        return self

    def start(self) -> Run:
        """Start it, and wait until it says that it is running."""
        self.begin()
        self.wait_for(lambda: self.statuses and self.status.phase is Phase.RUNNING, "it runs")
        return self

    def _take(self, event: Event) -> None:
        self.events.append(event)
        # Shown by pytest when a test fails.
        LOG.warning("%s: %s", event.kind, event.message)

    def _run(self) -> None:
        try:
            self.result = run(
                self.config,
                control=self.control,
                stop=self._stop,
                on_view=lambda view: self.statuses.append(status(view)),
                on_event=self._take,
            )
        except BaseException as error:  # raised again in the test's thread
            self.error = error


@contextmanager
def run_in_background(
    config: Config, control: Control | None = None, *, waits: bool = True
) -> Iterator[Run]:
    """A run that is RUNNING; stopped at the end of the block, where it must end well.

    Without `waits` it has only begun: it may need more from the test before it runs.
    """
    running = Run(config, control)
    try:
        yield running.start() if waits else running.begin()
    except BaseException:
        running._stop.set()
        running._thread.join(SECONDS)
        raise
    if running.result is None:
        result = running.stop()
        assert (result.exit_code, result.problems) == (0, ())


def catch_up(config: Config) -> RunResult:
    """Copy what the sources hold now."""
    return run(
        config,
        until_caught_up=True,
        on_event=lambda event: LOG.warning("%s: %s", event.kind, event.message),
    )
