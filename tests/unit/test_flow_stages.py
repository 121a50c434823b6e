"""Who is in which stage: looked up once for each value of the partitions, not at each question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from aggregator.config import load_text
from aggregator.model.values import SourcePartition
from aggregator.plan.lifecycle.stage import Stage
from aggregator.plan.lifecycle.state import Partition, State
from support.examples import examples

CONFIG = load_text(
    "",
    [
        "hub.bootstrap_servers=127.0.0.1:9",
        "sources.eu.bootstrap_servers=127.0.0.1:10",
        "sources.eu.topics.include=t",
    ],
)
EU = [SourcePartition("eu", "t", number) for number in range(4)]

some_partitions = st.builds(
    Partition, stage=st.sampled_from(Stage), key=st.sampled_from("abc"), damaged=st.booleans()
)
some_values = st.dictionaries(st.sampled_from(EU), some_partitions)


def assert_plain(state: State, stages: frozenset[Stage]) -> None:
    """It answers as its partitions say, each looked at."""
    known = state.partitions.items()
    assert state.of(*stages) == {sp for sp, it in known if it.stage in stages}
    assert state.in_lanes == {sp for sp, it in known if it.stage in (Stage.READING, Stage.LEAVING)}
    assert state.lost_keys == {it.key for _, it in known if it.stage is Stage.LOST}
    assert state.damaged == {sp for sp, it in known if it.damaged}


@examples(300)
@given(
    st.lists(st.one_of(st.none(), some_values), max_size=6),
    st.lists(st.tuples(st.integers(0, 6), st.frozensets(st.sampled_from(Stage))), max_size=12),
)
def test_states_that_follow_each_other_answer_as_their_own_partitions_say(
    changes: list[dict[SourcePartition, Partition] | None],
    questions: list[tuple[int, frozenset[Stage]]],
) -> None:
    """Whatever of them is asked when, and also where a change moves no partition."""
    states = [State(CONFIG)]
    for change in changes:
        last = states[-1]
        states.append(
            replace(last, begun=not last.begun)
            if change is None
            else replace(last, partitions=change)
        )
        assert_plain(states[-1], frozenset(Stage))
    for which, stages in questions:
        assert_plain(states[min(which, len(states) - 1)], stages)


class Counted(Mapping[SourcePartition, Partition]):
    """Partitions that count how often someone goes through them."""

    def __init__(self, partitions: Mapping[SourcePartition, Partition]) -> None:
        self._partitions, self.passes = partitions, 0

    def __getitem__(self, sp: SourcePartition) -> Partition:
        return self._partitions[sp]

    def __iter__(self) -> Iterator[SourcePartition]:
        self.passes += 1
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)


def test_while_no_partition_changes_nothing_goes_through_all_of_them_again() -> None:
    partitions = Counted({sp: Partition(Stage.READING) for sp in EU})
    state = State(CONFIG, begun=True, partitions=partitions)
    for number in range(10):
        state = replace(state, recovers_alone=bool(number % 2))
        assert state.of(Stage.READING, Stage.RESTING) == set(EU)
        assert not state.lost_keys
        assert not state.damaged
        assert (state.is_quiet, state.is_over) == (True, False)
        assert state.in_lanes is state.in_lanes
    assert partitions.passes == 1
