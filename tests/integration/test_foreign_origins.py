"""An origin names an alias, not a log: what is of another log is never taken for copied."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.engine.application import RunResult, run
from aggregator.extras.embedded.broker import Broker
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, delete_topic, produce
from aggregator.model.errors import EXIT_DATA, EXIT_DONE
from aggregator.model.events import Event
from support.application import application
from support.clusters import ClusterFactory
from support.reading import read_topic, wait_until_topic_has
from support.running import make_config, source
from support.verdict import assert_copied, judge

RECORDS = 100


def write(cluster: EmbeddedCluster, topic: str, tag: str, count: int = RECORDS) -> None:
    create_topic(cluster.bootstrap_servers, topic, partitions=2)
    records = [NewRecord(b"%s-%d" % (tag.encode(), at), b"key-%d" % at) for at in range(count)]
    produce(cluster.bootstrap_servers, topic, records)


def catch_up(config: Config, events: list[Event] | None = None) -> RunResult:
    return run(config, until_caught_up=True, on_event=None if events is None else events.append)


def values(cluster: EmbeddedCluster, topic: str) -> list[bytes]:
    """The values of a topic, sorted."""
    return sorted(record.value or b"" for record in read_topic(cluster.bootstrap_servers, topic))


def accept(config: Config, folder: Path) -> list[dict[str, str]]:
    """Accept every open gap; returns them."""
    file = folder / "gaps.yaml"
    file.write_text(to_yaml(config), "utf-8")
    words = ["gaps", "accept", "-c", str(file), "--source", "eu", "-o", "json"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: list[dict[str, str]] = json.loads(done.stdout)["accepted"]
    return found


def test_a_second_aggregation_with_the_same_alias_takes_nothing_for_its_own(
    source_a: EmbeddedCluster,
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    tmp_path: Path,
    unique: str,
) -> None:
    own = f"{unique}-own"
    first = make_config(hub, tmp_path / "one", {"eu": source(source_a, unique)})
    second = make_config(hub, tmp_path / "two", {"eu": source(source_b, f"{unique},{own}")})
    write(source_a, unique, "a")
    write(source_b, unique, "b")
    write(source_b, own, "b")
    assert catch_up(first).exit_code == EXIT_DONE
    events: list[Event] = []
    done = catch_up(second, events)
    assert done.exit_code == EXIT_DATA
    assert values(hub, unique) == values(source_a, unique)
    # The other topic is not held up.
    assert values(hub, own) == values(source_b, own)
    messages = [event.message for event in events if event.kind == "gap"]
    assert len(messages) == 2
    for words in (f"hub topic {unique}", "the alias eu", "at the source", "gaps accept"):
        assert all(words in it for it in messages)
    accepted = accept(second, tmp_path)
    assert {it["cause"] for it in accepted} == {"FOREIGN_ORIGIN"}
    assert len(accepted) == 2
    both = sorted([*values(source_a, unique), *values(source_b, unique)])
    for config in (second, first):
        assert catch_up(config).exit_code == EXIT_DONE
        assert values(hub, unique) == both


def test_what_the_hub_holds_of_an_earlier_life_of_a_topic_does_not_swallow_the_new_one(
    source_a: EmbeddedCluster, hub: EmbeddedCluster, tmp_path: Path, unique: str
) -> None:
    """The checkpoint is lost together with the topic, as where a test environment is reset."""
    lengths = {"same": RECORDS, "longer": RECORDS + 50, "shorter": 30, "empty": 0}
    sources = {"eu": source(source_a, f"{unique}-.*")}
    config = make_config(hub, tmp_path / "state", sources)
    for name in lengths:
        write(source_a, f"{unique}-{name}", "old")
    assert catch_up(config).exit_code == EXIT_DONE
    shutil.rmtree(tmp_path / "state")
    old = {name: values(hub, f"{unique}-{name}") for name in lengths}
    for name in lengths.keys() - {"same"}:
        delete_topic(source_a.bootstrap_servers, f"{unique}-{name}")
        write(source_a, f"{unique}-{name}", "new", lengths[name])
    events: list[Event] = []
    assert catch_up(config, events).exit_code == EXIT_DATA
    held = {event.fields["partition"] for event in events if event.kind == "gap"}
    # Of the empty one nothing is left to copy, so nothing has to be believed: it is read on.
    changed = ("longer", "shorter")
    assert held == {f"eu/{unique}-{name}-{part}" for name in changed for part in range(2)}
    assert {name: values(hub, f"{unique}-{name}") for name in lengths} == old

    sources["eu"]["on_gap"] = "restart"
    restarting = make_config(hub, tmp_path / "state", sources)
    produce(source_a.bootstrap_servers, f"{unique}-empty", [NewRecord(b"new", b"k")])
    assert catch_up(restarting).exit_code == EXIT_DONE
    for name in lengths:
        topic = f"{unique}-{name}"
        new = [] if name == "same" else values(source_a, topic)
        assert values(hub, topic) == sorted([*old[name], *new]), name
    records = read_topic(source_a.bootstrap_servers, f"{unique}-longer")
    copied = [
        record
        for record in read_topic(hub.bootstrap_servers, f"{unique}-longer")
        if (record.value or b"").startswith(b"new")
    ]
    assert not judge({"eu": records}, copied).problems


class Frozen(list[Event]):
    """Events of a run; its source is frozen from the reading of the hub's tail on, until that has
    failed once.
    """

    def __init__(self, broker: Broker) -> None:
        super().__init__()
        self._broker = broker

    def append(self, event: Event) -> None:
        """Take an event, in the thread in which it happens."""
        if event.kind == "recovering" and event.kind not in self.kinds():
            self._broker.pause()
        if event.kind == "recovery_failed":
            self._broker.resume()
        super().append(event)

    def kinds(self) -> list[str]:
        """The kinds of the events so far."""
        return [event.kind for event in self]


def test_a_source_that_is_silent_when_it_is_asked_what_is_its_own_is_asked_again(
    source_b: EmbeddedCluster,
    hub: EmbeddedCluster,
    cluster_factory: ClusterFactory,
    tmp_path: Path,
    unique: str,
) -> None:
    mute, other = cluster_factory("mute"), f"{unique}-other"
    config = make_config(
        hub,
        tmp_path / "state",
        {"eu": source(mute, unique), "us": source(source_b, other)},
        stream={"checkpoint_interval": "1h"},
        supervision={"connect_timeout": "5s"},
        api={"listen": "off"},
    )
    write(mute, unique, "a")
    write(source_b, other, "b")
    with application(config, tmp_path) as running:
        for topic in (unique, other):
            wait_until_topic_has(hub.bootstrap_servers, topic, RECORDS)
        running.kill()
        running.wait_gone()
    (broker,) = mute.brokers
    events = Frozen(broker)
    done = catch_up(config, events)
    assert done.exit_code == EXIT_DONE, done.problems
    (failed,) = [it.message for it in events if it.kind == "recovery_failed"]
    assert failed.startswith("eu: 2 partitions: the hub holds records of it, and the source does")
    for cluster, alias, topic in ((mute, "eu", unique), (source_b, "us", other)):
        servers = (cluster.bootstrap_servers, topic)
        assert_copied({alias: servers}, (hub.bootstrap_servers, topic), RECORDS)
