"""What lands next, how a table's history says how far it is, and which columns it gets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aggregator.features.delta_sink.landed_commits import (
    PROPERTY,
    Cloned,
    RestoredByTime,
    Said,
    TableCommit,
    Unclear,
    from_history,
    number_of,
    to_metadata,
)
from aggregator.features.delta_sink.next_batch import (
    FIRST_LIMIT,
    LEAST_LIMIT,
    MOST_LIMIT,
    Batch,
    Landed,
    LostBefore,
    Receded,
    lag_of,
    plan_batch,
    plan_beginning,
    plan_limit,
    plan_rest,
    reached,
)
from aggregator.features.delta_sink.topic_progress import (
    MOST_LOOKS,
    LogSeen,
    plan_seen,
    seconds_behind,
)
from aggregator.features.delta_sink.value_columns import EMPTY, Struct, count_columns, plan_columns
from aggregator.model.values import OffsetRange
from support.examples import examples


def logs(*ranges: tuple[int, int]) -> dict[int, OffsetRange]:
    return {at: OffsetRange(*it) for at, it in enumerate(ranges)}


def planned(landed: Landed, of: dict[int, OffsetRange], limit: int = 100, topic: str = "t") -> Any:
    return plan_batch(landed, topic, of, limit)


def struct(**fields: Any) -> Struct:
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": of, "nullable": True, "metadata": {}}
            for name, of in fields.items()
        ],
    }


def array(of: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": of, "containsNull": True}


def test_a_topic_lands_from_its_beginning_and_the_next_position_is_kept() -> None:
    batch = planned(Landed(), logs((3, 10), (0, 0)))
    assert (batch.ranges, batch.lost) == (logs((3, 10)), ())
    # Also that of a partition without a record: what comes there and goes before it lands is lost.
    assert batch.after == Landed("t", {0: 10, 1: 0})
    assert planned(batch.after, logs((3, 10), (0, 0))) is None
    batch = planned(batch.after, logs((3, 11), (1, 2)))
    assert (batch.ranges, batch.lost) == (logs((10, 11), (1, 2)), (LostBefore(1, 0, 1),))
    # Nothing has landed yet, and so nothing is lost.
    assert plan_beginning(Landed(), "t", logs((3, 3))) == Landed("t", {0: 3})


def test_what_the_hub_deleted_before_it_landed_is_reported_and_passed() -> None:
    batch = planned(Landed("t", {0: 5}), logs((8, 20)))
    assert batch.lost == (LostBefore(0, 5, 8),)
    assert batch.ranges == logs((8, 20))
    assert lag_of(Landed("t", {0: 5}), logs((8, 20))) == 12
    # Also when nothing is left to land.
    batch = planned(Landed("t", {0: 5}), logs((8, 8)))
    assert (batch.ranges, batch.lost) == (logs((8, 8)), (LostBefore(0, 5, 8),))
    assert planned(batch.after, logs((8, 8))) is None


def test_a_new_partition_begins_at_0_where_all_were_known_before() -> None:
    landed = Landed("t", {0: 5})
    batch = planned(landed, logs((0, 5), (2, 4)))
    assert (batch.ranges, batch.lost) == ({1: OffsetRange(2, 4)}, (LostBefore(1, 0, 2),))
    # An earlier release did not write down those without a record.
    batch = planned(replace(landed, whole=False), logs((0, 5), (2, 4)))
    assert (batch.ranges, batch.lost) == ({1: OffsetRange(2, 4)}, ())


def test_a_topic_that_was_created_again_lands_from_0_and_the_rest_of_the_old_is_named() -> None:
    old = Landed("old", {0: 900, 1: 3}, 7)
    batch = planned(old, logs((1, 4)), topic="new")
    earlier = {"old": old.positions}
    assert (batch.ranges, batch.after) == (logs((1, 4)), Landed("new", {0: 4}, earlier=earlier))
    assert (batch.lost, batch.replaced, batch.follows) == ((LostBefore(0, 0, 1),), old, 7)
    # Also before there is a record in it.
    batch = planned(old, logs((0, 0)), topic="new")
    assert (batch.ranges, batch.after.positions) == (logs((0, 0)), {0: 0})
    assert batch.replaced == old
    # Another hub was named for a while: what has landed of the first one does not land again.
    said = said_by(commit(8, batch))
    assert isinstance(said, Landed)
    back = planned(said, logs((0, 901), (0, 3), (0, 1)), topic="old")
    assert (back.ranges, back.lost) == ({0: OffsetRange(900, 901), 2: OffsetRange(0, 1)}, ())
    assert back.after.earlier == {"new": {0: 0}}


def test_a_log_that_ends_below_what_has_landed_is_not_gone_on_with() -> None:
    found = planned(Landed("t", {0: 900}), logs((0, 4)))
    assert found == Receded(0, 900, 4)
    assert "hub.bootstrap_servers" in str(found)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 500)), min_size=1, max_size=5),
    st.integers(1, 200),
)
@examples(200)
def test_batch_after_batch_everything_lands_once(sizes: list[tuple[int, int]], limit: int) -> None:
    of = logs(*((first, first + size) for first, size in sizes))
    landed, done = Landed(), {at: [] for at in of}  # type: ignore[var-annotated]
    commits: list[TableCommit] = []
    while (batch := plan_batch(landed, "t", of, limit)) is not None:
        assert isinstance(batch, Batch)
        assert batch.offsets <= limit + len(of)
        for at, it in batch.ranges.items():
            assert it.latest > it.earliest
            done[at] += range(it.earliest, it.latest)
        assert number_of(batch) == len(commits)
        commits.insert(0, commit(len(commits), batch))
        said = said_by(*commits)
        assert said == replace(batch.after, version=len(commits) - 1)
        assert isinstance(said, Landed)
        landed = said
    assert done == {at: list(range(it.earliest, it.latest)) for at, it in of.items()}
    assert lag_of(landed, of) == 0
    assert reached(landed, {at: it.latest for at, it in of.items()}, of)


def test_a_batch_is_as_large_as_lands_in_good_time() -> None:
    assert plan_limit(FIRST_LIMIT, FIRST_LIMIT, 1.0) == 2 * FIRST_LIMIT
    assert plan_limit(FIRST_LIMIT, 10, 1.0) == FIRST_LIMIT
    assert plan_limit(FIRST_LIMIT, FIRST_LIMIT, 10.0) == FIRST_LIMIT
    assert plan_limit(FIRST_LIMIT, FIRST_LIMIT, 60.0) == FIRST_LIMIT // 2
    assert plan_limit(LEAST_LIMIT, LEAST_LIMIT, 60.0) == LEAST_LIMIT
    assert plan_limit(MOST_LIMIT, MOST_LIMIT, 1.0) == MOST_LIMIT


def test_what_fails_rests_longer_each_time_up_to_a_minute() -> None:
    assert [plan_rest(failures) for failures in (0, 1, 2, 3, 9, 99)] == [0, 1, 2, 4, 60, 60]


def of_batch(at: int, follows: int = 0) -> Batch:
    """A batch up to offset `at`, behind one of our commits."""
    batch = plan_batch(Landed(version=follows), "t", logs((0, at)), 10**6)
    assert isinstance(batch, Batch)
    return batch


def commit(version: int, batch: Batch, at: int = 0) -> TableCommit:
    return TableCommit(version, "WRITE", to_metadata(batch), {}, at)


def said_by(*commits: TableCommit, all_there: bool = True, **restored: int) -> Said | None:
    """What this history says; `v9=4`: commit 9 restored it to version 4."""
    return from_history(
        commits, {int(at[1:]): it for at, it in restored.items()}, all_there=all_there
    )


OTHERS = [
    TableCommit(9, "OPTIMIZE", None, {}),
    TableCommit(8, "WRITE", "theirs", {}),
    TableCommit(7, "WRITE", "[]", {}),
]
TWO = [commit(6, of_batch(5, follows=5)), commit(5, of_batch(4, follows=-1))]


def test_a_table_says_what_the_newest_of_our_commits_says() -> None:
    assert said_by(*OTHERS, *TWO) == Landed("t", {0: 5}, 6)
    assert said_by(*OTHERS) is None
    # One of an earlier release; whether it has a word for each partition is not known.
    early = '{"aggregator_tee": {"topic_id": "t", "next": {"0": 7}, "lost": []}}'
    assert said_by(TableCommit(7, "WRITE", early, {}), *TWO) == Landed("t", {0: 7}, 7, whole=False)
    # Positions that somebody has set.
    text = json.dumps({PROPERTY: json.dumps({"0": 3, "1": 0})})
    by_hand = TableCommit(10, "SET TBLPROPERTIES", None, {"properties": text})
    assert said_by(by_hand, *OTHERS, *TWO) == Landed("", {0: 3, 1: 0}, 10, whole=False)


def test_a_table_that_was_restored_says_what_the_version_said_that_it_was_restored_to() -> None:
    restored = TableCommit(10, "RESTORE", None, {"version": "5"})
    # What lands next is behind the restore, so it is no commit that was there before.
    assert said_by(restored, *OTHERS, *TWO) == Landed("t", {0: 4}, 10)
    again = TableCommit(11, "RESTORE", None, {"version": "9"})
    assert said_by(again, restored, *OTHERS, *TWO) == Landed("t", {0: 5}, 11)
    by_moment = TableCommit(
        10, "RESTORE", None, {"version": None, "timestamp": "2026-11-27 12:00:00.5"}
    )
    noon = 1_795_780_800_000
    then = [commit(6, of_batch(5, 5), noon + 501), commit(5, of_batch(4, -1), noon - 3_600_000)]
    # The text does not say in which zone: first as in UTC, then an hour off, and so on.
    assert said_by(by_moment, *then) == RestoredByTime(10, (5, 6))
    assert said_by(by_moment, *then, v10=5) == Landed("t", {0: 4}, 10)
    cloned = TableCommit(11, "CLONE", None, {"source": "file:/a", "sourceVersion": "3"})
    assert said_by(cloned, *TWO) == Cloned(11, "file:/a", 3, 11)
    assert said_by(TableCommit(12, "RESTORE", None, {"version": "11"}), cloned) == Cloned(
        11, "file:/a", 3, 12
    )


def test_a_commit_that_does_not_begin_where_the_one_before_it_ended_is_no_word() -> None:
    found = said_by(commit(7, of_batch(9, follows=5)), *TWO)
    assert isinstance(found, Unclear)
    assert "TO VERSION AS OF 6" in found.reason
    # As it says, it is restored.
    restored = TableCommit(8, "RESTORE", None, {"version": "6"})
    assert said_by(restored, commit(7, of_batch(9, follows=5)), *TWO) == Landed("t", {0: 5}, 8)
    # Others may have written between, and not all of them are seen yet.
    beyond = commit(10, of_batch(9, follows=6))
    assert said_by(beyond, *OTHERS, *TWO) == Landed("t", {0: 9}, 10)
    assert said_by(beyond, *OTHERS, all_there=False) is None
    assert said_by(beyond, *OTHERS) == Landed("t", {0: 9}, 10)


def test_a_new_field_is_a_new_column_and_none_changes_its_type() -> None:
    have = struct(a="long", b=struct(c="string"), d=array(struct(e="long")))
    seen = struct(
        f="double", a="string", b=struct(g="long", c="string"), d=array(struct(h="boolean"))
    )
    assert plan_columns(have, seen).struct == struct(
        a="long",
        b=struct(c="string", g="long"),
        d=array(struct(e="long", h="boolean")),
        f="double",
    )
    assert plan_columns(EMPTY, seen).struct == seen
    assert plan_columns(have, EMPTY).struct == have


def test_what_a_map_holds_gets_fields_as_well() -> None:
    def held(of: Any) -> Struct:
        return {"type": "map", "keyType": "string", "valueType": of, "valueContainsNull": True}

    have, seen = struct(a=held(struct(b="long"))), struct(a=held(struct(c="long")), d=held("void"))
    found = plan_columns(have, seen).struct
    assert found == struct(a=held(struct(b="long", c="long")))
    assert plan_columns(EMPTY, seen).struct == struct(a=held(struct(c="long")))
    assert count_columns(found) == 2


def test_fields_without_a_type_wait_until_they_have_one() -> None:
    seen = struct(a="void", b=array("void"), c=struct(), d=array(struct(e="void")), f="long")
    assert plan_columns(EMPTY, seen).struct == struct(f="long")


def test_fields_that_no_table_takes_are_left_out_and_named() -> None:
    seen = struct(**{"a b": "long", "A": "long", "x": struct(**{"y;": "long", "z": "long"})})
    found = plan_columns(struct(a="long"), seen)
    assert found.struct == struct(a="long", x=struct(z="long"))
    assert [it.split(":")[0] for it in found.left_out] == ["a b", "A", "x.y;"]
    many = struct(**{f"id{at}": "long" for at in range(20)})
    found = plan_columns(struct(a="long"), many, most=11)
    assert count_columns(found.struct) == 11
    assert len(found.left_out) == 10


def test_seconds_behind_count_from_the_oldest_end_that_has_not_landed() -> None:
    seen = plan_seen((), Landed("t", {0: 5}), logs((0, 5)), 10.0)
    assert (seen, seconds_behind(seen, 11.0)) == ((), 0.0)
    for moment, end in ((12.0, 7), (14.0, 9), (16.0, 9)):
        seen = plan_seen(seen, Landed("t", {0: 5}), logs((0, end)), moment)
    assert seconds_behind(seen, 17.0) == 5.0
    seen = plan_seen(seen, Landed("t", {0: 7}), logs((0, 9)), 17.0)
    assert seconds_behind(seen, 17.0) == 3.0
    assert plan_seen(seen, Landed("t", {0: 9}), logs((0, 9)), 18.0) == ()
    # Retention may take what has not landed.
    assert plan_seen(seen, Landed("t", {0: 7}), logs((9, 9)), 18.0) == ()


def test_looks_that_are_not_reached_for_long_become_few_and_the_oldest_stays() -> None:
    seen: tuple[LogSeen, ...] = ()
    for at in range(1_000):
        seen = plan_seen(seen, Landed("t", {0: 0}), logs((0, at + 1)), float(at))
        assert len(seen) <= MOST_LOOKS
    assert seconds_behind(seen, 1_000.0) == 1_000.0
    assert seen[-1].at == 999.0
    assert list(seen) == sorted(seen)
