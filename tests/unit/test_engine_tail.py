"""The rule that ties a hub snapshot to a lane's checkpoint, against a model of what was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aggregator.engine.tail import HubSnapshot, HubTail
from aggregator.model import TopicPartition

HUB = TopicPartition("orders", 0)


def test_a_snapshot_read_after_a_batch_end_was_missed_is_not_used_for_that_batch() -> None:
    tail = HubTail(HubSnapshot(0, {}))
    first, second = HubSnapshot(1, {HUB: 10}), HubSnapshot(2, {HUB: 20})
    tail.taken(first)
    tail.began("eu", first)
    # The lane's batch has ended and its next one writes, before anybody looks at the lane.
    tail.taken(second)
    assert tail.for_batch("eu") == first
    tail.quiet("eu")
    assert tail.for_batch("eu") == second


@given(
    st.lists(st.sampled_from(["write", "end", "snapshot", "look"]), max_size=60),
)
def test_the_snapshot_of_a_batch_is_never_newer_than_the_first_write_of_the_next(
    steps: list[str],
) -> None:
    """Whatever the interleaving: all that positions do not cover lies behind the snapshot."""
    tail = HubTail(HubSnapshot(0, {HUB: 0}))
    tail.began("eu", HubSnapshot(0, {HUB: 0}))
    written, covered, reported = 0, 0, 0
    seen = 0
    ends: list[int] = []  # the hub's end when batch k ended: what its positions cover
    for step in steps:
        if step == "write":
            written += 1
        elif step == "end":
            ends.append(written)
            reported += 1
        elif step == "snapshot":
            tail.taken(HubSnapshot(0, {HUB: written}))
        elif reported > seen:
            seen = reported
            covered = ends[seen - 1]
            assert tail.for_batch("eu").ends[HUB] <= covered
        else:
            tail.quiet("eu")
