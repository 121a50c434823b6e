"""Whole clusters move: the pages of docs/ are walked command by command, under load."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggregator.embedded.cluster import EmbeddedCluster
from aggregator.embedded.ports import free_ports
from aggregator.embedded.topics import create_topic
from aggregator.stream.java import DRIVER
from support.application import QUICK_START, events_in
from support.reading import wait_for
from support.traffic import MovingConsumer, MovingProducer, wait_a_moment_of
from support.walks import Walk

CONF = Path(__file__).parents[2] / "conf"
PER_SECOND = 300


def write_config(folder: Path, name: str, tree: dict[str, Any]) -> str:
    """Write a config with what makes it quick, and a port of its own; returns the file's name."""
    file = folder / name
    tree["api"] = {"listen": f"127.0.0.1:{free_ports(1)[0]}"}
    tree["checkpoint"] = {"path": str(folder / file.stem)}
    tree["spark"] = {"conf": {DRIVER: QUICK_START}}
    tree["stream"] = {"checkpoint_interval": "1s"}
    tree["topics"] = {**tree.get("topics", {}), "refresh_interval": "2s", "replication_factor": 1}
    file.write_text(yaml.safe_dump(tree, sort_keys=False), "utf-8")
    return str(file)


def until_running(log: Path) -> None:
    """Wait until the application that writes this log copies."""
    wait_for(lambda: any(it["event"] == "running" for it in events_in(log)), "it runs")


def lag_of(said: str) -> int:
    """The whole lag that `aggregator lag -o json` says; what is unknown is much."""
    lags = [row["lag"] for row in json.loads(said)["rows"]]
    assert lags
    return sum(10**9 if lag is None else lag for lag in lags)


@pytest.mark.timeout(300)
def test_a_migration_under_load_misses_nothing_and_reads_again_what_was_told(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path
) -> None:
    """conf/migration.yaml and docs/migrate.md, with consumers and producers that move."""
    suffix = uuid.uuid4().hex[:8]
    orders, clicks = f"orders.{suffix}", f"clicks.{suffix}"
    billing, board = f"billing-{suffix}", f"board-{suffix}"
    old, new = source_a.bootstrap_servers, hub.bootstrap_servers
    create_topic(old, orders, partitions=6)
    create_topic(old, clicks, partitions=4)
    text = (CONF / "migration.yaml").read_text("utf-8").replace("${OLD_PASSWORD}", "x")
    tree = yaml.safe_load(text)
    tree["hub"]["bootstrap_servers"] = new
    source = tree["sources"]["old"]
    del source["kafka"]
    source |= {"bootstrap_servers": old}
    source["topics"]["include"] = f"(orders|clicks)[.]{suffix}"
    # Fewer partitions than before: here something has to be read again.
    tree["topics"]["overrides"] = {clicks: {"partitions": 2, "partition_by": "key"}}
    names = {
        "migration.yaml": write_config(tmp_path, "migration.yaml", tree),
        "billing": billing,
        "orders": orders,
    }
    producers = {it: MovingProducer(it, PER_SECOND) for it in (orders, clicks)}
    readers = {orders: MovingConsumer(billing, orders), clicks: MovingConsumer(board, clicks)}
    with ExitStack() as ends, Walk("migrate.md", names) as walk:
        for topic in (orders, clicks):
            for moving in (producers[topic], readers[topic]):
                moving.start(old)
                ends.callback(moving.stop)
        walk.run("check")
        walk.run("plan")
        running = walk.start("run", tmp_path / "run.log")
        ends.callback(running.terminate, 60)
        until_running(tmp_path / "run.log")
        wait_a_moment_of(producers[orders], 300)
        walk.run("lag")
        assert billing in walk.run("groups list")
        # The consumers, one group after the other, while all goes on to be written.
        readers[orders].stop()
        walk.run("groups cutover billing")
        report = json.loads(walk.run("groups cutover billing", "-o", "json"))
        assert (report["done"], report["again"]) == (True, 0)
        readers[orders].start(new)
        wait_a_moment_of(producers[clicks], 300)
        readers[clicks].stop()
        more = json.loads(
            walk.also("groups", "cutover", board, "-c", "migration.yaml", "-o", "json")
        )
        assert more["done"]
        readers[clicks].start(new)
        # The producers, one after the other.
        for topic in (orders, clicks):
            producers[topic].stop()
            before = producers[topic].written
            if topic == orders:
                walk.until("lag --source old --topic orders", lambda said: lag_of(said) == 0)
            else:
                ask = ("lag", "-c", "migration.yaml", "--topic", clicks, "-o", "json")
                wait_for(lambda: lag_of(walk.also(*ask)) == 0, "it is copied")  # noqa: B023
            producers[topic].start(new)
            wait_for(lambda: producers[topic].written > before + 300, "it writes there")  # noqa: B023
        walk.run("pause old")
        for topic in (orders, clicks):
            producers[topic].stop()
            readers[topic].until(producers[topic].written)
            readers[topic].stop()
        verified = json.loads(walk.run("verify", "-o", "json", fresh=True))
        assert verified["exit_code"] == 0
        assert lag_of(walk.run("lag", "-o", "json")) == 0
    assert running.exit_code == 0
    for topic, announced in ((orders, 0), (clicks, more["again"])):
        assert set(readers[topic].numbers()) == set(range(producers[topic].written))
        assert readers[topic].doubles() == announced
    assert announced > 0
    assert readers[orders].order_kept()
