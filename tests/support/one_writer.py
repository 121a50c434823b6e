"""One source under load, a hub, and the instances that write there in turn."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.model.errors import EXIT_DONE
from support.application import Application
from support.load import load
from support.reading import Record, read_topic, wait_for, wait_until_topic_has
from support.running import make_config, source
from support.verdict import Verdict, judge

MORE = 1_500


class World:
    """One source under load, until `end`, and a hub; the instances that write there."""

    def __init__(self, source: EmbeddedCluster, hub: EmbeddedCluster, topic: str) -> None:
        self.source = source
        self.hub = hub
        self.topic = topic
        self.records: list[Record] = []
        self._loaded = ExitStack()
        self._loaded.enter_context(load([source], topic))

    def count(self) -> int:
        """How many records the hub holds."""
        return wait_until_topic_has(self.hub.bootstrap_servers, self.topic, 0)

    def wait_for_more(self, records: int = MORE) -> int:
        """Wait until the hub holds `records` more records."""
        return wait_until_topic_has(self.hub.bootstrap_servers, self.topic, self.count() + records)

    def is_still(self, seconds: float) -> bool:
        """Whether the hub gets nothing for `seconds`."""
        before = self.count()
        time.sleep(seconds)
        return self.count() == before

    def end(self) -> None:
        """Write no more into the source."""
        self._loaded.close()

    def end_with(self, last: Application) -> Verdict:
        """Let the last instance copy the rest and stop it; returns how the hub compares."""
        self.end()
        self.records = read_topic(self.source.bootstrap_servers, self.topic)
        # More than these where something is there twice.
        wait_until_topic_has(self.hub.bootstrap_servers, self.topic, len(self.records))
        wait_for(lambda: self.is_still(2.0), "all is copied")
        stop(last)
        return judge({"eu": self.records}, read_topic(self.hub.bootstrap_servers, self.topic))


def config_of(world: World, folder: Path, **parts: Any) -> Config:
    checkpoint = {"path": str(folder / "state"), **parts.pop("checkpoint", {})}
    return make_config(
        world.hub,
        folder / "state",
        {"eu": source(world.source, world.topic)},
        **{"api": {"listen": "off"}, "checkpoint": checkpoint, **parts},
    )


def ended(running: Application) -> tuple[int | None, str]:
    """Exit code and log of an instance that is to end by itself."""
    running.until(lambda: not running.alive, "it has ended")
    return running.exit_code, running.text


def stop(running: Application) -> None:
    """Have it end cleanly; AssertionError with its log when it does not."""
    running.terminate()
    code, log = ended(running)
    assert code == EXIT_DONE, f"exit code {code}\n{log}"
