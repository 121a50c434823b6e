"""The same events in two sources, in other orders: each comes once, what is dropped is listed."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_END
from typer.testing import CliRunner

from aggregator.api.queries import QueryService
from aggregator.cli.main import app
from aggregator.config.render import to_yaml
from aggregator.config.schema import Config
from aggregator.engine.control.commands import Control
from aggregator.extras.embedded.cluster import EmbeddedCluster
from aggregator.extras.embedded.topics import NewRecord, create_topic, delete_topic, produce
from aggregator.features.quarantine.ledger import Filter
from aggregator.model.errors import EXIT_DATA, EXIT_DONE
from support.application import KILLED, application
from support.changing import alter_topic, delete_records
from support.reading import Record, read_topic, wait_until_topic_has
from support.running import catch_up, make_config, run_in_background, source
from support.small_plans import AS_OPTIONS

HOUR = timedelta(hours=1)
EVENTS = 30_000
COMMON = 0.3
BATCH = 100
PARTITIONS = {"eu": 3, "us": 2}


class Twins:
    """Two sources that have written some events both, and the hub that is to have each once."""

    def __init__(self, clusters: dict[str, EmbeddedCluster], topic: str) -> None:
        self.clusters = clusters
        self.topic = topic
        for alias, count in PARTITIONS.items():
            create_topic(self.servers(alias), topic, partitions=count)
        self.sent: list[tuple[str, str]] = []
        """Source and event of each record that was written."""

    def servers(self, alias: str) -> str:
        return self.clusters[alias].bootstrap_servers

    def config(
        self, folder: Path, by: str = "header:event-id", rate: int | None = None, **topics: Any
    ) -> Config:
        pace = {} if rate is None else {"max_records_per_second": rate}
        return make_config(
            self.clusters["hub"],
            folder / "state",
            {alias: source(self.clusters[alias], self.topic, **pace) for alias in PARTITIONS},
            topics={
                "overrides": {self.topic: {"dedup": {"by": by, "window": "1h"}}},
                "duplicates": f"{self.topic}.duplicates",
                "quarantine": f"{self.topic}.quarantine",
                **topics,
            },
            api={"listen": "off"},
        )

    def send(self, alias: str, *events: str) -> None:
        """Write a record of each event."""
        records = [
            NewRecord(
                f"{event} of {alias}".encode(),
                event.encode(),
                headers=[("event-id", event.encode())],
            )
            for event in events
        ]
        produce(self.servers(alias), self.topic, records)
        self.sent += [(alias, event) for event in events]

    def in_hub(self) -> list[Record]:
        return read_topic(self.servers("hub"), self.topic)

    def dropped(self) -> list[Record]:
        return read_topic(self.servers("hub"), f"{self.topic}.duplicates")

    def check(self) -> None:
        """Each event is in the hub once, and all else is among the dropped ones, once."""
        hub, dropped = self.in_hub(), self.dropped()
        events = Counter(event_of(it) for it in hub)
        assert set(events) == {event for _, event in self.sent}
        assert [it for it, count in events.items() if count > 1] == []
        written = Counter(self.sent)
        kept = Counter((it.origin.cluster, event_of(it)) for it in hub)
        assert Counter((it.origin.cluster, event_of(it)) for it in dropped) == written - kept
        origins = Counter(it.origin[:4] for it in (*hub, *dropped))
        assert [it for it, count in origins.items() if count > 1] == []
        assert len(hub) + len(dropped) == len(self.sent)


def event_of(record: Record) -> str:
    return (dict(record.headers)["event-id"] or b"").decode()


@contextmanager
def writing(twins: Twins, seed: int) -> Iterator[None]:
    """Write the events meanwhile, those that both have in another order in each."""
    chance = random.Random(seed)
    events = [f"event-{number:05}" for number in range(EVENTS)]
    both = set(chance.sample(events, int(EVENTS * COMMON)))
    own = {alias: list(both) for alias in PARTITIONS}
    for event in events:
        if event not in both:
            own[chance.choice(list(own))].append(event)
    for mine in own.values():
        chance.shuffle(mine)

    def write() -> None:
        while any(own.values()):
            for alias, mine in own.items():
                twins.send(alias, *mine[:BATCH])
                del mine[:BATCH]

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    yield
    thread.join()


@pytest.fixture
def twins(
    source_a: EmbeddedCluster, source_b: EmbeddedCluster, hub: EmbeddedCluster, unique: str
) -> Twins:
    return Twins({"eu": source_a, "us": source_b, "hub": hub}, unique)


@pytest.mark.timeout(900)
def test_killed_again_and_again_each_event_is_there_once_and_the_dropped_list_is_exact(
    twins: Twins, tmp_path: Path
) -> None:
    config, chance = twins.config(tmp_path), random.Random(7)
    with writing(twins, seed=11):
        copied = 0
        for place in ("", "after-events-kept:2", "before-events-known"):
            with application(config, tmp_path / "application", failpoint=place) as running:
                if place:
                    assert running.wait(120), running.text
                    assert running.exit_code == KILLED, running.text
                else:
                    more = copied + chance.randrange(1_000, 5_000)
                    copied = wait_until_topic_has(twins.servers("hub"), twins.topic, more)
    result = catch_up(config)
    assert result.problems == ()
    twins.check()
    assert len(twins.dropped()) == EVENTS * COMMON


def test_a_restart_knows_the_window_a_rewind_doubles_nothing_and_a_retry_brings_one(
    twins: Twins, tmp_path: Path
) -> None:
    config = twins.config(tmp_path)
    twins.send("eu", "a", "b", "c")
    twins.send("us", "b", "d")
    catch_up(config)
    twins.check()
    twins.send("us", "a", "d", "e")
    with run_in_background(config) as run:
        wait_until_topic_has(twins.servers("hub"), f"{twins.topic}.duplicates", 3)
        (ready,) = [it for it in run.events if it.kind == "dedup_ready"]
        # All of it comes from the table: the hub is not read where it has nothing new.
        assert (ready.fields["events"], ready.fields["read"]) == (4, 0)
        run.wait_for(
            lambda: sum(it.dropped for own in run.status.sources for it in own.copied) == 2,
            "what is dropped is counted",
        )
    twins.check()

    cli(config, tmp_path, "positions", "rewind", "--source", "eu", "--to", "earliest", "--yes")
    catch_up(config)
    twins.check()
    listed = cli(config, tmp_path, "dedup", "list")
    assert sorted(it["event"] for it in listed) == ["a", "b", "d"]
    assert {(it["by"], it["state"], it["kept"]) for it in listed} == {
        ("header:event-id", "dropped", "whole")
    }

    # The same through the API, and only of what came since.
    query_service, now = QueryService(Control(config)), datetime.now(UTC)
    answers = [
        query_service.dropped(Filter(), it, retried=False, limit=2) for it in (now - HOUR, now)
    ]
    assert [(it.count, len(it.records)) for it in answers] == [(3, 2), (0, 0)]
    tables = {it["table"]: it["done"] for it in cli(config, tmp_path, "maintain")["tables"]}
    assert tables["dedup"]

    # What was dropped is not missing.
    assert cli(config, tmp_path, "verify", *AS_OPTIONS)["totals"]["missing"] == 0

    origin = next(it["origin"] for it in listed if it["event"] == "d")
    (tried,) = cli(config, tmp_path, "dedup", "retry", "--origin", origin)
    assert tried["state"] == "retried"
    events = Counter(event_of(it) for it in twins.in_hub())
    assert events == {"a": 1, "b": 1, "c": 1, "d": 2, "e": 1}
    assert len(cli(config, tmp_path, "dedup", "list")) == 2
    catch_up(config)
    assert len(twins.in_hub()) == 6

    # Nor is it when the topic of the duplicates has deleted it, but then no one can judge that.
    delete_records(twins.servers("hub"), f"{twins.topic}.duplicates", {0: OFFSET_END})
    totals = cli(config, tmp_path, "verify", *AS_OPTIONS)["totals"]
    assert (totals["missing"], totals["expired"], totals["not_judged"]) == (0, 2, 2)


def test_a_record_that_never_arrived_holds_up_that_of_the_other_source_for_seconds_only(
    twins: Twins, tmp_path: Path
) -> None:
    hub = twins.servers("hub")
    create_topic(hub, twins.topic, partitions=3, config={"max.message.bytes": "2000"})
    config = twins.config(tmp_path, sync_configs=False)
    control = Control(config)
    with run_in_background(config, control) as run:
        # That it is too large shows when the hub refuses it, for it might have been compressed.
        twins.send("eu", "before")
        wait_until_topic_has(hub, twins.topic, 1)
        content = random.Random(1).randbytes(5_000)
        large = NewRecord(content, headers=[("event-id", b"both")])
        produce(twins.servers("eu"), twins.topic, [large])
        run.wait_for(lambda: "lane_failed" in run.kinds(), "the hub refuses the large one")
        control.pause("eu")
        # Not with the first: had the lane failed by this one, the event might not be claimed.
        produce(twins.servers("eu"), twins.topic, [NewRecord(content)])
        twins.send("us", "both", "after")
        wait_until_topic_has(hub, twins.topic, 3)
        # Its records are sent before the driver has the answer that it reports.
        run.wait_for(lambda: "dedup_settled" in run.kinds(), "it says what it was held up by")
        control.resume("eu")
        wait_until_topic_has(hub, f"{twins.topic}.quarantine", 2)
    twins.check()
    # Its event is in the hub by now: a retry brings it once more only where that is asked for. What
    # has no event's id is always written.
    alter_topic(hub, twins.topic, {"max.message.bytes": "20000"})
    both = cli(config, tmp_path, "quarantine", "retry", "--all", code=EXIT_DATA)
    assert {it["state"]: "--overwrite" in it["detail"] for it in both} == {
        "open": True,
        "retried": False,
    }
    (tried,) = cli(config, tmp_path, "quarantine", "retry", "--all", "--overwrite")
    assert tried["state"] == "retried"


def test_a_hub_topic_that_was_created_again_gets_all_of_it_however_often_the_copy_is_stopped(
    twins: Twins, tmp_path: Path
) -> None:
    config, hub = twins.config(tmp_path), twins.servers("hub")
    twins.send("eu", *(f"event-{number}" for number in range(400)))
    twins.send("us", "event-0")
    catch_up(config)
    twins.check()
    delete_topic(hub, twins.topic)
    create_topic(hub, twins.topic, partitions=3)
    for alias in PARTITIONS:
        cli(config, tmp_path, "positions", "rewind", "--source", alias, "--to", "earliest", "--yes")
    for least in (50, 150, 250):
        with run_in_background(twins.config(tmp_path, rate=100)):
            wait_until_topic_has(hub, twins.topic, least)
    catch_up(config)
    twins.check()


def cli(config: Config, folder: Path, *words: str, code: int = EXIT_DONE) -> Any:
    """What a command says, as JSON; it has to end with this code."""
    file = folder / "cli.yaml"
    file.write_text(to_yaml(config))
    done = CliRunner().invoke(app, [*words, "-c", str(file), "-o", "json"])
    assert done.exit_code == code, (done.stdout, done.stderr)
    return json.loads(done.stdout)
