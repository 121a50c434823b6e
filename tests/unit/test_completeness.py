"""Claims as they are made, kept, shown and waited for, as far as no cluster is needed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from aggregator.cli.main import app
from aggregator.config.in_force import InForce
from aggregator.config.schema import Config
from aggregator.features.completeness import claim_table
from aggregator.features.completeness.claim_keeper import Keeper
from aggregator.features.completeness.claim_maker import CompletenessWatch
from aggregator.features.completeness.claim_table import (
    ClaimRow,
    CompletenessTable,
    claim_of,
    merged,
    rows_of,
    what_counts,
)
from aggregator.features.completeness.wait import (
    NotCompleteError,
    complete_up_to,
    wait_until_complete,
)
from aggregator.features.service import EngineProgress, Now
from aggregator.model.errors import (
    EXIT_CONFIG,
    EXIT_DATA,
    EXIT_DONE,
    EXIT_NOT_YET,
    CheckpointError,
)
from aggregator.model.events import Event
from aggregator.model.values import (
    ClusterFacts,
    Discovery,
    LogId,
    Positions,
    Route,
    SourcePartition,
    TopicFacts,
)
from aggregator.plan import Plan, make_plan
from aggregator.plan.completeness.claims import (
    REPORTED_MS,
    Claim,
    Claims,
    ClaimSight,
    Laggard,
    LateCounts,
    Lost,
    standing,
)
from aggregator.plan.completeness.marks import CUT, MOST_MARKS, OTHER_LOG, Mark, MarkLedger
from aggregator.plan.completeness.scope import Feeding, scope_of
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import Partition, State
from aggregator.plan.topics.feeders import selects
from aggregator.plan.topics.naming import naming_of
from aggregator.plan.topics.selection import selection_of
from aggregator.status.completeness import completeness_of
from aggregator.store.checkpoint.rows import to_millis, to_moment
from aggregator.store.checkpoint.start_state import CheckpointState
from aggregator.store.row_model import RowModel
from aggregator.store.state_store import StateStore
from support.examples import examples

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
NOON_MS = to_millis(NOON)
SP = SourcePartition("eu", "orders", 0)
HELD = Laggard("us", "paused", "paused since noon", "orders", 3)


def config_of(folder: Path | None = None, /, **parts: Any) -> Config:
    sources = parts.pop("sources", {"eu": "orders", "us": "orders|payments"})
    return Config.model_validate(
        {
            "hub": {"bootstrap_servers": "127.0.0.1:9"},
            "sources": {
                alias: {"bootstrap_servers": "127.0.0.1:10", "topics": {"include": include}}
                for alias, include in sources.items()
            },
            "checkpoint": {"path": str(folder or "state")},
            "api": {"listen": "off"},
            **parts,
        }
    )


def claim(up_to_ms: int | None = NOON_MS, source: str | None = None, **rest: Any) -> Claim:
    topics = ("orders",) if source else ()
    return Claim(source, "orders", up_to_ms, topics=topics, **rest)


def table_of(folder: Path) -> CompletenessTable:
    return CompletenessTable(StateStore(str(folder)))


# Scope


def plan_of(config: Config, **topics: Iterable[str]) -> Plan:
    found = {
        alias: ClusterFacts(
            alias, alias.upper(), 1, {it: TopicFacts(it, f"{alias}-{it}", 1, 1) for it in names}
        )
        for alias, names in topics.items()
    }
    return make_plan(config, Discovery(found), ClusterFacts("hub", "HUB", 1, {}))


def test_who_has_a_say_about_a_hub_topic_is_who_feeds_it_or_may() -> None:
    config = config_of()
    scope = scope_of(config, plan_of(config, eu=["orders"], us=["payments"]))
    assert set(scope.feeds) == {("eu", "orders"), ("us", "payments")}
    # A topic of that name is selected there, and is not there yet; only `us` may give payments.
    assert scope.may_feed == {"orders": {"eu", "us"}, "payments": {"us"}}
    assert scope.may_get(("us", "orders"))
    assert not scope.may_get(("eu", "orders"))
    assert scope.unseen == frozenset()


def test_a_source_that_never_showed_its_topics_has_a_say_where_it_may_feed() -> None:
    config = config_of()
    scope = scope_of(config, plan_of(config, us=["orders", "payments"]))
    assert scope.unseen == {"eu"}
    assert scope.may(("eu", "orders"))
    assert not scope.may(("eu", "payments"))


def test_where_topics_are_brought_together_another_one_may_come() -> None:
    config = config_of(topics={"rename": "all"})
    scope = scope_of(config, plan_of(config, eu=["orders"], us=["orders"]))
    assert scope.listed == {("eu", "all"), ("us", "all")}


def test_hub_topics_that_the_same_sources_may_feed_share_one_set() -> None:
    names = [f"t{number}" for number in range(9)]
    for rename, sets in (("${topic}", 1), ("${cluster}.${topic}", 3)):
        sources = {"eu": ".*", "us": ".*|more", "asia": ".*"}
        config = config_of(sources=sources, topics={"rename": rename})
        scope = scope_of(config, plan_of(config, eu=names, us=names, asia=names))
        assert len({id(it) for it in scope.may_feed.values()}) == sets
        for topic, may_feed in scope.may_feed.items():
            plain = {
                alias
                for alias in config.sources
                for it in naming_of(config, alias).may_be(topic)
                if not it or selection_of(config, alias).matches(it)
            }
            assert may_feed == plain


def test_sources_are_distinguished_by_what_they_select_and_not_by_their_names() -> None:
    config = config_of(sources={"eu": "orders", "us": "orders", "asia": "payments"})
    assert selects(config, "eu") == selects(config, "us") != selects(config, "asia")
    config = config_of(sources={"eu": "a", "us": "a"}, topics={"rename": "${cluster}.${topic}"})
    assert selects(config, "eu") != selects(config, "us")


def test_a_topic_that_is_selected_and_does_not_flow_is_named() -> None:
    config = config_of(topics={"configs": {"cleanup.policy": "compact"}})
    plan = plan_of(config, eu=["orders"], us=["orders"])
    scope = scope_of(config, plan)
    assert not plan.routes
    assert set(scope.untaken) == {("eu", "orders"), ("us", "orders")}
    assert all("it is compacted and fed by" in why for why in scope.untaken.values())


# Claims


def sight(scope: Feeding, now_ms: int = NOON_MS, **rest: Any) -> ClaimSight:
    parts: dict[str, Any] = {
        "listed_ms": {},
        "came": (),
        "unsettled": (),
        "lost": {},
        "lateness_ms": 1_000,
        "blame": lambda alias, sp: Laggard(alias, "behind" if sp else "not_listed"),
        **rest,
    }
    return ClaimSight(scope=scope, now_ms=now_ms, **parts)


def ledger_at(ms: int, *partitions: SourcePartition) -> MarkLedger:
    """All of these have reached what was reported at that moment."""
    ledger = MarkLedger()
    ledger.follow(Positions(dict.fromkeys(partitions, 7)), 0.0)
    for alias in {sp.cluster for sp in partitions}:
        own = [sp for sp in partitions if sp.cluster == alias]
        counts = {sp.topic: sum(it.topic == sp.topic for it in own) for sp in own}
        mark = Mark(1.0, ms, "E", {}, counts, dict.fromkeys(own, 7))
        ledger.take(mark, counts, own, {sp: LogId() for sp in own})
    return ledger


def feeding(*aliases: str, **rest: Any) -> Feeding:
    feeds = {(it, "orders"): (Route(it, "orders", "orders", 1, 1),) for it in aliases}
    return Feeding(feeds, cluster_ids={it: it.upper() for it in aliases}, hub_id="HUB", **rest)


US = SourcePartition("us", "orders", 0)
US_MAY = {"orders": frozenset({"us"})}


def test_all_sources_together_are_as_far_as_the_least_of_them_which_is_named() -> None:
    ledger = ledger_at(NOON_MS, SP)
    slow = ledger_at(NOON_MS - 60_000, US)
    ledger._logs |= slow._logs
    whole, eu, us = Claims().make(ledger, sight(feeding("eu", "us")))
    assert (eu.up_to_ms, eu.laggard) == (NOON_MS - 1_001, None)
    assert (us.up_to_ms, us.laggard) == (NOON_MS - 61_001, Laggard("us", "behind"))
    assert (whole.source, whole.up_to_ms, whole.laggard) == (None, us.up_to_ms, us.laggard)


def test_what_is_not_seen_or_not_taken_lets_nothing_be_claimed_of_all() -> None:
    unseen = {"unseen": frozenset({"us"}), "may_feed": US_MAY}
    for more in (unseen, {"untaken": {("us", "orders"): "no"}}):
        whole, eu, us = Claims().make(ledger_at(NOON_MS, SP), sight(feeding("eu", **more)))
        assert eu.up_to_ms == NOON_MS - 1_001
        assert us.up_to_ms is None
        assert whole.up_to_ms is None
        assert whole.laggard is not None
        assert whole.laggard.source == "us"


def test_a_source_that_may_come_in_holds_it_at_the_listing_of_its_topics() -> None:
    scope = feeding("eu", may_feed=US_MAY)
    claims = Claims()
    (whole, *_) = claims.make(ledger_at(NOON_MS, SP), sight(scope))
    assert whole.up_to_ms is None
    at = {"us": NOON_MS - 20_000}
    (whole, *_) = claims.make(ledger_at(NOON_MS, SP), sight(scope, listed_ms=at))
    assert whole.up_to_ms == NOON_MS - 21_001
    assert whole.laggard is not None
    assert (whole.laggard.source, whole.laggard.why) == ("us", "not_listed")


def test_a_source_that_is_probed_more_seldom_is_not_named_for_that() -> None:
    ledger = ledger_at(NOON_MS, SP)
    for now_ms, more_ms, held in ((8_000, 0, False), (8_001, 0, True), (18_000, 10_000, False)):
        sighted = sight(feeding("eu"), NOON_MS + now_ms, more_ms={"eu": more_ms})
        (whole, _) = Claims().make(ledger, sighted)
        assert (whole.laggard is not None) is held


def test_a_source_that_may_come_in_is_claimed_once_for_all_hub_topics() -> None:
    feeds = {("eu", f"t{at}"): (Route("eu", f"t{at}", f"t{at}", 1, 1),) for at in range(50)}
    may = frozenset(f"s{at}" for at in range(30))
    asked: list[str] = []

    def blame(alias: str, sp: SourcePartition | None) -> Laggard:
        asked.append(alias)
        return Laggard(alias, "behind" if sp else "away", "why")

    scope = Feeding(feeds, may_feed=dict.fromkeys([it for _, it in feeds], may))
    ledger = ledger_at(NOON_MS, *(SourcePartition("eu", it, 0) for _, it in feeds))
    listed = dict.fromkeys(may, NOON_MS - 20_000)
    claims = Claims()
    found = claims.make(ledger, sight(scope, blame=blame, listed_ms=listed))
    assert sorted(asked) == sorted(may)
    assert len(found) == 2 * len(feeds) + len(may)
    # What is as it was is not made again.
    again = claims.make(ledger, sight(scope, NOON_MS + 1, blame=blame, listed_ms=listed))
    assert all(one is other for one, other in zip(found, again, strict=True))


@pytest.mark.parametrize("same", [True, False])
def test_a_source_that_is_away_at_a_start_holds_it_where_it_was_if_it_selects_the_same(
    same: bool,
) -> None:
    kept = claim(NOON_MS - 60_000, "us", cluster_id="US", hub_id="HUB")
    kept = replace(kept, topic="", topics=("0a",))
    selects = {"us": "0a" if same else "0b"}
    scope = feeding("eu", may_feed=US_MAY, unseen=frozenset({"us"}), selects=selects)
    (whole, *_) = Claims([kept]).make(ledger_at(NOON_MS, SP), sight(scope))
    assert whole.up_to_ms == (NOON_MS - 60_000 if same else None)


def test_a_claim_of_a_hub_topic_that_an_older_version_wrote_counts_until_it_is_surpassed() -> None:
    scope = feeding("eu", may_feed=US_MAY, unseen=frozenset({"us"}))
    old = replace(claim(NOON_MS - 60_000, "us", hub_id="HUB"), topics=())
    claims, ledger = Claims([old]), ledger_at(NOON_MS, SP)
    (whole, *_) = claims.make(ledger, sight(scope))
    assert whole.up_to_ms == NOON_MS - 60_000
    scope = feeding("eu", may_feed=US_MAY)
    for _ in range(2):
        scope = replace(scope)
        claims.make(ledger, sight(scope, listed_ms={"us": NOON_MS}))
    assert [*claims._last] == [("eu", "orders")]
    # Nor does a start take it up again.
    newer = replace(old, topic="", topics=("",), up_to_ms=NOON_MS)
    assert standing([old, newer]) == [newer]
    held = replace(old, up_to_ms=None, laggard=Laggard("us", "not_taken"))
    assert standing([held, newer]) == [held, newer]


def test_what_is_undecided_of_a_topic_that_is_gone_holds_it() -> None:
    claims = Claims()
    claims.make(ledger_at(NOON_MS, SP, US), sight(feeding("eu", "us")))
    scope = feeding("us", may_feed={"orders": frozenset({"eu"})})
    later, listed = NOON_MS + 90_000, {"eu": NOON_MS + 90_000}
    ledger = ledger_at(later, US)
    whole, *_ = claims.make(
        ledger, sight(scope, later, listed_ms=listed, unsettled={("eu", "orders")})
    )
    assert whole.up_to_ms == NOON_MS - 1_001
    assert whole.laggard is not None
    assert (whole.laggard.source, whole.laggard.why) == ("eu", "gap")
    whole, *_ = claims.make(ledger, sight(scope, later, listed_ms=listed))
    assert whole.up_to_ms == later - 1_001


def test_another_cluster_behind_an_alias_begins_again_and_more_lateness_takes_nothing_back() -> (
    None
):
    claims = Claims([claim(NOON_MS - 1_000, "eu", cluster_id="EU", hub_id="HUB")])
    nothing = MarkLedger()
    _, eu = claims.make(nothing, sight(feeding("eu"), lateness_ms=60_000))
    assert eu.up_to_ms == NOON_MS - 1_000
    other = Feeding(feeding("eu").feeds, cluster_ids={"eu": "OTHER"}, hub_id="HUB")
    _, eu = claims.make(nothing, sight(other))
    assert eu.up_to_ms is None


def test_a_topic_that_is_selected_later_takes_a_claim_back_but_one_that_came_does_not() -> None:
    two = {("eu", "orders"): tuple(Route("eu", it, "orders", 1, 1) for it in ("orders", "more"))}
    scope = Feeding(two, cluster_ids={"eu": "EU"}, hub_id="HUB")
    for came, expected in (((), None), ((("eu", "more"),), NOON_MS)):
        claims = Claims([claim(NOON_MS, "eu", cluster_id="EU", hub_id="HUB")])
        _, eu = claims.make(MarkLedger(), sight(scope, came=came))
        assert eu.up_to_ms == expected


def test_the_ends_that_are_still_to_be_reached_stay_few() -> None:
    ledger = MarkLedger()
    for at in range(1, 500):
        ledger.follow(Positions({SP: 1}), float(at))
        mark = Mark(float(at), at, "E", {}, {"orders": 1}, {SP: 2 + at})
        ledger.take(mark, {"orders": 1}, [SP], {})
    assert len(ledger._logs[SP].marks) <= MOST_MARKS
    assert ledger.waits_for(SP) == (1, 3)
    ledger.follow(Positions({SP: 400}), 501.0)
    reached = ledger.reached(SP)
    assert reached is not None
    assert 370 < reached <= 398


def test_another_cluster_has_reached_nothing_of_what_the_one_before_did() -> None:
    ledger, counts = MarkLedger(), {"orders": 1}
    for at, cluster_id, end in ((1, "E", 5), (2, "F", 9)):
        ledger.follow(Positions({SP: 5}), float(at))
        mark = Mark(float(at), at, cluster_id, {}, counts, {SP: end})
        ledger.take(mark, counts, [SP], {SP: LogId(cluster_id)})
    assert ledger.reached(SP) is None
    # Nor does a third one count while what is read is still known as that of the second.
    ledger.take(Mark(3.0, 3, "G", {}, counts, {SP: 1}), counts, [SP], {SP: LogId("F")})
    assert (ledger.reached(SP), ledger.doubt(SP)) == (None, OTHER_LOG)


def test_an_end_that_is_lower_than_before_counts_when_it_is_reported_again() -> None:
    ledger, counts = MarkLedger(), {"orders": 1}
    found = []
    for at, end in enumerate((9, 4, 4), 1):
        ledger.follow(Positions({SP: 4}), float(at))
        ledger.take(Mark(float(at), at, "E", {}, counts, {SP: end}), counts, [SP], {})
        found.append((ledger.reached(SP), ledger.doubt(SP)))
    assert found == [(None, ""), (None, CUT), (3, "")]
    # But never one below what had been read before it was asked for.
    ledger.follow(Positions({SP: 6}), 4.0)
    for at in (5, 6, 7):
        ledger.follow(Positions({SP: 6}), float(at))
        ledger.take(Mark(float(at), at, "E", {}, counts, {SP: 4}), counts, [SP], {})
    assert (ledger.reached(SP), ledger.doubt(SP)) == (3, CUT)


# A run's claims


def test_a_run_that_ends_claims_what_it_has_copied_however_short_it_was(tmp_path: Path) -> None:
    config = config_of(tmp_path, sources={"eu": "orders"}, completeness={"allowed_lateness": "10s"})
    watch = CompletenessWatch(InForce(config), lambda _: None, (1_000,))
    watch.keeper.earlier = ()
    state = State(config, plan=plan_of(config, eu=["orders"]))
    at_its_end = replace(state, partitions={SP: Partition(Stage.DONE)})
    log = {SP: LogId("EU", "eu-orders")}
    mark = Mark(2.2, NOON_MS, "EU", {"orders": "eu-orders"}, {"orders": 1}, {SP: 7})
    begun = EngineProgress(state, log, Positions({SP: 7}), {}, None, 2.0, NOON_MS)
    ended = replace(begun, state=at_its_end, marks={"eu": mark}, at=2.5)
    watch.follow(Now(config, state.plan, CheckpointState(), progress=begun))
    assert not watch.heard()
    # So soon after the claims before nothing is claimed, but by the last ones.
    for last, claimed in ((False, None), (True, NOON_MS - 1 - 10_000)):
        progress = replace(ended, last=last)
        watch.follow(Now(config, state.plan, CheckpointState(), progress=progress))
        assert {it.up_to_ms for it in watch.latest} == {claimed}
    assert {*watch.heard()} == {"eu"}


# Late records


def test_a_record_is_late_when_all_of_its_bucket_is_below_a_claim_that_was_made_before() -> None:
    late = LateCounts((1_000, 20_000))
    claimed: dict[str, int | None] = {"eu": NOON_MS}
    late.follow({"eu": (0, 0, 0)}, claimed, NOON_MS)
    # These may have come before the claim, and no report has shown them yet.
    assert late.follow({"eu": (5, 5, 5)}, claimed, NOON_MS + 100) == {"eu": 0}
    # By then the claim is 9 s ago. The second bucket begins above 1 s, the third above 20 s.
    assert late.follow({"eu": (6, 7, 8)}, claimed, NOON_MS + 9_000) == {"eu": 3}


def test_nothing_is_late_where_nothing_is_claimed() -> None:
    late = LateCounts((1_000,))
    late.follow({"eu": (0, 0)}, {"eu": None}, NOON_MS)
    assert late.follow({"eu": (0, 9)}, {"eu": None}, NOON_MS + 60_000) == {"eu": 0}


def test_what_is_certainly_late_is_counted_once() -> None:
    late = LateCounts((1_000, 2_000))
    for step in range(4):
        at = NOON_MS + step * REPORTED_MS
        found = late.follow({"eu": (9, 9, step)}, {"eu": NOON_MS + 20_000}, at)
    assert found == {"eu": 3}


# The table


def test_the_newest_claims_are_read_and_none_goes_back_by_a_row_that_came_late(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path)
    assert table.newest() == ()
    first = claim(NOON_MS, "eu", lost=Lost(3, 1), laggard=HELD, cluster_id="E", hub_id="H")
    table.append([claim(), first], NOON_MS)
    assert set(table.newest("orders")) == {claim(), first}
    table.append([claim(NOON_MS - 5, "eu", cluster_id="E", hub_id="H")], NOON_MS + 1)
    (eu,) = [it for it in table.newest() if it.source]
    assert eu.up_to_ms == NOON_MS
    # Another cluster is another matter.
    table.append([claim(None, "eu", cluster_id="F", hub_id="H")], NOON_MS + 2)
    (eu,) = [it for it in table.newest() if it.source]
    assert eu.up_to_ms is None
    assert table.newest("payments") == ()


CLAIM = st.builds(
    Claim,
    st.sampled_from((None, "eu", "us")),
    st.sampled_from(("", "orders", "zahlungen-ä")),
    st.none() | st.integers(0, NOON_MS),
    st.none()
    | st.builds(
        Laggard,
        st.sampled_from(("", "eu")),
        st.sampled_from(("away", "gap")),
        st.text(max_size=3),
        st.sampled_from(("", "orders")),
        st.none() | st.integers(0, 9),
    ),
    st.builds(Lost, st.integers(0, 9), st.integers(0, 9)),
    st.lists(st.text(max_size=3), max_size=2).map(tuple),
    st.sampled_from(("", "EU")),
    st.sampled_from(("", "HUB")),
)


@examples(100)
@given(st.lists(CLAIM, min_size=1, max_size=5))
def test_rows_made_by_columns_are_those_of_their_model(claims: list[Claim]) -> None:
    model = RowModel(ClaimRow)
    rows = [
        ClaimRow(
            at=to_moment(NOON_MS + 7),
            source=it.source,
            topic=it.topic,
            up_to=None if it.up_to_ms is None else to_moment(it.up_to_ms),
            lost=it.lost.offsets,
            gaps=it.lost.gaps,
            laggard_source=it.laggard.source if it.laggard else None,
            laggard_topic=it.laggard.topic if it.laggard else None,
            laggard_partition=it.laggard.partition if it.laggard else None,
            why=it.laggard.why if it.laggard else None,
            reason=it.laggard.reason if it.laggard else None,
            topics=it.topics,
            cluster_id=it.cluster_id,
            hub_cluster_id=it.hub_id,
        )
        for it in claims
    ]
    plain = pa.Table.from_pylist([model.row(it) for it in rows], schema=model.schema)
    assert rows_of(claims, NOON_MS + 7).equals(plain)


HISTORY = st.lists(
    st.tuples(
        st.sampled_from((None, "eu", "us")),
        st.sampled_from(("orders", "payments")),
        st.none() | st.integers(1, 5),
        st.sampled_from(((), ("orders",), ("orders", "more"))),
        st.sampled_from(("", "E", "F")),
    ),
    min_size=1,
    max_size=14,
)


@examples(200)
@given(HISTORY, st.integers(0, 14))
def test_rows_that_are_not_read_change_nothing(
    rows: list[tuple[str | None, str, int | None, tuple[str, ...], str]], cut: int
) -> None:
    tables = [
        rows_of([Claim(who, topic, up_to, None, Lost(), topics, cluster)], at)
        for at, (who, topic, up_to, topics, cluster) in enumerate(rows)
    ]

    def newest(found: pa.Table) -> list[Claim]:
        known: dict[tuple[str | None, str], Claim] = {}
        for row in found.to_pylist():
            it = claim_of(RowModel(ClaimRow).item(row))
            known[it.source, it.topic] = merged(known.get((it.source, it.topic)), it)
        return sorted(known.values(), key=str)

    everything = pa.concat_tables(tables)
    assert newest(what_counts(everything)) == newest(everything)
    # Nor where they are left out part by part.
    parts = [what_counts(pa.concat_tables(it)) for it in (tables[:cut], tables[cut:]) if it]
    assert newest(what_counts(pa.concat_tables(parts).sort_by("at"))) == newest(everything)


def test_of_a_long_history_the_newest_hour_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, hour = table_of(tmp_path), 3_600_000
    read: list[int] = []

    def counted(rows: pa.Table) -> pa.Table:
        read.append(rows.num_rows)
        return what_counts(rows)

    monkeypatch.setattr(claim_table, "what_counts", counted)
    table.append([claim(7), claim(8, "eu"), claim(9, "gone")], NOON_MS - 24 * hour)
    table.append([claim(7), claim(8, "eu")], NOON_MS - 2 * hour)
    old = {*(tmp_path / "completeness").glob("*.parquet")}
    for minute in range(60):
        table.append([claim(10 + minute), claim(11 + minute, "eu")], NOON_MS + minute * 60_000)
    assert set(table.newest()) == {claim(69), claim(70, "eu")}
    assert read == [120]
    # Files of which all rows are older are not even opened.
    for file in old:
        file.rename(file.with_suffix(".away"))
    assert set(table.newest("orders")) == {claim(69), claim(70, "eu")}
    for file in old:
        file.with_suffix(".away").rename(file)
    assert table.newest("payments") == ()
    monkeypatch.setattr(claim_table, "MOST_ROWS", 7)
    table.maintain(NOON - timedelta(days=7))
    read.clear()
    assert set(table.newest()) == {claim(69), claim(70, "eu")}
    assert sum(read) < 140


def test_what_is_not_claimed_for_now_is_written_with_the_rest(tmp_path: Path) -> None:
    config = config_of(tmp_path, completeness={"keep": "7d"})
    now_ms = time.time_ns() // 1_000_000
    recent, expired = claim(now_ms - 5_000, "eu"), claim(now_ms - 8 * 86_400_000, "us")
    unknown = replace(claim(None, "asia"), laggard=Laggard("asia", "not_taken"))
    whole = claim(now_ms, None)
    table = table_of(tmp_path)
    table.append([recent, expired, unknown], now_ms - 3 * 86_400_000)
    keeper = Keeper(InForce(config), lambda _: None)
    keeper._turn(last=False)
    keeper.take((whole,))
    keeper._turn(last=False)
    assert set(table.newest()) == {recent, unknown, whole}
    # And every hour, also when it was not claimed any more.
    keeper.take((recent,))
    keeper._next_care = 0.0
    keeper._turn(last=False)
    newest = max(row.at for row in table._log.items())
    assert {row.source for row in table._log.items() if row.at == newest} == {"eu", "asia", None}


def test_old_rows_go(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    assert table.maintain(NOON) == 0
    table.append([claim(NOON_MS - 9)], NOON_MS - 9)
    table.append([claim()], NOON_MS)
    assert table.maintain(NOON) == 1
    assert table.newest() == (claim(),)


def test_a_keeper_reads_what_was_and_writes_what_has_changed(tmp_path: Path) -> None:
    config = config_of(tmp_path, completeness={"interval": 1})
    table_of(tmp_path).append([claim(NOON_MS - 9)], NOON_MS - 9)
    keeper = Keeper(InForce(config), lambda _: None)
    seen = [keeper.earlier]
    keeper._turn(last=False)
    assert [*seen, keeper.earlier] == [None, (claim(NOON_MS - 9),)]
    keeper.take((claim(),))
    keeper._turn(last=True)
    keeper._turn(last=True)
    files = list((tmp_path / "completeness").glob("*.parquet"))
    assert len(files) == 2
    assert table_of(tmp_path).newest() == (claim(),)


def test_a_keeper_is_woken_for_what_it_has_to_write_alone(tmp_path: Path) -> None:
    keeper = Keeper(InForce(config_of(tmp_path, completeness={"interval": 3_600})), lambda _: None)
    woken: list[bool] = []
    keeper._loop.wake = lambda: woken.append(True)  # type: ignore[method-assign]
    keeper._turn(last=False)
    keeper.take((claim(),))
    assert len(woken) == 1
    keeper._turn(last=False)
    assert keeper._rest() > 3_000
    keeper.take((claim(),))
    # Not yet: an hour has to pass between two rows.
    keeper.take((claim(NOON_MS + 1),))
    assert len(woken) == 1
    # Of other topics a restart has to know at once.
    keeper.take((replace(claim(), topics=("another",)),))
    assert len(woken) == 2


def test_the_first_topics_of_a_source_are_written_at_once(tmp_path: Path) -> None:
    keeper = Keeper(InForce(config_of(tmp_path, completeness={"interval": 3_600})), lambda _: None)
    woken: list[bool] = []
    keeper._loop.wake = lambda: woken.append(True)  # type: ignore[method-assign]
    listing = replace(claim(NOON_MS, "us"), topic="", topics=("0a",))
    for claims in ((listing,), (listing, claim(None, "us"))):
        keeper.take(claims)
        keeper._turn(last=False)
    keeper.take((listing, claim(NOON_MS, "us")))
    assert len(woken) == 2


def test_a_table_that_cannot_be_written_is_logged_once_and_nothing_is_claimed(
    tmp_path: Path,
) -> None:
    (log := tmp_path / "completeness" / "_delta_log").mkdir(parents=True)
    (log / f"{0:020}.json").write_text("")
    events: list[Event] = []
    failed = threading.Event()

    def emit(event: Event) -> None:
        events.append(event)
        failed.set()

    keeper = Keeper(InForce(config_of(tmp_path)), emit)
    keeper.start()
    assert failed.wait(30)
    keeper.stop()
    assert keeper.earlier is None
    assert keeper.failing
    assert [it.kind for it in events] == ["completeness_failed"]


def test_a_table_that_takes_no_rows_fails_until_it_takes_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Event] = []
    config = config_of(tmp_path, completeness={"interval": 3_600})
    keeper = Keeper(InForce(config), events.append)
    keeper._loop.take_turn()
    keeper.take((claim(),))

    def refuse(*_: object) -> None:
        raise CheckpointError("the disk is full")

    with monkeypatch.context() as full:
        full.setattr(keeper._table, "append", refuse)
        keeper._loop.take_turn()
        # Nothing is due before the interval is over, and that says nothing of the table.
        keeper._loop.take_turn()
    assert keeper.failing == "the disk is full"
    keeper._next_rows = 0.0
    keeper._loop.take_turn()
    assert not keeper.failing
    assert [it.kind for it in events] == ["completeness_failed", "completeness_back"]
    assert table_of(tmp_path).newest() == (claim(),)


# Asked and waited for


def test_how_far_it_is_is_read_without_an_instance(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert complete_up_to(config, "orders") is None
    table_of(tmp_path).append([claim(), claim(NOON_MS + 60_000, "eu")], NOON_MS)
    assert complete_up_to(config, "orders") == NOON
    assert complete_up_to(config, "orders", "eu") == NOON + timedelta(minutes=1)
    assert complete_up_to(config, "orders", "us") is None
    assert wait_until_complete(config, "orders", NOON).up_to == NOON
    with pytest.raises(NotCompleteError, match="complete up to 2026-11-24T12:00:00") as late:
        wait_until_complete(config, "orders", NOON + timedelta(milliseconds=1), timeout=0)
    assert late.value.found is not None
    with pytest.raises(ValueError, match="UTC offset"):
        wait_until_complete(config, "orders", datetime(2026, 11, 24))  # noqa: DTZ001


def test_a_wait_ends_when_a_row_says_so(tmp_path: Path) -> None:
    table = table_of(tmp_path)
    table.append([claim(NOON_MS - 1)], NOON_MS)
    write = threading.Timer(0.5, lambda: table.append([claim()], NOON_MS + 1))
    write.start()
    assert wait_until_complete(config_of(tmp_path), "orders", NOON, timeout=60).up_to == NOON
    write.join()


def test_of_a_source_that_may_feed_a_hub_topic_its_listing_is_what_is_claimed(
    tmp_path: Path,
) -> None:
    config = config_of(tmp_path)
    listing = replace(claim(NOON_MS, "us"), topic="", topics=(selects(config, "us"),))
    payments = replace(claim(NOON_MS + 1), topic="payments")
    table_of(tmp_path).append([claim(NOON_MS + 1), payments, listing], NOON_MS)
    assert complete_up_to(config, "orders", "us") == NOON
    assert complete_up_to(config, "orders", "eu") is None
    # Of no other hub topic, nor where something else is selected by now.
    assert complete_up_to(config, "clicks", "us") is None
    other = config_of(tmp_path, sources={"us": "orders"})
    assert complete_up_to(other, "orders", "us") is None


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *args: str, code: int = EXIT_DONE) -> str:
        sets = (
            "hub.bootstrap_servers=127.0.0.1:9",
            "sources.eu.bootstrap_servers=127.0.0.1:10",
            "sources.eu.topics.include=orders",
            "api.listen=off",
            f"checkpoint.path={self.folder}",
        )
        flags = [part for item in sets for part in ("--set", item)]
        result = CliRunner().invoke(app, ["wait", *args, *flags], env={"COLUMNS": "200"})
        assert result.exit_code == code, result.output
        return result.stdout if code in (EXIT_DONE, EXIT_DATA) else result.stderr


UNTIL = ("--topic", "orders", "--until", "2026-11-24T12:00Z")


def test_the_command_ends_with_0_when_it_is_complete_and_shows_what_was_lost(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path)
    table_of(tmp_path).append([claim(lost=Lost(7, 1))], NOON_MS)
    assert json.loads(shell(*UNTIL, "-o", "json")) == {
        "topic": "orders",
        "source": None,
        "up_to": "2026-11-24T12:00:00Z",
        "laggard": None,
        "lost": 7,
        "gaps": 1,
    }
    assert "2026-11-24 12:00:00" in shell(*UNTIL)
    shell(*UNTIL, "--strict", code=EXIT_DATA)


def test_the_command_ends_with_5_when_the_time_is_over_and_names_who_holds_it_up(
    tmp_path: Path,
) -> None:
    shell = Shell(tmp_path)
    late = ("--timeout", "0s")
    assert "nothing is claimed of hub topic orders" in shell(*UNTIL, *late, code=EXIT_NOT_YET)
    table_of(tmp_path).append([claim(NOON_MS - 1, laggard=HELD)], NOON_MS)
    said = shell(*UNTIL, *late, code=EXIT_NOT_YET)
    assert "us/orders-3 is paused: paused since noon" in said
    assert "nothing is claimed" in shell(*UNTIL, *late, "--source", "eu", code=EXIT_NOT_YET)


@pytest.mark.parametrize(
    "more", [("--timeout", "soon"), ("--source", "mars"), ("--until", "2026-11-24T12:00")]
)
def test_the_command_refuses_what_it_cannot_wait_for(tmp_path: Path, more: tuple[str, ...]) -> None:
    assert more[1] in Shell(tmp_path)(*UNTIL, *more, code=EXIT_CONFIG)


# Shown


def test_the_status_shows_each_claim_with_its_laggard() -> None:
    shown = completeness_of([claim(laggard=HELD), claim(None, "us")], 120.0, {"us": 4})
    assert shown.topics[0].up_to == to_moment(NOON_MS)
    assert shown.topics[0].laggard is not None
    assert shown.topics[0].laggard.words == "us/orders-3 is paused: paused since noon"
    assert (shown.topics[1].source, shown.topics[1].up_to, shown.late) == ("us", None, {"us": 4})
    # What is claimed where nothing of a source flows is of no one topic.
    assert not completeness_of([replace(claim(), source="us", topic="")], 120.0, {}).topics


@pytest.mark.parametrize(
    ("setting", "value"), [("allowed_lateness", -1), ("interval", 0), ("keep", "1s")]
)
def test_settings_that_make_no_sense_are_refused(setting: str, value: object) -> None:
    with pytest.raises(ValueError, match=setting):
        config_of(completeness={setting: value})


def test_the_lateness_that_is_allowed_is_that_of_kafkas_producers() -> None:
    assert config_of().completeness.allowed_lateness == 120
