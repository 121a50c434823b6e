"""Where a consumer group continues at the hub, compared with the truth from every record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.features.groups.hub_offsets import (
    REASONS,
    ApplyRules,
    Commits,
    HubPlace,
    HubScan,
    Marked,
    OriginFeed,
    PlaceVerdict,
    is_active,
    judge,
    mark_of,
    matching,
    plan_topics,
    unread_losses,
)
from aggregator.features.groups.hub_offsets import KnownPosition as Known
from aggregator.features.groups.hub_scan import SharedScan, plan_shared
from aggregator.model.values import LogId, OffsetRange, Route, SourcePartition, TopicPartition
from aggregator.plan.failover import NativeCount
from aggregator.plan.positions.start import Gap, GapKind
from support.examples import examples

HUB = TopicPartition("orders", 0)


def origin(number: int) -> SourcePartition:
    return SourcePartition("eu", "orders", number)


@dataclass
class History:
    """What was written, in the order of time: a hub partition, and a moment of commits beside.

    `records` of each hub partition are (hub offset, source partition, source offset). `moments` are
    (positions, hub ends), as exact as a commit can be.
    """

    records: list[list[tuple[int, int, int]]]
    ends: list[int]
    moments: list[tuple[dict[int, int], list[int]]] = field(default_factory=list)

    def brute(self, commits: Mapping[int, int], hub: int) -> tuple[int, int]:
        """By its meaning: the place in a hub partition, and how many records are read again."""
        rows = self.records[hub]
        firsts = [
            min((offset for offset, p, at in rows if p == own and at >= c), default=self.ends[hub])
            for own, c in commits.items()
        ]
        place = min(firsts)
        again = sum(offset >= place and at < commits.get(p, 0) for offset, p, at in rows)
        return place, again


@st.composite
def histories(draw: st.DrawFn) -> tuple[History, dict[int, int]]:
    """Some source partitions into some hub partitions, with holes on both sides, and commits."""
    sources = draw(st.integers(1, 4))
    hubs = draw(st.integers(1, 3))
    history = History([[] for _ in range(hubs)], [0] * hubs)
    positions = dict.fromkeys(range(sources), 0)
    steps = draw(
        st.lists(
            st.tuples(
                st.integers(0, sources - 1),
                st.integers(0, hubs - 1),
                st.integers(0, 3),
                st.integers(0, 2),
                st.booleans(),
            ),
            max_size=60,
        )
    )
    history.moments.append((dict(positions), list(history.ends)))
    for source, hub, hole, hub_hole, commits in steps:
        # Compaction and transactions leave holes at both ends.
        at = positions[source] + (hole if hole < 3 else 0)
        offset = history.ends[hub] + (hub_hole if hub_hole < 2 else 0)
        history.records[hub].append((offset, source, at))
        positions[source], history.ends[hub] = at + 1, offset + 1
        if commits:
            history.moments.append((dict(positions), list(history.ends)))
    wanted = {it: draw(st.integers(0, positions[it] + 3)) for it in positions}
    # Others write there as well, and of some partitions the group knows nothing.
    kept = draw(st.sets(st.sampled_from(sorted(wanted)), min_size=1))
    return history, {it: at for it, at in wanted.items() if it in kept}


def feed_of(history: History, own: int, commit: int, hub: int, slack: int) -> OriginFeed:
    """The bounds as the history proves them; a commit's hub ends may be older than its moment."""
    early = [ends[hub] for positions, ends in history.moments if positions[own] <= commit]
    late = [ends[hub] for positions, ends in history.moments if positions[own] >= commit]
    return OriginFeed(commit, max(0, max(early) - slack), min(late) + slack if late else None)


def scanned(
    history: History, feeds: Mapping[int, OriginFeed], hub: int, most: int | None = None
) -> HubScan:
    log = OffsetRange(0, history.ends[hub])
    scan = HubScan({origin(it): feed for it, feed in feeds.items()}, log, most)
    for offset, p, at in history.records[hub]:
        if scan.done:
            break
        if offset >= scan.start:
            scan.take(offset, origin(p), at)
    return scan


