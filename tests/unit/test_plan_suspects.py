"""What the probes prove about a reader: nothing that time or a batch could still explain."""

from __future__ import annotations

import pytest

from aggregator.model import OffsetRange, SourcePartition
from aggregator.plan.positions import Observed
from aggregator.plan.suspects import (
    Reading,
    Seen,
    Stand,
    follow_stands,
    foreign,
    gone,
    seen_of,
    suspects,
)

SP = SourcePartition("eu", "orders", 0)
KEY = ("eu", "orders")


def probe(at: float, earliest: int, latest: int) -> dict[str, Seen]:
    return {"eu": Seen(at, "C", {"orders": "T"}, {SP: OffsetRange(earliest, latest)})}


@pytest.mark.parametrize(
    ("reading", "seen", "words"),
    [
        (Reading(5, 1, "C", "T"), Seen(1.0, "C", {"orders": "U"}), "created again"),
        (Reading(5, 1, "C", "T"), Seen(1.0, "D", {"orders": "T"}), "another cluster"),
        (Reading(5, 1, "C", "T"), Seen(1.0, "C", {"orders": "T"}), ""),
        (Reading(5, 1, "C", "T"), Seen(1.0, "C", {"orders": ""}), ""),
        (Reading(5, 1, "C", "T"), Seen(1.0, "", {}), ""),
        (Reading(5, 1, "C", ""), Seen(1.0, "C", {"orders": "U"}), ""),
        (Reading(5, 1, "", "T"), Seen(1.0, "D", {"orders": "T"}), ""),
        (Reading(5, 1, "C", "T"), Seen(), ""),
    ],
)
def test_only_ids_that_are_known_and_differ_prove_another_topic(
    reading: Reading, seen: Seen, words: str
) -> None:
    found = foreign({SP: reading}, {"eu": seen})
    assert (words in found[SP]) if words else (found == {})


def test_a_reader_that_stands_below_its_log_is_judged_after_whole_batches() -> None:
    """The batch that ran when the log was first seen beyond it may have read from a buffer."""
    stands: dict[SourcePartition, Stand] = {}
    verdicts = []
    for batch in (3, 3, 4, 5, 5):
        seen = probe(float(batch), 10, 50)
        stands = follow_stands(stands, {SP: Reading(0, batch)}, seen, float(batch))
        verdicts.append(bool(suspects(stands, seen)))
    assert verdicts == [False, False, False, True, True]
    moved = follow_stands(stands, {SP: Reading(12, 6)}, probe(6.0, 10, 50), 6.0)
    assert suspects(moved, probe(6.0, 10, 50)) == {}


def test_a_reader_that_moves_below_its_log_has_still_something_buffered() -> None:
    stands: dict[SourcePartition, Stand] = {}
    for batch in range(8):
        stands = follow_stands(stands, {SP: Reading(batch, batch)}, probe(1.0, 100, 200), 1.0)
    assert suspects(stands, probe(1.0, 100, 200)) == {}


@pytest.mark.parametrize(("asked_at", "proven"), [(4.9, False), (5.0, False), (5.1, True)])
def test_a_log_that_ends_before_the_position_was_asked_for_after_the_position_was_told(
    asked_at: float, proven: bool
) -> None:
    stands = follow_stands({}, {SP: Reading(50, 1)}, {}, 5.0)
    assert bool(suspects(stands, probe(asked_at, 0, 20))) is proven
    assert suspects(stands, probe(asked_at, 0, 50)) == {}


def test_a_topic_that_a_probe_did_not_find_is_gone() -> None:
    assert gone([SP], {"eu": Seen(1.0, "C", {})}) == {KEY}
    assert gone([SP], {"eu": Seen(1.0, "C", {"orders": ""})}) == set()
    assert gone([SP], {"eu": Seen()}) == set()
    assert gone([SP], {}) == set()


def test_a_look_says_what_probes_say() -> None:
    log = OffsetRange(1, 2)
    seen = seen_of(Observed({"eu": "C", "us": "D"}, {KEY: "T", ("us", "x"): "X"}, {SP: log}))
    assert seen == {
        "eu": Seen(0.0, "C", {"orders": "T"}, {SP: log}),
        "us": Seen(0.0, "D", {"x": "X"}, {}),
    }
