"""Thousands of histories of a source: no claim is ever untrue, and none goes back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.complete_world import LATENESS_MS, TOPICS, CompleteWorld
from support.examples import examples

TOPIC = st.sampled_from(TOPICS)
NUMBER = st.integers(0, 3)
Action = tuple[str, tuple[Any, ...], dict[str, Any], int]


def _action(name: str, *args: st.SearchStrategy[Any], **named: st.SearchStrategy[Any]) -> Any:
    passed = st.sampled_from((0, 1, LATENESS_MS, 3 * LATENESS_MS))
    return st.tuples(st.just(name), st.tuples(*args), st.fixed_dictionaries(named), passed)


DELAY = st.sampled_from((0, 1, LATENESS_MS, LATENESS_MS, LATENESS_MS + 1))
# What happens most often stands several times.
ACTIONS = st.one_of(
    *[_action("append", TOPIC, NUMBER, DELAY, opens=st.booleans())] * 5,
    *[_action("go_round"), _action("ask"), _action("answer"), _action("arrive")] * 3,
    *[_action("copy_all"), _action("look"), _action("claim")] * 2,
    _action("copy", TOPIC, NUMBER, st.integers(1, 5)),
    _action("end_transactions", TOPIC, abort=st.booleans()),
    _action("grow", TOPIC),
    _action("create"),
    _action("recreate", TOPIC),
    _action("retain", TOPIC, NUMBER, st.integers(1, 3)),
    _action("commit"),
    _action("pause", TOPIC, NUMBER),
    _action("restart"),
    _action("write"),
)


@examples(500)
@given(st.lists(ACTIONS, min_size=15, max_size=50), st.booleans())
def test_what_is_claimed_to_be_in_the_hub_is_there_whatever_happens(
    actions: list[Action], alone: bool
) -> None:
    world = CompleteWorld(alone=alone)
    for act, args, named, passed in actions:
        world.now += passed
        getattr(world, act)(*args, **named)
        world.claim()
    assert world.settle().up_to_ms == world.now - LATENESS_MS - 1