@given(histories(), st.integers(0, 5), st.booleans())
@examples(500)
def test_nothing_is_missed_and_what_is_read_again_is_what_was_said(
    drawn: tuple[History, dict[int, int]], slack: int, in_order: bool
) -> None:
    history, commits = drawn
    for hub, rows in enumerate(history.records):
        feeds = {it: feed_of(history, it, at, hub, slack) for it, at in commits.items()}
        feeds = {it: replace(feed, in_order=in_order) for it, feed in feeds.items()}
        scan = scanned(history, feeds, hub)
        place, again = history.brute(commits, hub)
        assert (scan.place, scan.again) == (place, again)
        missed = [
            row for row in rows if row[0] < scan.place and row[2] >= commits.get(row[1], 2**63)
        ]
        assert missed == []
        if len({p for _, p, _ in rows} & set(commits)) == 1:
            assert scan.again == 0


@given(histories(), st.integers(1, 4))
def test_a_reading_that_is_cut_short_misses_nothing_either(
    drawn: tuple[History, dict[int, int]], most: int
) -> None:
    history, commits = drawn
    for hub in range(len(history.records)):
        feeds = {it: feed_of(history, it, at, hub, 0) for it, at in commits.items()}
        scan = scanned(history, feeds, hub, most)
        place, again = history.brute(commits, hub)
        assert scan.place <= place
        assert scan.read <= most
        if scan.counted:
            assert (scan.place, scan.again) == (place, again)


def take(scan: HubScan, rows: Sequence[tuple[int, int, int]]) -> list[int]:
    """Hand in rows until it is done; the hub offsets that were read."""
    read = []
    for offset, p, at in rows:
        if scan.done:
            break
        scan.take(offset, origin(p), at)
        read.append(offset)
    return read


@given(histories(), st.lists(st.integers(0, 12), min_size=1, max_size=4), st.integers(1, 40))
def test_groups_that_are_read_together_find_what_each_finds_alone(
    drawn: tuple[History, dict[int, int]], less: list[int], most: int
) -> None:
    """And no record is read that none of them would read, but for what lies within their reach."""
    history, commits = drawn
    behind = [{it: max(0, at - each) for it, at in commits.items()} for each in less]
    for hub, rows in enumerate(history.records):
        logs = OffsetRange(0, history.ends[hub])
        feeds = [
            {origin(it): feed_of(history, it, at, hub, 0) for it, at in own.items()}
            for own in behind
        ]
        alone = [HubScan(own, logs, most) for own in feeds]
        for each in alone:
            take(each, [row for row in rows if row[0] >= each.start])
        scans = [HubScan(own, logs, most) for own in feeds]
        for turn in plan_shared([{HUB: scan} for scan in scans], most):
            (shared,) = turn.values()
            for offset, p, at in rows:
                if offset >= shared.start and not shared.done:
                    shared.take(offset, origin(p), at)
            # The end of the log.
            shared.done = True
        found = [(it.place, it.again, it.counted, it.read, it.found) for it in scans]
        assert found == [(it.place, it.again, it.counted, it.read, it.found) for it in alone]


