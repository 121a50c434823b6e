"""What lands next, how a table says how far it is, and which columns it gets."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aggregator.model import OffsetRange
from aggregator.tee.core import (
    FIRST_LIMIT,
    LEAST_LIMIT,
    MOST_LIMIT,
    Batch,
    Commit,
    Landed,
    LostBefore,
    Receded,
    from_history,
    from_metadata,
    from_rows,
    lag_of,
    plan_batch,
    plan_limit,
    plan_rest,
    reached,
    to_metadata,
)
from aggregator.tee.core_behind import MOST_LOOKS, LogSeen, plan_seen, seconds_behind
from aggregator.tee.core_columns import EMPTY, Struct, count_columns, plan_columns
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
    assert batch.ranges == logs((3, 10))
    assert batch.after == Landed("t", {0: 10})
    assert planned(batch.after, logs((3, 10), (0, 0))) is None
    assert planned(batch.after, logs((3, 11), (0, 2))).ranges == logs((10, 11), (0, 2))


def test_what_the_hub_deleted_before_it_landed_is_told_and_gone_behind() -> None:
    batch = planned(Landed("t", {0: 5}), logs((8, 20)))
    assert batch.lost == (LostBefore(0, 5, 8),)
    assert batch.ranges == logs((8, 20))
    assert lag_of(Landed("t", {0: 5}), logs((8, 20))) == 12


def test_a_topic_that_was_created_again_lands_from_its_beginning() -> None:
    batch = planned(Landed("old", {0: 900, 1: 3}), logs((0, 4)), topic="new")
    assert (batch.ranges, batch.after, batch.lost) == (logs((0, 4)), Landed("new", {0: 4}), ())


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
    number = -1
    while (batch := plan_batch(landed, "t", of, limit)) is not None:
        assert isinstance(batch, Batch)
        assert batch.offsets <= limit + len(of)
        for at, it in batch.ranges.items():
            assert it.latest > it.earliest
            done[at] += range(it.earliest, it.latest)
        landed = from_metadata(to_metadata(batch)) or Landed()
        assert landed == batch.after
        assert landed.number > number
        number = landed.number
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


def test_a_table_says_what_its_newest_commit_of_ours_says() -> None:
    def commit(version: int, at: int) -> Commit:
        batch = plan_batch(Landed(), "t", logs((0, at)), 10**6)
        assert isinstance(batch, Batch)
        return version, "WRITE", to_metadata(batch), {}

    others: list[Commit] = [
        (9, "OPTIMIZE", None, {}),
        (8, "WRITE", "theirs", {}),
        (7, "WRITE", "[]", {}),
    ]
    assert from_history([*others, commit(6, 5), commit(5, 4)]) == Landed("t", {0: 5})
    assert from_history(others) is None
    restored: Commit = (10, "RESTORE", None, {"version": "5"})
    assert from_history([restored, *others, commit(6, 5), commit(5, 4)]) == Landed("t", {0: 4})
    assert from_rows([(0, 4), (2, 9)], "t") == Landed("t", {0: 5, 2: 10})


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
