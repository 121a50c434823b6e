"""Killed, and started with another `topics.rename`: what the hub holds comes no second time."""

from __future__ import annotations

from pathlib import Path

from aggregator.config.schema import Config
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, produce
from support.application import application
from support.reading import read_topic, wait_until_topic_has
from support.running import catch_up, make_config, source

RECORDS, LATER = 2_000, 100


def test_what_came_by_the_old_name_does_not_come_by_the_new_one(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    create_topic(source_a.bootstrap_servers, unique, partitions=2)
    produce(source_a.bootstrap_servers, unique, [NewRecord(b"%d" % at) for at in range(RECORDS)])

    def renamed(name: str) -> Config:
        return make_config(
            hub,
            tmp_path / "state",
            {"eu": source(source_a, unique)},
            topics={"rename": name},
            stream={"checkpoint_interval": "60s"},
            api={"listen": "off"},
        )

    old, new = f"{unique}.old", f"{unique}.new"
    with application(renamed("${topic}.old"), tmp_path) as running:
        wait_until_topic_has(hub.bootstrap_servers, old, RECORDS)
        running.kill()
        assert running.wait_gone(), running.members()
    more = [NewRecord(b"%d" % at) for at in range(RECORDS, RECORDS + LATER)]
    produce(source_a.bootstrap_servers, unique, more)
    result = catch_up(renamed("${topic}.new"))
    assert (result.exit_code, result.problems) == (0, ())
    found = {name: read_topic(hub.bootstrap_servers, name) for name in (old, new)}
    assert {name: len(records) for name, records in found.items()} == {old: RECORDS, new: LATER}
    values = {record.value for records in found.values() for record in records}
    assert values == {b"%d" % at for at in range(RECORDS + LATER)}
