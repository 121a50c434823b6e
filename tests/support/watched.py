"""A running aggregator whose clusters can be made to ail, and a Prometheus that watches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import Request, urlopen

import pytest
from confluent_kafka import Producer

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.ports import free_ports
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from support.application import Application, application
from support.forked import ForkedProcess
from support.load import records
from support.prometheus import Prometheus, prometheus
from support.reading import SECONDS, wait_for, wait_until_topic_has
from support.running import make_config, source

T = TypeVar("T")
SECONDS_FOR_A_MINUTE = 4
"""The only change to the rules: the seconds for a minute of a `for`, or of a window."""
TOKEN = "look-0123456789abcdef"
BACKLOG = 12_000
PER_SECOND = 20
SMALL = {"max.partition.fetch.bytes": "16384", "fetch.max.bytes": "65536"}
"""Fetches of a reader: what it has at hand it copies, whatever becomes of its log."""
TRANSFORM = """
from pyspark.sql import DataFrame, functions as F

def fails(records: DataFrame) -> DataFrame:
    return records.withColumn("value", F.raise_error(F.lit("not this one")).cast("binary"))
"""


@dataclass
class Watched:
    """`eu` and `us` are sources that stay well, `down` is one that a test may freeze.

    `slow` copies so few records of `us` a second that it takes minutes.
    """

    eu: EmbeddedCluster
    us: EmbeddedCluster
    down: EmbeddedCluster
    hub: EmbeddedCluster
    name: str
    folder: Path
    config: Config
    app: Application
    prometheus: Prometheus
    ended: bool = False

    def topic(self, kind: str) -> str:
        """The name of a topic, at its source and at the hub."""
        return f"{kind}.{self.name}"

    def write(self, cluster: EmbeddedCluster, kind: str, *written: NewRecord) -> None:
        """Write records into a source topic."""
        produce(cluster.bootstrap_servers, self.topic(kind), written)

    def arrived(self, kind: str, count: int) -> None:
        """Wait until the hub has `count` records of a topic."""
        wait_until_topic_has(self.hub.bootstrap_servers, self.topic(kind), count)

    def fires(self, alert: str, **labels: str) -> dict[str, Any]:
        """Wait until an alert fires with these labels; returns it."""
        found = self.until(
            lambda: self.prometheus.firing(alertname=alert, **labels), f"{alert} {labels} fires"
        )
        return found[0]

    def calms(self, alert: str, **labels: str) -> None:
        """Wait until it fires no more."""
        self.until(
            lambda: not self.prometheus.firing(alertname=alert, **labels), f"{alert} is over"
        )

    def until(self, check: Callable[[], T], what: str) -> T:
        """Wait until this is true; AssertionError with the aggregator's log when that ends."""
        return wait_for(check, what) if self.ended else self.app.until(check, what)

    def kill(self) -> None:
        """Kill the aggregator, for good."""
        self.ended = True
        self.app.kill()
        assert self.app.wait_gone(), self.app.members()

    @contextmanager
    def started_in_vain(self) -> Iterator[None]:
        """Start one again and again while the block runs, whose hub is not there."""
        hub = self.config.hub.model_copy(update={"bootstrap_servers": "127.0.0.1:9"})
        supervision = self.config.supervision.model_copy(update={"connect_timeout": 3.0})
        config = self.config.model_copy(update={"hub": hub, "supervision": supervision})
        over = threading.Event()

        def start() -> None:
            while not over.is_set():
                with application(config, self.folder / "in-vain") as app:
                    app.wait(SECONDS)

        with ThreadPoolExecutor(1) as pool:
            starts = pool.submit(start)
            try:
                yield
            finally:
                over.set()
            starts.result()

    def metrics(self) -> bytes:
        """The text of its /metrics."""
        asked = Request(
            f"http://{self.config.api.listen}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with urlopen(asked, timeout=30) as answer:
            return bytes(answer.read())

    def command(self, *words: str) -> tuple[int | None, str]:
        """Exit code and output of a command beside it, with its config."""
        log = self.folder / f"{words[0]}.log"
        file = self.folder / "app" / "aggregator.yaml"
        done = ForkedProcess([*words, "-c", str(file)], log)
        try:
            self.until(lambda: not done.alive, f"{words[0]} ends")
        finally:
            done.kill()
        return done.exit_code, log.read_text("utf-8")


@contextmanager
def watched(
    clusters: tuple[EmbeddedCluster, EmbeddedCluster, EmbeddedCluster, EmbeddedCluster],
    name: str,
    folder: Path,
) -> Iterator[Watched]:
    """Both of them, as soon as records flow and are scraped; gone with the block.

    The clusters are `eu`, `us`, `down` and the hub. Topics of `eu`: orders, again, and keys, which
    the hub compacts. Of `us`: slow, and broken, whose transform fails at its first record.
    """
    eu, us, down, hub = clusters
    config = _config(clusters, name, folder)
    for cluster, kinds in ((eu, ("orders", "again", "keys")), (us, ("slow", "broken"))):
        for kind in kinds:
            create_topic(cluster.bootstrap_servers, f"{kind}.{name}")
    create_topic(down.bootstrap_servers, f"down.{name}")
    create_topic(hub.bootstrap_servers, f"keys.{name}", config={"cleanup.policy": "compact"})
    produce(eu.bootstrap_servers, f"orders.{name}", records(200))
    produce(eu.bootstrap_servers, f"again.{name}", records(10))
    _write_backlog(us.bootstrap_servers, f"slow.{name}")
    (folder / "failing_transform.py").write_text(TRANSFORM)
    with (
        pytest.MonkeyPatch.context() as patch,
        prometheus(folder / "prometheus", config.api.listen, TOKEN, SECONDS_FOR_A_MINUTE) as prom,
    ):
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        with application(config, folder / "app", again=True) as app:
            found = Watched(eu, us, down, hub, name, folder, config, app, prom)
            app.until_logged("running")
            found.arrived("orders", 200)
            app.until(lambda: prom.value("sum(aggregator_records_written_total)"), "it is scraped")
            yield found


def _write_backlog(servers: str, topic: str) -> None:
    """In small batches: a reader has the whole of one at hand, and copies that in any case."""
    producer = Producer({"bootstrap.servers": servers, "batch.size": 8192})
    for number in range(BACKLOG):
        producer.produce(topic, bytes(500), b"%d" % number)
        producer.poll(0)
    assert producer.flush(SECONDS) == 0


def _config(clusters: tuple[EmbeddedCluster, ...], name: str, folder: Path) -> Config:
    eu, us, down, hub = clusters
    (port,) = free_ports(1)
    return make_config(
        hub,
        folder / "state",
        {
            "eu": source(eu, f"(orders|again|keys)[.]{name}"),
            "us": source(
                us,
                f"slow[.]{name}",
                on_gap="skip",
                max_records_per_second=PER_SECOND,
                consumer=SMALL,
            ),
            "broken": source(us, f"broken[.]{name}"),
            "down": source(down, f"down[.]{name}"),
            "none": source(eu, "nothing-has-this-name"),
        },
        name=name,
        topics={"overrides": {f"broken.{name}": {"transform": "failing_transform:fails"}}},
        # Each by itself, so that the broken one is known at once.
        stream={"lanes": "source"},
        api={"listen": f"127.0.0.1:{port}", "read_token": TOKEN},
        metrics={"partitions": True},
    )
