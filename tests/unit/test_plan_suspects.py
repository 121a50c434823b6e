"""What the probes prove about a reader: nothing that time could still explain."""

from __future__ import annotations

from typing import Any

import pytest

from aggregator.model.values import LogId, OffsetRange, SourcePartition
from aggregator.plan.health.suspects import (
    PATIENCE_SECONDS,
    ReadPosition,
    ReadState,
    Seen,
    cut,
    follow_progress,
    foreign,
    gone,
    seen_of,
)
from aggregator.plan.positions.start import Observed

SP = SourcePartition("eu", "orders", 0)
KEY = ("eu", "orders")


def probe(at: float, latest: int) -> dict[str, Seen]:
    return {"eu": Seen(at, "C", {"orders": "T"}, {SP: latest})}


@pytest.mark.parametrize(
    ("reading", "seen", "words"),
    [
        (ReadPosition(5, LogId("C", "T")), Seen(1.0, "C", {"orders": "U"}), "created again"),
        (ReadPosition(5, LogId("C", "T")), Seen(1.0, "D", {"orders": "T"}), "another cluster"),
        (ReadPosition(5, LogId("C", "T")), Seen(1.0, "C", {"orders": "T"}), ""),
        (ReadPosition(5, LogId("C", "T")), Seen(1.0, "C", {"orders": ""}), ""),
        (ReadPosition(5, LogId("C", "T")), Seen(1.0, "", {}), ""),
        (ReadPosition(5, LogId("C", "")), Seen(1.0, "C", {"orders": "U"}), ""),
        (ReadPosition(5, LogId("", "T")), Seen(1.0, "D", {"orders": "T"}), ""),
        (ReadPosition(5, LogId("C", "T")), Seen(), ""),
    ],
)
def test_only_ids_that_are_known_and_differ_prove_another_topic(
    reading: ReadPosition, seen: Seen, words: str
) -> None:
    found = foreign({SP: reading}, {"eu": seen})
    assert (words in found[SP]) if words else (found == {})


def own(at: int, now: float, *probes: tuple[float, dict[str, Seen]]) -> dict[Any, ReadState]:
    """Of a reader that came to a position, and stayed there while probes were looked at."""
    reading = {SP: ReadPosition(at)}
    progress = follow_progress({}, reading, {}, now)
    for moment, seen in probes:
        progress = follow_progress(progress, reading, seen, moment)
    return progress


def test_a_reader_is_at_its_position_since_it_came_there() -> None:
    progress = own(5, 1.0)
    assert progress == {SP: ReadState(5, 1.0)}
    progress = follow_progress(progress, {SP: ReadPosition(5)}, {}, 2.0)
    assert progress == {SP: ReadState(5, 1.0)}
    progress = follow_progress(progress, {SP: ReadPosition(7)}, {}, 3.0)
    assert progress == {SP: ReadState(7, 3.0)}
    # Also where it was set back to.
    progress = follow_progress(progress, {SP: ReadPosition(5)}, {}, 4.0)
    assert progress == {SP: ReadState(5, 4.0)}
    assert follow_progress(progress, {}, {}, 5.0) == {}


def test_while_a_reader_stays_at_its_end_the_same_value_is_kept() -> None:
    """Of thousands of partitions almost all are as they were."""
    before = own(5, 1.0, (9.5, probe(9.0, 5)))
    after = follow_progress(before, {SP: ReadPosition(5)}, probe(10.0, 7), 10.5)
    assert after[SP] is before[SP]
    assert after == {SP: ReadState(5, 1.0)}


def test_a_reader_below_its_log_says_so_itself() -> None:
    """It may have records buffered that the log holds no longer: nothing is proven from outside."""
    assert cut(own(0, 1.0, (9.5, probe(9.0, 50))), 99.0) == {}


@pytest.mark.parametrize(("asked_at", "proven"), [(4.9, False), (5.0, False), (5.1, True)])
def test_a_log_that_ends_before_a_position_is_cut_if_its_probe_asked_after_that_was_reported(
    asked_at: float, proven: bool
) -> None:
    progress = own(50, 5.0, (6.0, probe(asked_at, 20)))
    found = cut(progress, 6.0 + PATIENCE_SECONDS)
    assert found == ({SP: "its log ended at 20, and was read up to 50 before"} if proven else {})
    assert cut(own(50, 5.0, (6.0, probe(asked_at, 50))), 99.0) == {}


def test_a_reader_is_given_a_moment_to_say_itself_that_its_log_was_cut() -> None:
    progress = own(50, 5.0, (6.0, probe(5.5, 30)), (7.0, probe(6.5, 20)), (7.9, probe(7.5, 49)))
    assert progress[SP] == ReadState(50, 5.0, 6.0, 20)
    assert cut(progress, 7.9) == {}
    assert set(cut(progress, 8.0)) == {SP}
    # It was a leader of before that answered.
    progress = follow_progress(progress, {SP: ReadPosition(50)}, probe(8.0, 50), 8.1)
    assert progress == {SP: ReadState(50, 5.0)}


def test_a_reader_that_reads_on_in_a_log_that_was_cut_is_given_none() -> None:
    progress = own(50, 5.0, (6.0, probe(5.5, 30)))
    progress = follow_progress(progress, {SP: ReadPosition(60)}, {}, 6.5)
    assert set(cut(progress, 6.5)) == {SP}


def test_what_an_open_transaction_holds_back_is_not_cut() -> None:
    held = Seen(9.0, "C", {"orders": "T"}, {SP: 20}, {SP: 50})
    assert cut(own(50, 5.0, (9.0, {"eu": held})), 99.0) == {}
    not_asked = Seen(9.0, "C", {"orders": "T"}, {SP: 20}, {})
    assert cut(own(50, 5.0, (9.0, {"eu": not_asked})), 99.0) == {}
    short = Seen(9.0, "C", {"orders": "T"}, {SP: 20}, {SP: 49})
    assert set(cut(own(50, 5.0, (9.0, {"eu": short})), 99.0)) == {SP}


def test_a_log_that_no_probe_has_reported_proves_nothing() -> None:
    silent = {"eu": Seen(9.0, "C", {"orders": "T"})}
    assert cut(own(50, 5.0, (9.0, {}), (9.5, silent)), 99.0) == {}


def test_a_topic_that_a_probe_did_not_find_is_gone() -> None:
    assert gone([SP], {"eu": Seen(1.0, "C", {})}) == {KEY}
    assert gone([SP], {"eu": Seen(1.0, "C", {"orders": ""})}) == set()
    # No probe has asked yet.
    assert gone([SP], {"eu": Seen()}) == set()
    assert gone([SP], {}) == set()


def test_a_look_says_what_probes_say() -> None:
    log = OffsetRange(1, 2)
    seen = seen_of(Observed({"eu": "C", "us": "D"}, {KEY: "T", ("us", "x"): "X"}, {SP: log}))
    assert seen == {
        "eu": Seen(0.0, "C", {"orders": "T"}, {SP: 2}),
        "us": Seen(0.0, "D", {"x": "X"}, {}),
    }