FEEDS = st.dictionaries(
    st.sampled_from((origin(0), origin(1))),
    st.builds(
        OriginFeed,
        st.integers(0, 40),
        st.integers(0, 40),
        st.none() | st.integers(0, 60),
        st.booleans(),
    ),
)
SCANS = st.lists(
    st.tuples(FEEDS, st.none() | st.integers(1, 40), st.none() | st.integers(0, 40)),
    min_size=1,
    max_size=3,
)
RUNS = st.lists(
    st.tuples(
        st.sampled_from((None, origin(0), origin(1), origin(2))),
        st.integers(1, 12),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
    max_size=12,
)


@given(SCANS, RUNS)
@examples(500)
def test_a_run_of_records_says_what_its_records_say_one_by_one(
    drawn: list[tuple[dict[SourcePartition, OriginFeed], int | None, int | None]],
    drawn_runs: list[tuple[SourcePartition | None, int, int, int]],
) -> None:
    end, runs = 0, []
    positions = dict.fromkeys((None, origin(0), origin(1), origin(2)), 0)
    for sp, records, hub_hole, hole in drawn_runs:
        at = positions[sp] + hole
        runs.append((end + hub_hole, sp, at, records))
        end, positions[sp] = end + hub_hole + records, at + records
    log = OffsetRange(0, end)

    def found(*, whole: bool) -> list[tuple[object, ...]]:
        scans = [HubScan(feeds, log, most, pin) for feeds, most, pin in drawn]
        waiting = [it for it in scans if not it.done]
        shared = SharedScan(waiting) if waiting else NativeCount(log, 0, 1)
        native = NativeCount(log, end - 3, 20)
        for scan in (shared, native):
            for offset, sp, at, records in runs:
                # A run may begin before the scan does, but is then cut there by its reader.
                cut = min(max(0, scan.start - offset), records)
                for more in (cut,) if whole else range(cut, records):
                    if cut < records and not scan.done:
                        taken = records - cut if whole else 1
                        scan.take(offset + more, sp, at + more, taken)
        kept = [(it.place, it.again, it.counted, it.read, it.found, it.done) for it in scans]
        return [*kept, (native.found, native.read, native.done)]

    assert found(whole=True) == found(whole=False)


def test_a_group_far_behind_is_read_by_itself_and_the_others_once() -> None:
    log = OffsetRange(0, 1_000)
    starts = [0, 5, 900, 905, 8]
    scans = [HubScan({origin(0): OriginFeed(at, lower=at)}, log, 10) for at in starts]
    turns = plan_shared([{HUB: it} for it in scans], 10)
    assert [turn[HUB].start for turn in turns] == [0, 900]
    for turn in turns:
        shared = turn[HUB]
        for offset in range(shared.start, 1_000):
            if not shared.done:
                shared.take(offset, origin(0), offset)
    assert all(it.done and it.place == at for it, at in zip(scans, starts, strict=True))
    # Once for all, and nothing between the two ranges.
    assert [turn[HUB].read for turn in turns] == [9, 6]
    # Without a limit each may need all up to the end.
    endless = [{HUB: HubScan({origin(0): OriginFeed(at, lower=at)}, log)} for at in starts]
    assert len(plan_shared(endless, None)) == 1


def test_reading_ends_where_no_older_record_can_follow() -> None:
    rows = [(offset, 0, offset) for offset in range(1000)]
    feeds = {origin(0): OriginFeed(500, lower=480), origin(1): OriginFeed(7, lower=0, upper=510)}
    scan = HubScan(feeds, OffsetRange(0, 1000))
    assert scan.start == 0
    scan = HubScan({**feeds, origin(1): OriginFeed(7, lower=490, upper=510)}, OffsetRange(0, 1000))
    assert scan.start == 480
    assert take(scan, rows[480:])[-1] == 509
    assert (scan.place, scan.again, scan.read) == (500, 0, 30)
    scan = HubScan({**feeds, origin(1): OriginFeed(7, lower=490, upper=510)}, OffsetRange(0, 1000))
    scan.take(480, origin(0), 480, 520)
    assert (scan.place, scan.again, scan.read, scan.done) == (500, 0, 30, True)


def test_a_partition_that_was_set_back_is_read_to_the_end() -> None:
    rows = [(offset, 0, offset) for offset in range(100)] + [(100, 0, 3)]
    scan = HubScan({origin(0): OriginFeed(50, 50, 60, in_order=False)}, OffsetRange(0, 101))
    assert take(scan, rows[50:])[-1] == 100
    assert (scan.place, scan.again) == (50, 1)


def test_records_of_a_topic_before_are_no_place() -> None:
    # Of the topic that was there before, by the same name.
    rows = [(offset, 0, offset) for offset in range(20)] + [(20, 1, 0), (21, 0, 0), (22, 0, 1)]
    feeds = {origin(0): OriginFeed(1, lower=20), origin(1): OriginFeed(0, lower=0)}
    scan = HubScan(feeds, OffsetRange(0, 23))
    assert take(scan, rows)[-1] == 22
    assert (scan.place, scan.again) == (20, 1)


def test_nothing_to_read_is_done_at_once() -> None:
    scan = HubScan({origin(0): OriginFeed(5, lower=70)}, OffsetRange(3, 70))
    assert (scan.done, scan.place, scan.again, scan.found) == (True, 70, 0, False)


NOW = {("eu", "orders"): LogId("c", "t"), ("us", "orders"): LogId("d", "u")}
ROUTES = (Route("eu", "orders", "all", 2, 3), Route("us", "orders", "all", 1, 3))
HUB_IDS = ("h", "h")
US0 = SourcePartition("us", "orders", 0)


def known(**changed: Known) -> dict[SourcePartition, Known]:
    found = {
        origin(0): Known(10, NOW["eu", "orders"]),
        origin(1): Known(5, NOW["eu", "orders"]),
    }
    return {**found, **({US0: changed["us"]} if "us" in changed else {})}


def test_a_partition_without_a_commit_was_not_read() -> None:
    (wanted,) = plan_topics(
        {"eu": {TopicPartition("orders", 0): 12}}, ROUTES, known(), NOW, HUB_IDS, {"all"}
    )
    # Nor does a source count at which the group is not.
    assert wanted.commits == {origin(0): 12, origin(1): 0}
    assert wanted.waiting == {origin(0): 2}
    assert wanted.refusals == ()
    assert plan_topics({"eu": {}}, ROUTES, known(), NOW, HUB_IDS, {"all"}) == ()


@pytest.mark.parametrize(
    ("us", "now", "hub_ids", "hub_topics", "reason"),
    [
        (None, {}, HUB_IDS, {"all"}, "us/orders-0 has no position in the checkpoint"),
        (
            Known(1, LogId("", "u")),
            {},
            HUB_IDS,
            {"all"},
            "ids of its cluster or topic are not",
        ),
        (Known(1, LogId("x", "u")), {}, HUB_IDS, {"all"}, "us is cluster d now"),
        (
            Known(1, LogId("d", "x")),
            {},
            HUB_IDS,
            {"all"},
            "us/orders: the topic was created again",
        ),
        (
            Known(1, LogId("d", "u")),
            {("us", "orders"): LogId("d", "")},
            HUB_IDS,
            {"all"},
            "ids of",
        ),
        (Known(1, LogId("d", "u")), {}, HUB_IDS, set(), "hub topic all is not there"),
        (
            Known(1, LogId("d", "u")),
            {},
            ("h", "other"),
            {"all"},
            "the hub is cluster other now",
        ),
        (Known(1, LogId("d", "u")), {}, ("", "h"), {"all"}, "what was copied is in ?"),
    ],
)
def test_what_cannot_be_proven_is_refused(
    us: Known | None,
    now: dict[tuple[str, str], LogId],
    hub_ids: tuple[str, str],
    hub_topics: set[str],
    reason: str,
) -> None:
    commits = {"us": {TopicPartition("orders", 0): 1}}
    positions = known() if us is None else known(us=us)
    (wanted,) = plan_topics(commits, ROUTES, positions, {**NOW, **now}, hub_ids, hub_topics)
    (refusal,) = wanted.refusals
    assert reason in refusal


MINE, BEFORE = mark_of("central", {"eu": {HUB: 7}}), mark_of("central", {"eu": {HUB: 6}})
OTHER = mark_of("other", {"eu": {HUB: 7}})


@pytest.mark.parametrize(
    ("committed", "active", "verdict", "keeping", "refining"),
    [
        (None, False, "write", "write", "write"),
        (None, True, "active", "active", "active"),
        # Ours, by what the group has committed at its sources now, or had then.
        (Marked(10, MINE), False, "same", "same", "same"),
        (Marked(10, MINE), True, "same", "same", "same"),
        (Marked(9, MINE), False, "write", "kept", "write"),
        (Marked(10, BEFORE), False, "write", "write", "write"),
        (Marked(9, BEFORE), False, "write", "write", "write"),
        (Marked(9, BEFORE), True, "active", "active", "active"),
        (Marked(11, BEFORE), False, "backwards", "backwards", "backwards"),
        # A consumer's, a person's, another aggregation's: only a command moves these.
        (Marked(10), False, "write", "same", "same"),
        (Marked(9), False, "write", "others", "others"),
        (Marked(9, OTHER), False, "write", "others", "others"),
        (Marked(11), False, "backwards", "others", "others"),
    ],
)
def test_what_is_written_of_a_place(
    committed: Marked | None, active: bool, verdict: str, keeping: str, refining: str
) -> None:
    place = HubPlace(HUB, 10, 0)

    def judged(**rules: bool) -> str:
        return judge(place, committed, MINE, ApplyRules(**rules), active=active)

    assert judged() == verdict
    assert judged(keeping=True) == keeping
    assert judged(keeping=True, refine=True) == refining
    if verdict == "backwards":
        assert judged(allow_backwards=True) == "write"
    assert set(REASONS) == set(PlaceVerdict)


def test_a_mark_says_who_wrote_and_by_which_commits() -> None:
    one, two = {TopicPartition("a", 0): 1}, {TopicPartition("a", 1): 2}
    assert mark_of("n", {"eu": {**one, **two}}) == mark_of("n", {"eu": {**two, **one}})
    commits: list[Commits] = [{"eu": one}, {"us": one}, {"eu": two}, {"eu": one, "us": one}]
    assert len({mark_of("n", it) for it in commits}) == len(commits)


@given(histories(), st.data())
def test_records_of_another_cluster_by_the_same_alias_hide_nothing(
    drawn: tuple[History, dict[int, int]], data: st.DataObject
) -> None:
    """An origin is an alias, not a log: what another aggregation wrote may be called the same."""
    history, commits = drawn
    claims = st.tuples(st.sampled_from(sorted(commits)), st.integers(0, 30))
    for hub, rows in enumerate(history.records):
        place, _ = history.brute(commits, hub)
        feeds = {it: feed_of(history, it, at, hub, 0) for it, at in commits.items()}
        claimed = [
            (offset, p, at) if p in commits else (offset, *data.draw(claims))
            for offset, p, at in rows
        ]
        records = [*history.records[:hub], claimed, *history.records[hub + 1 :]]
        assert scanned(replace(history, records=records), feeds, hub).place <= place


def test_a_gap_counts_when_the_group_has_not_read_all_of_it() -> None:
    def gap(start: int, end: int | None, lost: int | None, partition: int = 0) -> Gap:
        return Gap(origin(partition), GapKind.BELOW_EARLIEST, start, end, "", start, lost)

    commits = {origin(0): 10, origin(1): 0}
    assert unread_losses(commits, [gap(5, 10, 5), gap(12, 13, 0), gap(1, 2, 1, partition=7)]) == 0
    assert unread_losses(commits, [gap(5, 11, 6), gap(8, None, None), gap(0, 1, 1, 1)]) == 3


def test_a_state_that_is_not_known_is_taken_for_an_active_one() -> None:
    assert [it for it in ("", "EMPTY", "DEAD") if is_active(it)] == []
    states = ("STABLE", "PREPARING_REBALANCING", "COMPLETING_REBALANCING", "UNKNOWN")
    assert all(is_active(it) for it in states)


def test_patterns_take_whole_names_and_none_that_we_publish() -> None:
    groups = ["analytics-a", "analytics-b", "x-analytics-a", "aggregator-central"]
    assert matching(groups, ["analytics-.*"], ["analytics-b"]) == ["analytics-a"]
    assert matching(groups, [".*"], []) == ["analytics-a", "analytics-b", "x-analytics-a"]
    assert matching(groups, [], []) == []
