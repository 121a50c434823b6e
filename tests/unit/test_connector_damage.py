"""The search for the end of damaged batches, against logs whose batches are known."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from aggregator.datapath.connector.damage import Search
from aggregator.plan.positions.start import Damage

STEPS = 200


@dataclass(frozen=True)
class Batch:
    first: int
    end: int
    damaged: bool


@st.composite
def logs(draw: st.DrawFn) -> list[Batch]:
    """Batches with holes between them, as compaction leaves them."""
    batches, at = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 6))):
        first = at + draw(st.sampled_from([0, 0, 0, 3]))
        at = first + draw(st.sampled_from([1, 2, 3, 10, 1000, 70_000]))
        batches.append(Batch(first, at, draw(st.booleans())))
    return batches


def answer(search: Search, batches: list[Batch]) -> None:
    """Answer the search as a client does that reads at its offset."""
    assert search.at is not None
    assert search.position <= search.at < search.limit
    batch = next(it for it in batches if it.end > (search.at or 0))
    if batch.damaged:
        search.damaged(batch.first, f"batch {batch.first}")
    else:
        search.readable()


@given(logs(), st.data())
def test_the_end_is_exact_and_no_good_batch_is_left_out(
    batches: list[Batch], data: st.DataObject
) -> None:
    position = data.draw(st.integers(batches[0].first, batches[0].end - 1))
    search = Search(position, batches[-1].end)
    for _ in range(STEPS):
        if search.at is None:
            break
        answer(search, batches)
    bad = list(takewhile(lambda it: it.damaged, batches))
    end = bad[-1].end if bad else position
    assert search.found() == Damage(position, end, f"batch {bad[0].first}" if bad else "")


def test_what_gives_no_answer_is_not_reported() -> None:
    assert Search(3, 9).found() is None


def test_a_search_that_runs_out_of_time_reports_only_what_it_is_certain_of() -> None:
    batches = [Batch(0, 100, True), Batch(100, 5000, True), Batch(5000, 6000, False)]
    search = Search(0, 6000)
    ends = set()
    while search.at is not None:
        answer(search, batches)
        found = search.found()
        ends.add(found and found.end)
    assert ends == {None, 100, 5000}
