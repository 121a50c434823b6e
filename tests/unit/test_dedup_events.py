"""One event once: the config, the table, and its keeper with a connector that is played."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from aggregator.cli.render import to_text
from aggregator.cli.status import report_of_status
from aggregator.config.load import load_text
from aggregator.config.schema import Config
from aggregator.features.dedup import event_keeper
from aggregator.features.dedup.duplicates import dropped_of
from aggregator.features.dedup.event_keeper import DedupKeeper
from aggregator.features.dedup.event_table import (
    ROW_BYTES,
    SCHEMA,
    TABLE,
    DedupTable,
    KnownEvents,
    Rule,
    TopicLife,
    to_rows,
)
from aggregator.features.quarantine.ledger import LedgerEntry
from aggregator.features.quarantine.records import Origin, Quarantined
from aggregator.model.errors import CheckpointError, ConfigError
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import FOREVER
from aggregator.model.values import ClusterFacts, Discovery, SourcePartition, TopicFacts
from aggregator.plan.actions import CreateTopic
from aggregator.plan.plan import Plan, make_plan
from aggregator.status.copied import DedupStatus
from aggregator.store.state_store import StateStore
from support.statuses import status_with

RULE = Rule("orders", "header:event-id")
LIFE = TopicLife(3, "an-id")
NOW_MS = 1_800_000_000_000
WINDOW_MS = 60_000


def config_of(folder: Path | None = None, **parts: Any) -> Config:
    tree = {
        "hub": {"bootstrap_servers": "hub:1"},
        "sources": {"eu": {"bootstrap_servers": "eu:1", "topics": {"include": "orders"}}},
        "checkpoint": {"path": str(folder or "./state")},
        **parts,
    }
    return load_text(json.dumps(tree))


def rows(*events: tuple[int, int, int]) -> bytes:
    """Events (upper half, lower half, second) as the connector hands them over."""
    count = len(events)
    parts = zip(*events, strict=True) if events else ((), (), ())
    high, low, since = (list(it) for it in parts)
    return struct.pack(f"<{count}q{count}q{count}i", *high, *low, *since)


@pytest.mark.parametrize(
    "by", ["key", "header:event-id", "header:a:b", "value:$.id", "value:$.a.b"]
)
def test_what_names_an_event(by: str) -> None:
    found = config_of(topics={"dedup": {"by": by, "window": "2h"}}).topics.rules_for("orders")
    assert (found.dedup.by, found.dedup.window, found.dedup.is_on) == (by, 7_200, True)


@pytest.mark.parametrize(
    ("by", "hint"),
    [
        ("heder:id", "did you mean header:id?"),
        ("keys", "did you mean key?"),
        ("header:", "write header:NAME"),
        ("header:an id", "no spaces"),
        ("value:$.a[0]", "lists and wildcards are not followed"),
        ("value:id", "write value:$.NAME"),
        ("offset", "write key, header:NAME or value:$.NAME"),
    ],
)
def test_what_names_none_is_refused_with_what_was_meant(by: str, hint: str) -> None:
    with pytest.raises(ConfigError, match="names no event") as refused:
        config_of(topics={"overrides": {"orders": {"dedup": {"by": by}}}})
    assert hint in str(refused.value)


@pytest.mark.parametrize("off", [False, "off", "false", {}])
def test_off_by_default_and_an_override_switches_it_off_again(off: object) -> None:
    assert not config_of().topics.has_dedup
    own = config_of(topics={"dedup": {"by": "key"}, "overrides": {"orders": {"dedup": off}}})
    assert not own.topics.rules_for("orders").dedup.is_on
    assert own.topics.rules_for("others").dedup.is_on
    assert own.topics.has_dedup


def plan_of(config: Config, **facts: Any) -> Plan:
    """The plan for a source that has `orders`; `facts` are what the hub says of its own."""
    orders = TopicFacts("orders", "id", 1, 1)
    hub = {"orders": replace(orders, **facts)} if facts else {}
    found = Discovery({"eu": ClusterFacts("eu", "eu-id", 1, {"orders": orders})})
    return make_plan(config, found, ClusterFacts("hub", "hub-id", 1, hub))


def test_the_plan_makes_the_topic_of_the_duplicates_only_where_it_is_asked_for() -> None:
    assert "central.duplicates" not in plan_of(config_of()).hub_topics
    plan = plan_of(config_of(topics={"dedup": {"by": "key", "window": "1m"}}))
    assert plan.refusals == ()
    (route,) = plan.routes
    assert route.dedup is not None
    assert (route.dedup.by, route.dedup.window_ms) == ("key", 60_000)
    assert route.dedup.duplicate_bytes > 1_000_000
    assert route.hub_topics == {"orders", "central.quarantine", "central.duplicates"}
    (made,) = [it for it in plan.actions if isinstance(it, CreateTopic) and "dup" in it.name]
    assert made.configs["message.timestamp.type"] == "LogAppendTime"
    assert made.configs["retention.ms"] == str(7 * 86_400_000)
    assert plan.to_dict()["routes"][0]["dedup"] == {"by": "key", "window_seconds": 60}


def test_a_compacted_hub_topic_is_left_out() -> None:
    config = config_of(topics={"dedup": {"by": "header:id"}})
    (refused,) = plan_of(config, cleanup_policy="compact").refused
    assert "topics.overrides.orders.dedup: off" in refused.reason


def test_an_unknown_key_of_it_says_which_was_meant() -> None:
    with pytest.raises(ConfigError, match="did you mean window"):
        config_of(topics={"dedup": {"by": "key", "windows": "1h"}})


@pytest.mark.parametrize("master", ["spark://a:7077", "local-cluster[2,1,1024]", "yarn"])
def test_on_executors_it_is_refused(master: str) -> None:
    topics = {"overrides": {"orders": {"dedup": {"by": "key"}}}}
    with pytest.raises(ConfigError, match=r"topics\.overrides\.orders\.dedup.*executors"):
        config_of(topics=topics, spark={"master": master})
    assert config_of(topics=topics, spark={"master": "local[4]"}).topics.has_dedup


def test_the_two_topics_for_what_is_set_aside_are_two() -> None:
    with pytest.raises(ConfigError, match=r"topics\.duplicates"):
        config_of(topics={"dedup": {"by": "key"}, "quarantine": "a", "duplicates": "a"})


def test_events_are_in_the_table_as_they_were_handed_over(tmp_path: Path) -> None:
    table, second = DedupTable(StateStore(str(tmp_path))), NOW_MS // 1000
    since = datetime.fromtimestamp(second, UTC)
    assert table.mark(RULE, since) is None
    given = [(-(2**63), 2**63 - 1, second), (1, 2, second + 5), (3, 4, second - 1)]
    table.append(RULE, LIFE, rows(*given), None, NOW_MS)
    assert table.mark(RULE, since) is None
    table.append(RULE, LIFE, b"", [7, 8], NOW_MS)
    table.append(RULE, LIFE, rows((5, 6, second)), [9, 8], NOW_MS + 1)
    table.append(RULE, TopicLife(4), rows((6, 6, second)), None, NOW_MS + 2)
    table.append(Rule("orders", "key"), LIFE, rows((7, 7, second)), [1], NOW_MS + 2)
    table.append(Rule("others", RULE.by), LIFE, rows((8, 8, second)), [1], NOW_MS + 2)
    assert table.mark(RULE, since) == KnownEvents(LIFE, (9, 8))
    assert table.mark(RULE, since + timedelta(hours=1)) is None
    found = b"".join(table.events(RULE, LIFE, since))
    assert len(found) == 3 * ROW_BYTES
    assert _read(table, LIFE, since) == {given[0], given[1], (5, 6, second)}
    assert table.maintain(since + timedelta(seconds=1)) > 0
    assert _read(table, LIFE, since) == {given[1]}


def test_the_newest_life_counts_whatever_the_clocks_said(tmp_path: Path) -> None:
    table, since = DedupTable(StateStore(str(tmp_path))), datetime.fromtimestamp(0, UTC)
    table.append(RULE, LIFE, b"", [7], NOW_MS + 60_000)
    later = TopicLife(LIFE.number + 1, LIFE.topic_id)
    table.append(RULE, later, b"", (), NOW_MS)
    assert table.mark(RULE, since) == KnownEvents(later)


def test_a_table_of_an_earlier_version_holds_the_first_life_and_gets_the_columns(
    tmp_path: Path,
) -> None:
    second = NOW_MS // 1000
    since = datetime.fromtimestamp(second, UTC)
    older = to_rows(RULE, TopicLife(), rows((1, 1, second)))
    mark = {"at": since, "hub_topic": RULE.hub_topic, "by": RULE.by, "ends": "[7]"}
    older = pa.concat_tables([older, pa.Table.from_pylist([mark], schema=SCHEMA)])
    StateStore(str(tmp_path)).table(TABLE).append(older.drop_columns(["life", "topic_id"]))
    table = DedupTable(StateStore(str(tmp_path)))
    assert table.mark(RULE, since) == KnownEvents(TopicLife(), (7,))
    assert _read(table, TopicLife(), since) == {(1, 1, second)}
    first = TopicLife(0, "an-id")
    table.append(RULE, first, rows((2, 2, second)), [8], NOW_MS + 1)
    assert table.mark(RULE, since) == KnownEvents(first, (8,))
    assert _read(table, first, since) == {(1, 1, second), (2, 2, second)}
    assert _read(table, LIFE, since) == set()


def _read(table: DedupTable, life: TopicLife, since: datetime) -> set[tuple[int, ...]]:
    return {event for part in table.events(RULE, life, since) for event in _events(part)}


def _events(part: bytes) -> list[tuple[int, ...]]:
    count = len(part) // ROW_BYTES
    values = struct.unpack(f"<{count}q{count}q{count}i", part)
    return list(zip(values[:count], values[count : 2 * count], values[2 * count :], strict=True))


class Played:
    """A connector that has one hub topic; what it was called for is in `calls`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.status = {"ready": False, "blocked": False, "uncertain": 0, "events": 0, "bytes": 0}
        self.answer: dict[str, Any] = {"read": 4, "released": 1, "remade": False, "ends": [10]}
        self.events: list[bytes] = []
        self.ends = [10]
        self.ids = ["an-id"]

    def topic_id(self, topic: str) -> str:
        """As the hub says it: the next of the ids, and the last one for ever."""
        return self.ids.pop(0) if len(self.ids) > 1 else self.ids[0]

    def forget(self, topic: str, by: str) -> None:
        self.status["ready"] = False

    def stand(self) -> list[dict[str, Any]]:
        return [{"topic": RULE.hub_topic, "by": RULE.by, "window_ms": WINDOW_MS, **self.status}]

    def read(
        self,
        topic: str,
        by: str,
        consumer: Mapping[str, str],
        ends: Sequence[int],
        timeout: float,
    ) -> Any:
        self.calls.append(("read", list(ends)))
        return self.answer

    def load(self, topic: str, by: str, events: bytes) -> None:
        self.calls.append(("load", len(events) // ROW_BYTES))

    def begin(self, topic: str, by: str, ends: Sequence[int]) -> None:
        self.calls.append(("begin", list(ends)))
        self.status["ready"] = True

    def covered(self, topic: str, by: str) -> list[int]:
        return self.ends

    def fresh(self, topic: str, by: str) -> bytes:
        return self.events[0] if self.events else b""

    def more(self, topic: str, by: str) -> bool:
        return len(self.events) > 1

    def kept(self, topic: str, by: str) -> None:
        del self.events[:1]

    def cancel(self) -> None:
        self.calls.append(("cancel",))


def keeper_of(in_force: Any, played: Played, emit: EventSink) -> DedupKeeper:
    connector: Any = played
    return DedupKeeper(in_force, connector, played.topic_id, emit)


class World:
    def __init__(self, folder: Path) -> None:
        config = config_of(folder, topics={"dedup": {"by": RULE.by, "window": "1m"}})
        self.folder = folder
        in_force: Any = SimpleNamespace(config=config)
        self.connector, self.emitted = Played(), list[Event]()
        self.keeper = keeper_of(in_force, self.connector, self.emitted.append)
        self.table = DedupTable(StateStore(str(folder)))

    def turn(self, *, last: bool = False) -> list[tuple[Any, ...]]:
        """What the connector was called for in one turn."""
        self.connector.calls.clear()
        self.keeper._turn(last=last)
        return self.connector.calls

    def start(self, topic_id: str, **answer: Any) -> tuple[list[int], int]:
        """Another start: from which ends it reads the hub, and how many events it loads."""
        self.connector.ids = [topic_id]
        self.connector.status["ready"] = False
        self.connector.answer |= {"remade": False, **answer}
        self.keeper = keeper_of(self.keeper._in_force, self.connector, self.emitted.append)
        (_, ends), *loads, _ = self.turn()
        return ends, sum(count for _, count in loads)

    def hold(self, count: int, end: int) -> None:
        """Some events more arrive, which are written with a mark."""
        self.connector.events = [rows(*((it, it, now_second()) for it in range(count)))]
        self.connector.ends = [end]
        self.turn(last=True)


def now_second() -> int:
    return int(datetime.now(UTC).timestamp())


def test_without_dedup_its_thread_rests_until_the_config_has_some(tmp_path: Path) -> None:
    off, on = config_of(tmp_path), World(tmp_path).keeper._in_force.config
    in_force: Any = SimpleNamespace(config=off)
    played, woken = Played(), list[bool]()
    keeper = keeper_of(in_force, played, lambda _: None)
    keeper._loop.wake = lambda: woken.append(True)  # type: ignore[method-assign]
    keeper._turn(last=False)
    assert keeper._loop._every() == FOREVER
    keeper.follow(SimpleNamespace(config=off))  # type: ignore[arg-type]
    assert not woken
    in_force.config = on
    keeper.follow(SimpleNamespace(config=on))  # type: ignore[arg-type]
    assert woken
    keeper._turn(last=False)
    assert keeper._loop._every() < 1


def test_without_a_table_the_hub_is_read_for_the_window_and_then_records_flow(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    assert world.turn() == [("read", []), ("begin", [10])]
    assert [it.kind for it in world.emitted] == ["dedup_ready"]
    assert world.turn() == []
    assert [it.ready for it in world.keeper.known] == [True]


def test_a_restart_takes_the_table_and_reads_the_hub_from_where_that_ends(tmp_path: Path) -> None:
    before = World(tmp_path)
    before.turn()
    before.connector.events = [
        rows((1, 1, now_second()), (2, 2, now_second())),
        rows((3, 3, now_second())),
    ]
    before.connector.ends = [17]
    before.turn(last=True)
    after = World(tmp_path)
    first, *loads, last = after.turn()
    assert (first, last) == (("read", [17]), ("begin", [10]))
    assert sum(count for _, count in loads) == 3


def test_a_mark_is_behind_the_last_of_the_events_that_it_covers(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.turn()
    world.turn()
    since = datetime.now(UTC) - timedelta(minutes=1)
    assert world.table.mark(RULE, since) == KnownEvents(world.keeper._lives[RULE], (10,))
    world.connector.events = [rows((1, 1, now_second())), rows((2, 2, now_second()))]
    world.connector.ends = [12]
    world.turn(last=True)
    found = world.table.mark(RULE, since)
    assert found is not None
    assert (found.ends, found.life.topic_id) == ((12,), "an-id")
    assert len(_read(world.table, found.life, since)) == 2


def test_of_a_hub_topic_that_was_created_again_no_start_takes_what_the_earlier_one_held(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    assert world.start("one") == ([], 0)
    world.hold(5, 99)
    # The new one is longer than the old one was, or shorter, and its copy is stopped twice.
    assert world.start("two", ends=[120]) == ([], 0)
    # This start ended before it could write a mark.
    assert world.start("two") == ([], 0)
    world.hold(2, 130)
    assert world.start("two") == ([130], 2)
    world.hold(1, 131)
    assert world.start("two") == ([131], 3)
    # Back at the first one, which has its events still: the hub is read for them.
    assert world.start("one") == ([], 0)


def test_of_a_hub_topic_that_has_lost_records_no_start_takes_what_it_held_before(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.start("one")
    world.hold(5, 99)
    assert world.start("one", remade=True) == ([99], 0)
    # Although it ended at once, and the topic has grown since.
    assert world.start("one") == ([], 0)
    world.hold(2, 200)
    assert world.start("one") == ([200], 2)


def test_a_hub_that_reports_no_ids_is_believed_by_its_ends(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.start("")
    world.hold(5, 99)
    assert world.start("") == ([99], 5)
    assert world.start("one") == ([99], 5)
    world.hold(1, 100)
    assert world.start("two") == ([], 0)


def test_a_hub_topic_that_is_created_again_meanwhile_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_keeper, "WRITE_SECONDS", 0.0)
    world = World(tmp_path)
    # While it is read, and then while it runs.
    world.connector.ids = ["one", "two"]
    assert world.turn() == [("read", [])]
    assert "created again while it was read" in world.emitted[-1].message
    assert world.turn() == [("read", []), ("begin", [10])]
    world.connector.events = [rows((1, 1, now_second()))]
    assert world.turn() == []
    world.connector.ids = ["three"]
    assert world.turn() == []
    assert world.emitted[-1].kind == "dedup_forgotten"
    assert world.turn() == [("read", []), ("begin", [10])]


def test_while_others_write_there_without_it_nothing_is_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.connector.status["blocked"] = True
    assert world.turn() == []
    world.connector.status["blocked"] = False
    assert world.turn()[-1] == ("begin", [10])


def test_records_of_tasks_that_are_gone_are_looked_for_in_the_hub(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.turn()
    world.connector.status["uncertain"] = 2
    assert world.turn() == [("read", [])]
    assert "1 are not there" in world.emitted[-1].message


def test_a_table_that_cannot_be_written_is_reported_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)

    def fail(*_: object) -> None:
        raise CheckpointError("full")

    with monkeypatch.context() as patch:
        patch.setattr(DedupTable, "append", fail)
        world.connector.events = [rows((1, 1, now_second()))]
        world.turn()
        world.turn()
        assert [it.kind for it in world.emitted] == ["dedup_ready", "dedup_failed"]
        assert len(world.connector.events) == 1
    world.turn()
    assert world.connector.events == []


def test_a_dropped_record_shows_its_event_and_by_what_rule() -> None:
    origin = Origin(SourcePartition("eu", "orders", 3), 5)
    reason = "duplicate header:event-id an id with spaces"
    record = Quarantined(origin, 1, reason, "orders", 10, "whole", 0, 2)
    dropped = dropped_of(LedgerEntry(record))
    assert (dropped.by, dropped.event) == ("header:event-id", "an id with spaces")
    assert (dropped.origin, dropped.state) == ("eu/orders-3@5", "dropped")


@pytest.mark.parametrize(
    ("ready", "words"), [(True, "1,234 events are known, in 2.0 MiB"), (False, "being read")]
)
def test_the_status_says_what_is_known(*, ready: bool, words: str) -> None:
    found = DedupStatus(hub_topic="orders", by="key", ready=ready, events=1234, bytes=2**21)
    text = to_text(report_of_status(status_with(dedup=(found,))), tty=False)
    assert "One event once in orders, by key: " in text
    assert words in text
    assert "One event once" not in to_text(report_of_status(status_with()), tty=False)


def test_the_longest_window_is_what_is_kept() -> None:
    text = """
    hub: {bootstrap_servers: "hub:9092"}
    sources: {eu: {bootstrap_servers: "eu:9092", topics: {include: ".*"}}}
    topics:
      dedup: {by: key, window: 1h}
      overrides:
        orders: {dedup: {by: key, window: 2h}}
        bills: {dedup: off}
    """
    assert load_text(text).topics.dedup_window == 7200
