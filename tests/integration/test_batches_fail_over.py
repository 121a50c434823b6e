"""A source whose batches are copied as they are fails over, and only what is not its own goes back.

Of records in such batches no header says where they come from, so both directions have to see it
in the batches.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.load import load
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from aggregator.model.errors import EXIT_DONE
from support.application import KILLED, application
from support.groups import commit_at, committed_at
from support.reading import Record, read_topic
from support.running import catch_up
from support.small_plans import AS_OPTIONS
from support.whole_batches import LARGE, PARTITIONS, config_of, has_origin, seen, whole_part

COUNT = 6_000
CLIENT = {**LARGE, "compression.type": "lz4", "batch.size": "40000"}
FAILPOINT = "task-point:2"


def called(words: list[str]) -> Any:
    done = CliRunner().invoke(app, [*words, "-o", "json"])
    assert done.exit_code == EXIT_DONE, (done.stdout, done.stderr)
    return json.loads(done.stdout)


def records(tag: str, count: int = COUNT) -> Iterator[NewRecord]:
    chance = random.Random(tag)
    for at in range(count):
        value = f"{tag} {at} {chance.randbytes(60).hex()}".encode()
        yield NewRecord(value, b"key-%d" % (at % 211), at % PARTITIONS)


def tagged(found: list[Record], *tags: str) -> list[Record]:
    return [it for it in found if (it.value or b"").split(b" ")[0].decode() in tags]


class World:
    """A source, a hub, and a topic of both, copied by the config `there`."""

    def __init__(self, site: EmbeddedCluster, hub: EmbeddedCluster, folder: Path, topic: str):
        self.site, self.hub = site.bootstrap_servers, hub.bootstrap_servers
        self.topic = topic
        self.folder = folder
        create_topic(self.site, topic, partitions=PARTITIONS)
        self.there = config_of(hub, folder / "state", {"eu": (site, topic)})
        self.file = folder / "there.yaml"
        self.file.write_text(to_yaml(self.there))

    def write(self, servers: str, tag: str) -> None:
        produce(servers, self.topic, records(tag), client=CLIENT)

    def held(self, servers: str) -> list[Record]:
        return read_topic(servers, self.topic)

    def copy(self, config: Config) -> int:
        """Copy what there is; how many records were left out as loops."""
        result = catch_up(config)
        assert (result.exit_code, result.problems) == (0, ())
        return sum(it.looped for it in result.status.sources)

    def fail_over(self) -> Any:
        return called(["failover", "eu", "-c", str(self.file)])

    def fail_back(self) -> tuple[Config, Any]:
        back = self.folder / "back.yaml"
        words = ["failback", "eu", "-c", str(self.file), "--write", str(back), "--no-wait"]
        made = called(words)
        config = load(back)
        assert not config.topics.has_batches
        stream = config.stream.model_copy(update={"path": "objects", "checkpoint_interval": 2.0})
        return config.model_copy(update={"stream": stream}), made

    def verified(self, config: Config, name: str) -> None:
        file = self.folder / name
        file.write_text(to_yaml(config))
        called(["verify", "--allow-foreign", "-c", str(file), *AS_OPTIONS])


@pytest.mark.timeout(900)
def test_only_what_was_written_at_the_hub_goes_back_and_nothing_of_it_comes_again(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    world = World(source_a, hub, tmp_path, unique)
    for tag in ("own-1", "own-2"):
        world.write(world.site, tag)
        world.copy(world.there)
    places = {0: 300, 1: 1_234, 2: 2_500}
    commit_at(world.site, unique, unique, places)
    over = world.fail_over()
    assert [it["state"] for it in over["steps"]] == ["done"] * 4
    assert committed_at(world.hub, unique, unique) == places
    # Between records of the hub's own there are some that came when the source was there again.
    world.write(world.hub, "native-1")
    world.write(world.site, "own-3")
    back, made = world.fail_back()
    # The notes are about the hub's own: none lie before the start, but batches of the source do.
    assert not [it for it in made["notes"] if "written at the hub itself" in it], made["notes"]
    assert [it["state"] for it in made["steps"]] == ["done", "left out", "done", "done"]
    world.copy(world.there)
    world.write(world.hub, "native-2")
    at_hub, at_site = world.held(world.hub), world.held(world.site)
    natives = tagged(at_hub, "native-1", "native-2")
    assert len(natives) == 2 * COUNT
    copied = tagged(at_hub, "own-1", "own-2", "own-3")
    assert len(copied) == len(at_site) == 3 * COUNT
    assert whole_part(copied) > 0.5
    # More that the forward direction copies without unpacking, before and behind what comes back.
    world.write(world.site, "own-4")
    with application(back, tmp_path / "app", failpoint=FAILPOINT) as running:
        running.until(lambda: not running.alive, "it dies")
        assert running.exit_code == KILLED, running.text
        assert running.wait_gone()
    world.copy(back)
    world.write(world.site, "own-5")
    found = world.held(world.site)
    returned = tagged(found, "native-1", "native-2")
    assert all(has_origin(it) for it in returned)
    assert seen(returned) == seen(natives)
    assert seen(tagged(found, "own-1", "own-2", "own-3")) == seen(at_site)
    assert len(found) == 7 * COUNT
    # Forward again: what came back is not copied, and the rest still goes as it is.
    assert world.copy(world.there) == 2 * COUNT
    now = world.held(world.hub)
    assert seen(tagged(now, "native-1", "native-2")) == seen(natives)
    assert len(now) == 7 * COUNT
    assert seen(tagged(now, "own-4", "own-5")) == seen(tagged(found, "own-4", "own-5"))
    assert whole_part(tagged(now, "own-4")) > 0.3
    # And back again, by the other path: all that came meanwhile has an origin.
    back = back.model_copy(update={"stream": back.stream.model_copy(update={"path": "bytes"})})
    assert world.copy(back) == 2 * COUNT
    assert len(world.held(world.site)) == 7 * COUNT
    world.verified(world.there, "there-again.yaml")
    world.verified(back, "back-again.yaml")
