"""kill -9 at each failpoint, one after the other on one state, under load: each origin once.

Each life of the application recovers what the one before it left. The first die during the
recovery itself, of a hub with holes, and while they are filled; the last test lets it catch up and
compares everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.model.failpoint import POINTS
from aggregator.plan.lanes.murmur2 import partition_for_key
from faults.schedule import ELSEWHERE
from support.application import (
    KILLED,
    SHORT_BATCHES,
    Application,
    application,
)
from support.crashed import crash_at_zero, with_origin, write_again
from support.load import load
from support.reading import Record, read_topic
from support.running import make_config, source
from support.verdict import assert_copied

TOPIC = "failpoints"
SOURCES = {"eu": 3, "us": 2}
HUB_PARTITIONS = 4
HISTORY = 8_000
"""Records of each source that a crash has left in the hub in part."""

RECOVERY = (
    "before-settle",
    "after-settle",
    "after-scan",
    "after-recovered",
    "task-skip",
    "task-skip:500",
)
STOPPING = ("before-drain", "task-abort", "before-final-commit", "after-final-commit")
BATCHES = ("task-flush", "task-commit")
MAINTENANCE = ("before-compaction", "after-compaction", "after-vacuum")
LATER = {
    # The first passes are the claim of the epoch and the starts of lanes; these are reports.
    "before-write": "before-write:6",
    "after-write": "after-write:6",
    "after-commit": "after-commit:6",
    "mid-batch": "mid-batch:6",
    "before-point": "before-point:2",
    "task-point": "task-point:5",
    "task-report": "task-report:5",
}
MAINTAIN_SOON = (
    "-c",
    "import aggregator.store.checkpoint.checkpoint_table as table; table.MAINTAIN_EVERY = 6\n"
    "from aggregator.cli.main import main; main()",
)
"""`aggregator` with maintenance after every 6 commits instead of 100."""

OTHERS = [
    LATER.get(name, name)
    for name in POINTS
    if name not in ELSEWHERE and not any(it.startswith(name) for it in RECOVERY)
]


class World:
    """Two sources under load, a hub with holes, and the state that all lives share."""

    def __init__(self, config: Config, folder: Path, running: ExitStack) -> None:
        self.config = config
        self.folder = folder
        self.lives: list[Application] = []
        self._running = running

    def die_at(self, failpoint: str) -> Application:
        """One life that is to end at the failpoint; fails when it does not."""
        name = failpoint.partition(":")[0]
        programs = dict.fromkeys(MAINTENANCE, MAINTAIN_SOON) | dict.fromkeys(BATCHES, SHORT_BATCHES)
        options = {"program": programs[name]} if name in programs else {}
        with application(
            self.config, self.folder / "runs", failpoint=failpoint, **options
        ) as running:
            self.lives.append(running)
            if name in STOPPING:
                running.until_logged("running")
                running.terminate()
            running.until(lambda: not running.alive, f"it dies at {failpoint}")
            assert running.exit_code == KILLED, running.text
            assert running.failpoints() == [failpoint if ":" in failpoint else f"{failpoint}:1"]
            # Its JVM has no other reason to end than that Python is gone.
            assert running.wait_gone(), running.members()
        return running

    def end_load(self) -> None:
        """Write nothing more into the sources."""
        self._running.close()


@pytest.fixture(scope="module")
def world(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    clusters = {"eu": source_a, "us": source_b}
    folder = tmp_path_factory.mktemp("failpoints")
    config = make_config(
        hub,
        folder / "state",
        {alias: source(cluster, TOPIC) for alias, cluster in clusters.items()},
        topics={"partitions": HUB_PARTITIONS, "sync_configs": False},
        stream={"checkpoint_interval": "1s"},
        api={"listen": "off"},
    )
    create_topic(hub.bootstrap_servers, TOPIC, partitions=HUB_PARTITIONS)
    for alias, cluster in clusters.items():
        create_topic(cluster.bootstrap_servers, TOPIC, partitions=SOURCES[alias])
        history = [NewRecord(b"%d" % at, b"key-%d" % (at % 211)) for at in range(HISTORY)]
        produce(cluster.bootstrap_servers, TOPIC, history)
        write_again(hub, TOPIC, torn(alias, cluster))
    crash_at_zero(config, TOPIC, SOURCES)
    with ExitStack() as running:
        running.enter_context(load(list(clusters.values()), TOPIC, per_second=250))
        yield World(config, folder, running)


def torn(alias: str, cluster: EmbeddedCluster) -> list[Record]:
    """What a crash may leave: of each source partition, and hub partition, the first records."""
    records = [
        with_origin(record, alias)._replace(
            partition=partition_for_key(record.key or b"", HUB_PARTITIONS)
        )
        for record in read_topic(cluster.bootstrap_servers, TOPIC)
    ]
    # The highest offset in one hub partition proves nothing about the others.
    return [record for record in records if record.origin.offset < 300 + 700 * record.partition]


@pytest.mark.parametrize("failpoint", [*RECOVERY, *OTHERS])
def test_killed_there_under_load(failpoint: str, world: World) -> None:
    world.die_at(failpoint)


def test_nothing_is_lost_or_twice_or_out_of_order_after_all_of_it(
    world: World, source_a: EmbeddedCluster, source_b: EmbeddedCluster, hub: EmbeddedCluster
) -> None:
    world.end_load()
    assert world.lives
    with application(
        world.config, world.folder / "last", arguments=["--until-caught-up"]
    ) as running:
        running.until(lambda: not running.alive, "it has caught up")
        assert running.exit_code == 0, running.text
    assert_copied(
        {"eu": (source_a.bootstrap_servers, TOPIC), "us": (source_b.bootstrap_servers, TOPIC)},
        (hub.bootstrap_servers, TOPIC),
        at_least=2 * HISTORY,
    )
