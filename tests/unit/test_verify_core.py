"""What `aggregator verify` compares: windows, jobs, and what the hub may have deleted."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import astuple, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from aggregator.features.backfill.ranges import BackfillPart
from aggregator.features.verify import audit
from aggregator.features.verify.audit import damaged_place
from aggregator.features.verify.audit_report import HubTopicResult
from aggregator.features.verify.audit_scope import (
    NO_END,
    AuditSight,
    CopyBegin,
    Scope,
    Standing,
    Window,
    plan_windows,
)
from aggregator.features.verify.hub_ranges import (
    Accounted,
    Job,
    accounted_backfills,
    accounted_gaps,
    disjoint,
    expired_below,
    hub_ranges,
    plan_jobs,
    trimmed,
    unread,
    with_backfilled,
)
from aggregator.features.verify.job import JobResult
from aggregator.model.errors import ClusterError
from aggregator.model.values import (
    LogId,
    OffsetRange,
    Positions,
    Route,
    SourcePartition,
    TopicFacts,
    TopicPartition,
)
from aggregator.plan.positions.gaps import GapRecord
from aggregator.plan.positions.start import Gap, GapKind, Observed, Remembered
from support.backfills import backfill
from support.flow_world import config_of

SP = SourcePartition("eu", "orders", 0)
ROUTE = Route("eu", "orders", "orders", partitions=1, hub_partitions=4)
LOG = OffsetRange(100, 500)


def sight(**parts: Any) -> AuditSight:
    """One partition, with a log of [100, 500) and a position of 400."""
    plain = AuditSight(
        routes=[ROUTE],
        observed=Observed({"eu": "eu-id"}, {("eu", "orders"): "now"}, {SP: LOG}),
        known=Remembered(Positions({SP: 400}), {SP: LogId("eu-id", "now")}),
    )
    return replace(plain, **parts)


def window(scope: Scope | None = None, **parts: Any) -> Window:
    (found,) = plan_windows(scope or Scope(), sight(**parts))
    return found


def test_everything_below_the_position_is_judged_and_nothing_above() -> None:
    found = window()
    assert (found.read, found.sure_from, found.beyond) == (OffsetRange(100, 400), 100, 500)
    assert (found.asked, found.ahead) == (0, 100)
    assert found.compared


def test_without_a_checkpoint_all_that_the_source_holds_is_expected() -> None:
    assert window(known=None).read == LOG


def test_a_partition_without_a_position_has_nothing_to_compare() -> None:
    found = window(known=Remembered())
    assert found.standing is Standing.NOT_STARTED
    assert not found.compared
    assert found.beyond == 500


def test_a_position_beyond_a_truncated_log_claims_what_it_had() -> None:
    found = window(known=Remembered(Positions({SP: 700})))
    assert (found.read, found.beyond) == (LOG, 700)


@pytest.mark.parametrize(
    ("begun", "start", "read", "sure"),
    [
        (None, "earliest", OffsetRange(100, 400), 100),
        (None, "latest", OffsetRange(100, 400), 400),
        (CopyBegin(250, exact=True), "latest", OffsetRange(250, 400), 250),
        (CopyBegin(50, exact=True), "latest", OffsetRange(100, 400), 100),
        (CopyBegin(250, exact=False), "latest", OffsetRange(100, 400), 250),
        (CopyBegin(250, exact=False), "1769860800000", OffsetRange(100, 400), 250),
        (CopyBegin(250, exact=False), "earliest", OffsetRange(100, 400), 100),
    ],
)
def test_nothing_is_expected_from_before_the_copy_began(
    begun: CopyBegin | None, start: str, read: OffsetRange, sure: int
) -> None:
    known = {SP: begun} if begun is not None else {}
    found = window(begun=known, starts={"eu": start})
    assert (found.read, found.sure_from) == (read, sure)


@pytest.mark.parametrize(
    ("scope", "read"),
    [
        (Scope(from_offset=150, to_offset=160), OffsetRange(150, 160)),
        (Scope(from_offset=20), OffsetRange(100, 400)),
        (Scope(to_offset=9_999), OffsetRange(100, 400)),
        (Scope(from_offset=450), OffsetRange(400, 400)),
        (Scope(since_ms=1), OffsetRange(300, 400)),
        (Scope(since_ms=1, until_ms=2), OffsetRange(300, 350)),
    ],
)
def test_a_range_limits_what_is_judged(scope: Scope, read: OffsetRange) -> None:
    found = window(scope, since={SP: 300}, until={SP: 350})
    assert found.read == read
    assert found.asked == (300 if scope.since_ms else scope.from_offset or 0)


def test_beyond_an_end_that_was_asked_for_nothing_is_judged() -> None:
    assert window(Scope(to_offset=160)).beyond == NO_END
    assert window(Scope(from_offset=160)).beyond == 500


@pytest.mark.parametrize(
    "scope",
    [Scope(source="us"), Scope(topic="payments"), Scope(partition=1)],
)
def test_what_is_not_in_scope_has_no_window(scope: Scope) -> None:
    assert plan_windows(scope, sight()) == ()


def test_a_source_that_is_away_is_judged_by_the_hub_alone_up_to_the_position() -> None:
    found = window(unreachable={"eu": "eu: timeout"})
    assert (found.standing, found.reason) == (Standing.UNREACHABLE, "eu: timeout")
    assert (found.read, found.beyond, found.compared) == (OffsetRange(0, 400), NO_END, False)
    unknown = window(observed=Observed({"eu": "eu-id"}, {}, {}))
    assert unknown.standing is Standing.UNREACHABLE
    untold = window(Scope(since_ms=1))
    assert untold.standing is Standing.UNREACHABLE


def test_a_topic_that_was_created_again_cannot_be_compared() -> None:
    old = Remembered(Positions({SP: 400}), {SP: LogId("eu-id", "then")})
    found = window(known=old)
    assert found.standing is Standing.CONFLICT
    assert "created again" in found.reason
    other = Remembered(Positions({SP: 400}), {SP: LogId("another")})
    assert window(known=other).standing is Standing.CONFLICT


def test_topics_say_how_strictly_they_are_compared() -> None:
    compacted = TopicFacts("orders", "now", 1, 1, cleanup_policy="compact,delete")
    assert window(source_topics={("eu", "orders"): compacted}).sparse
    assert window(hub_topics={"orders": compacted}).superseding
    assert window(routes=[replace(ROUTE, transform="a:b")]).loose
    plain = window()
    assert (plain.sparse, plain.superseding, plain.loose) == (False, False, False)


P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
HUB = {P0: OffsetRange(0, 50), P1: OffsetRange(40, 90)}


def test_the_hub_is_read_from_where_the_records_can_lie() -> None:
    assert hub_ranges(HUB, {}) == HUB
    assert hub_ranges(HUB, {P0: 30, P1: 30}) == {P0: OffsetRange(30, 50), P1: HUB[P1]}
    assert hub_ranges(HUB, {P0: 70}) == {P0: OffsetRange(50, 50), P1: HUB[P1]}
    assert trimmed(HUB) == {P1: 40}


def test_what_of_the_hub_is_not_read_is_counted() -> None:
    read = hub_ranges(HUB, {P0: 30, P1: 60})
    assert (unread(HUB, HUB), unread(HUB, read)) == ({}, {"orders": 50})


def test_a_batch_that_cannot_be_read_costs_its_own_hub_topic() -> None:
    error = "java.io.IOException: orders-0@7 cannot be read: Record is corrupt"
    damaged = damaged_place(f"Job aborted.\nCaused by: {error}\n\tat aggregator.connector")
    assert str(damaged) == "orders-0@7 cannot be read: Record is corrupt"
    assert damaged is not None
    plain = window()
    own = replace(plain, hub_topic="all.orders")
    copied = replace(plain, partition=SourcePartition("us", "other", 0))
    other = replace(own, partition=SourcePartition("eu", "orders", 1), hub_topic="x")
    assert damaged.spoiled([own, copied, other]) == {"all.orders", "orders"}
    assert damaged_place("java.lang.ArithmeticException: long overflow") is None


def test_jobs_hold_whole_hub_topics_and_compacted_ones_are_on_their_own() -> None:
    def into(topic: str, *, superseding: bool = False) -> Window:
        return Window(
            SourcePartition("eu", topic, 0), topic, OffsetRange(0, 10), superseding=superseding
        )

    windows = [into("c", superseding=True), into("b"), into("a"), into("d")]
    hub = {TopicPartition(name, 0): OffsetRange(0, 10) for name in "abcd"}
    hub[TopicPartition("a", 1)] = OffsetRange(5, 5)
    small = plan_jobs(windows, hub, most=40)
    assert [job.topics for job in small] == [("a", "b"), ("d",), ("c",)]
    assert [job.offsets for job in small] == [40, 20, 20]
    assert TopicPartition("a", 1) not in small[0].hub
    assert [job.topics for job in plan_jobs(windows, hub, most=1)] == [
        ("a",),
        ("b",),
        ("d",),
        ("c",),
    ]


@pytest.mark.parametrize(
    ("lost", "firsts", "proven", "below"),
    [
        ([], {}, None, 0),
        # What P1 lost is older than its first record of this source partition.
        ([P1], {P0: 3, P1: 70}, None, 70),
        ([P0, P1], {P0: 30, P1: 70}, None, 70),
        # Nothing of it is left in P1: it may have lost anything, unless the checkpoint knows.
        ([P1], {P0: 3}, None, NO_END),
        ([P1], {P0: 3}, 55, 55),
        ([P1], {P1: 40}, 55, 40),
    ],
)
def test_only_what_may_have_been_deleted_is_expired(
    lost: list[TopicPartition], firsts: dict[TopicPartition, int], proven: int | None, below: int
) -> None:
    assert expired_below(lost, firsts, proven) == below


def test_accounted_ranges_do_not_overlap() -> None:
    def gap(start: int, end: int, why: str = "gap", sp: SourcePartition = SP) -> Accounted:
        return Accounted(sp, OffsetRange(start, end), why, reused=why == "reused")

    other = SourcePartition("us", "orders", 0)
    ranges = [gap(5, 9, "reused"), gap(0, 6), gap(7, 8), gap(2, 3, sp=other), gap(20, 20)]
    assert [(it.partition, *astuple(it.offsets), it.why) for it in disjoint(ranges)] == [
        (SP, 0, 5, "gap"),
        (SP, 5, 6, "reused"),
        (SP, 6, 7, "reused"),
        (SP, 7, 8, "reused"),
        (SP, 8, 9, "reused"),
        (other, 2, 3, "gap"),
    ]


def test_what_was_skipped_and_backfilled_later_is_expected() -> None:
    came = Accounted(SP, OffsetRange(3, 8), "it came", backfilled=True)
    skipped = Accounted(SP, OffsetRange(0, 10), "skipped")
    found = disjoint([skipped, came, Accounted(SP, OffsetRange(7, 9), "reused", reused=True)])
    assert [(*astuple(it.offsets), it.reused, it.backfilled) for it in found] == [
        (0, 3, False, False),
        (3, 7, False, True),
        (7, 8, True, False),
        (8, 9, True, False),
        (9, 10, False, False),
    ]


def test_a_copy_begins_where_what_was_backfilled_right_before_it_does() -> None:
    begun = {SP: CopyBegin(300, exact=True)}
    parts = [(250, 300), (0, 10), (200, 260)]
    filled = [Accounted(SP, OffsetRange(*it), "", backfilled=True) for it in parts]
    assert with_backfilled(begun, filled) == {SP: CopyBegin(200, exact=True)}
    assert window(begun=with_backfilled(begun, filled)).read == OffsetRange(200, 400)


def test_only_what_came_of_the_log_that_is_there_now_counts() -> None:
    moved = backfill(parts=(BackfillPart(SP, 0, 100, 40),), log=LogId("eu-id", "now"))
    (found,) = accounted_backfills([moved], OBSERVED)
    assert (found.offsets, found.backfilled) == (OffsetRange(0, 40), True)
    other = backfill(parts=(BackfillPart(SP, 0, 100, 40),), log=LogId("eu-id", "then"))
    assert accounted_backfills([other, backfill(log=LogId("eu-id", "now"))], OBSERVED) == []


OBSERVED = Observed({"eu": "eu-id"}, {("eu", "orders"): "now"}, {SP: LOG})


@pytest.mark.parametrize(
    ("gap", "offsets"),
    [
        # Deleted at the source before it was copied.
        (Gap(SP, GapKind.BELOW_EARLIEST, 80, 100, "", 80), (80, 100, False)),
        # Truncated to 300 when 400 was the position.
        (Gap(SP, GapKind.BEYOND_END, 300, 400, "", 400), (300, 400, True)),
        # Another topic: it begins at 0 again, and the old one was copied to 400, and held to 450.
        (
            Gap(
                SP,
                GapKind.TOPIC_RECREATED,
                400,
                450,
                "",
                400,
                then=LogId("", "then"),
                now=LogId("", "now"),
            ),
            (0, 450, True),
        ),
        (Gap(SP, GapKind.TOPIC_GONE, 400, None, "", 400, then=LogId("", "then")), (0, 400, True)),
        (
            Gap(
                SP, GapKind.CLUSTER_CHANGED, 4, None, "", 4, then=LogId("other"), now=LogId("eu-id")
            ),
            (0, 4, True),
        ),
        (Gap(SP, GapKind.SKIPPED_BY_OPERATOR, 300, 400, "", 250), (300, 400, False)),
        # The old one is back.
        (Gap(SP, GapKind.TOPIC_GONE, 400, None, "", 400, then=LogId("", "now")), None),
        (
            Gap(
                SP,
                GapKind.TOPIC_RECREATED,
                9,
                None,
                "",
                9,
                then=LogId("", "now"),
                now=LogId("", "other"),
            ),
            None,
        ),
    ],
)
def test_recorded_gaps_account_for_what_they_explain(
    gap: Gap, offsets: tuple[int, int, bool] | None
) -> None:
    record = GapRecord("id", gap, datetime(2026, 1, 31, tzinfo=UTC), 1)
    found = accounted_gaps([record], OBSERVED)
    expected = [] if offsets is None else [offsets]
    assert [(*astuple(it.offsets), it.reused) for it in found] == expected


FOUR: Any = SimpleNamespace(
    windows=tuple(
        Window(SourcePartition("eu", topic, 0), topic, OffsetRange(0, 10)) for topic in "abcd"
    ),
    hub={},
)
"""A look that finds four hub topics."""


@pytest.fixture
def comparison(monkeypatch: pytest.MonkeyPatch) -> audit._Comparison:
    """Each look finds the same; each hub topic is a job of its own."""
    monkeypatch.setattr(audit, "look", lambda *_: FOUR)
    monkeypatch.setattr(audit, "JOB_OFFSETS", 1)
    session: Future[SparkSession] = Future()
    stop, request = threading.Event(), audit.VerifyRequest()
    return audit._Comparison(config_of(), request, session, stop, lambda _: None)


def test_retention_may_be_ahead_of_every_job_and_the_audit_ends_all_the_same(
    comparison: audit._Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def run(job: Job, _: object) -> JobResult:
        (topic,) = job.topics
        begun.append(topic)
        if begun.count(topic) < audit.ATTEMPTS:
            raise PySparkException("its first offsets are gone")
        return JobResult((), (HubTopicResult(topic=topic),), ())

    monkeypatch.setattr(comparison, "_job", run)
    results, _ = comparison.run(FOUR)
    assert [it.topic for result in results for it in result.hub_topics] == list("abcd")
    assert len(begun) == 4 * audit.ATTEMPTS


def test_a_job_that_cannot_be_read_at_all_ends_the_audit(
    comparison: audit._Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def run(job: Job, _: object) -> JobResult:
        begun.extend(job.topics)
        raise PySparkException("no answer")

    monkeypatch.setattr(comparison, "_job", run)
    with pytest.raises(ClusterError, match="records cannot be read: no answer"):
        comparison.run(FOUR)
    assert begun == ["a"] * audit.ATTEMPTS
