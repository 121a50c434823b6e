"""Positions as an immutable map: in the order of partitions, however they were made."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import Positions, SourcePartition

SPS = st.builds(
    SourcePartition, st.sampled_from("ab"), st.sampled_from(["t", "u"]), st.integers(0, 3)
)
MAPS = st.dictionaries(SPS, st.integers(0, 9))


@given(MAPS, MAPS, st.frozensets(SPS))
def test_they_are_in_order_and_as_a_dictionary_would_be(
    first: dict[SourcePartition, int],
    newer: dict[SourcePartition, int],
    some: frozenset[SourcePartition],
) -> None:
    plain = Positions(first)
    for made, wanted in (
        (Positions(plain), first),
        (plain.merged(newer), {**first, **newer}),
        (plain.merged(Positions(newer)), {**first, **newer}),
        (plain.only(some), {sp: at for sp, at in first.items() if sp in some}),
    ):
        assert list(made.items()) == sorted(wanted.items())
        assert made == wanted
    assert plain == first
