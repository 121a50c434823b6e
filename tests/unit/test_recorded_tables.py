"""Every table beside the checkpoint is read as it was written by version 0.1.0."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from aggregator.features.backfill.backfill_table import BackfillTable
from aggregator.features.backfill.ranges import Backfill, BackfillPart, BackfillState
from aggregator.features.completeness.claim_table import CompletenessTable
from aggregator.features.connectors.connector_table import Change, ConnectorTable
from aggregator.features.dedup.event_table import DedupTable, KnownEvents, Rule, TopicLife
from aggregator.features.timeline.past_queries import events_log, history_log, within
from aggregator.features.timeline.timeline_report import EventRow, HistoryRow
from aggregator.features.verify.past_audits import PastAudits
from aggregator.model.values import LogId, Part, Pause, SourcePartition, TopicPartition
from aggregator.plan.completeness.claims import Claim, Laggard, Lost
from aggregator.plan.failover import Failover
from aggregator.plan.positions.gaps import Decision, GapRecord
from aggregator.plan.positions.start import Gap, GapKind
from aggregator.plan.snapshot import TopicsSeen
from aggregator.store.checkpoint.checkpoint_table import CheckpointTable
from aggregator.store.checkpoint.history import history, state_at
from aggregator.store.checkpoint.rows import to_millis
from aggregator.store.controls import Controls, Paused
from aggregator.store.failovers import Failovers
from aggregator.store.gaps import GapTable
from aggregator.store.moved_groups import MovedGroups
from aggregator.store.seen_topics import SeenTable
from aggregator.store.state_store import StateStore
from support.recorded import AT, recorded_state

AT_MS = to_millis(AT)
DAY_BEFORE, DAY_AFTER = AT - timedelta(days=1), AT + timedelta(days=1)
EU0, EU1 = SourcePartition("eu", "orders", 0), SourcePartition("eu", "orders", 1)
US0, PAYMENTS = SourcePartition("us", "orders", 0), SourcePartition("eu", "payments", 0)
HUB0, HUB1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def second(count: int) -> datetime:
    return AT + timedelta(seconds=count)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield str(recorded_state(tmp_path_factory.mktemp("recorded")))


def test_the_checkpoints(state: str) -> None:
    table = CheckpointTable.open(state)
    assert table is not None
    found = table.load()
    assert (found.seq, found.epoch, found.full_seq) == (4, 1, 1)
    assert found.positions == {EU0: 500, EU1: 12, US0: 2, PAYMENTS: 4}
    assert found.unclean == {US0, PAYMENTS}
    assert found.cluster_ids == {"eu": "eu-id", "us": "us-id", "hub": "hub-id"}
    ids = {sp: it.topic_id for sp, it in found.entries.items()}
    assert (ids[EU0], ids[US0]) == ("T1", "T2")
    assert found.hub_ids == {"orders": "T3"}
    assert {sp: it.log_end for sp, it in found.entries.items()} == dict.fromkeys(
        found.entries, 1000
    )
    assert found.entries[EU0].snapshot.hub_ends == {HUB0: 8, HUB1: 7}
    assert found.doubts["eu"].hub_ends == {HUB0: 14, HUB1: 7}
    assert state_at(state, seq=2).positions == {EU0: 100, EU1: 10, US0: 1}
    commits = [(it.seq, it.kind, it.lane, it.rows, it.clean) for it in history(state)]
    assert commits == [
        (4, "checkpoint", "union", 4, True),
        (3, "checkpoint", "union", 8, False),
        (2, "checkpoint", "union", 5, False),
        (1, "epoch", "host h, pid 1", 1, False),
    ]


def test_the_gaps(state: str) -> None:
    first, other = LogId("eu-id", "T1"), LogId("us-id", "T2")
    lost = GapRecord(
        id="c107ceb4dc30cc1d",
        gap=Gap(
            partition=EU0,
            kind=GapKind.BELOW_EARLIEST,
            start=100,
            end=150,
            reason="retention deleted them",
            position=100,
            lost=50,
            then=first,
            now=first,
        ),
        found_at=AT,
        epoch=1,
        decision=Decision.SKIP,
        decided_at=second(120),
        resolved=True,
        resumes_at=150,
        decided_on=AT_MS + 5,
        note="went on behind it",
    )
    recreated = GapRecord(
        id="43bfda889d403a2c",
        gap=Gap(
            partition=US0,
            kind=GapKind.TOPIC_RECREATED,
            start=1,
            end=None,
            reason="another topic has this name now",
            position=1,
            then=other,
            now=LogId("us-id", "T9"),
        ),
        found_at=second(60),
        epoch=1,
    )
    assert list(GapTable(StateStore(state)).load().items()) == [
        (it.id, it) for it in (lost, recreated)
    ]


def test_the_backfills(state: str) -> None:
    first = Backfill(
        id="b1",
        cluster="eu",
        topic="orders",
        parts=(BackfillPart(EU0, 0, 100, 60, 3), BackfillPart(EU1, 5, 10, 10)),
        ordered_at=AT,
        at=second(4),
        log=LogId("eu-id", "T1"),
        bound={HUB0: 8},
        by="REST of 127.0.0.1",
        records_per_second=100.0,
        records=62,
    )
    second_one = replace(
        first,
        id="b2",
        parts=(BackfillPart(EU0, 0, 100, 0), BackfillPart(EU1, 5, 10, 5)),
        ordered_at=AT + timedelta(minutes=5),
        at=second(5),
        bound={},
        state=BackfillState.CANCELLED,
        reason="by hand",
        bytes_per_second=5e6,
        records=0,
    )
    assert BackfillTable(StateStore(state)).load() == {"b1": first, "b2": second_one}


def test_the_history_and_the_events(state: str) -> None:
    found = history_log(StateStore(state)).select(within(DAY_BEFORE, DAY_AFTER, source="eu"))
    assert [(it.topic, it.records, it.lag) for it in found if it.at == second(120)] == [
        (None, 300, 8),
        ("orders", 300, 8),
    ]
    assert found[0] == HistoryRow(
        at=AT,
        seconds=60.0,
        source="eu",
        state="RUNNING",
        records=100,
        bytes=25_000,
        lag=10,
        lag_bytes=2_500,
        seconds_behind=0.0,
        age_p50_ms=20,
        age_p95_ms=90,
        age_p99_ms=150,
        flight_p50_ms=3,
        flight_p95_ms=5,
        flight_p99_ms=9,
    )
    events = events_log(StateStore(state)).select(within(DAY_BEFORE, DAY_AFTER))
    assert events == [
        EventRow(id=1, at=AT, kind="started", level="INFO", message="epoch 1 begins"),
        EventRow(
            id=2,
            at=second(60),
            kind="gap",
            level="WARNING",
            message="eu/orders-0: 50 offsets are lost",
            source="eu",
            fields={"lost": 50, "cause": "BELOW_EARLIEST"},
        ),
    ]


def test_what_is_paused(state: str) -> None:
    assert Controls(StateStore(state)).read() == Paused(
        {"us": Pause(second(6), stopped=True, by="ann")},
        {Part("eu", "orders", 1): Pause(second(10), by="ann")},
    )


def test_the_failovers(state: str) -> None:
    back = Failover(
        at=second(12),
        hub_cluster_id="hub-id",
        hub_ends={HUB0: 8, HUB1: 7},
        id="failover-1",
        pause=AT,
        returned="failover-2",
    )
    out = Failover(
        at=second(14),
        hub_cluster_id="hub-id",
        hub_ends={HUB0: 9},
        id="failover-3",
        pause=None,
        alive=True,
    )
    assert Failovers(StateStore(state)).read() == {"us": (back, out)}


def test_groups_topics_and_connectors(state: str) -> None:
    moved = MovedGroups(StateStore(state)).read()
    assert moved.has("billing", {"eu": {HUB0: 80}})
    assert not moved.has("billing", {"eu": {HUB0: 81}})
    assert SeenTable(StateStore(state)).load() == TopicsSeen(
        {"eu": frozenset({"payments", "orders"}), "us": frozenset({"clicks", "orders"})},
        {"eu": "eu-id", "us": "us-id"},
    )
    asia = {"src.kafka.bootstrap.servers": "127.0.0.1:12", "topics": "orders"}
    assert ConnectorTable(StateStore(state)).changes() == {
        "asia": Change("asia", asia, "ann", second(18)),
        "old": Change("old", None, "ben", second(20)),
    }


def test_what_was_claimed_to_be_complete(state: str) -> None:
    away = Laggard("us", "unreachable", "does not answer", "orders", 0)
    eu = Claim(
        source="eu",
        topic="orders",
        up_to_ms=AT_MS + 10_000,
        lost=Lost(50, 1),
        topics=("orders",),
        cluster_id="eu-id",
        hub_id="hub-id",
    )
    us = replace(eu, source="us", up_to_ms=AT_MS - 60_000, laggard=away, lost=Lost())
    us = replace(us, cluster_id="us-id")
    whole = Claim(None, "orders", AT_MS - 60_000, away, Lost(50, 1))
    new = replace(eu, topic="payments", up_to_ms=None, laggard=Laggard("eu", "new"), lost=Lost())
    new = replace(new, topics=("payments",))
    assert CompletenessTable(StateStore(state)).newest() == (eu, us, whole, new)


def test_the_events_of_dedup(state: str) -> None:
    table, rule = DedupTable(StateStore(state)), Rule("orders", "header event-id")
    assert table.mark(rule, DAY_BEFORE) == KnownEvents(TopicLife(1, "T3"), (6, 7))
    began = AT_MS // 1000
    first = struct.pack("<6q3i", 1, 2, -3, 11, 12, 13, *range(began, began + 3))
    assert list(table.events(rule, TopicLife(0), DAY_BEFORE)) == [first]
    assert list(table.events(rule, TopicLife(1, "T3"), DAY_BEFORE)) == [
        struct.pack("<2qi", 9, 8, began + 6)
    ]


def test_the_audits(state: str) -> None:
    newest, older = PastAudits(StateStore(state)).newest(10)
    assert (newest.audit, newest.at, newest.exit_code) == ("a2", AT + timedelta(hours=1), 4)
    assert (older.audit, older.exit_code, older.missing, older.foreign) == ("a1", 4, 0, 1)
    assert (newest.expected, newest.present, newest.missing, newest.foreign) == (500, 496, 2, 2)
    assert (newest.partitions, newest.not_compared, newest.not_judged) == (2, 1, 3)
