"""Thousands of histories of a source: no claim is ever untrue, and none goes back."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
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


@examples(300)
@given(st.lists(ACTIONS, min_size=15, max_size=50), st.booleans())
def test_what_is_claimed_to_be_in_the_hub_is_there_whatever_happens(
    actions: list[Action], alone: bool
) -> None:
    play(actions, alone=alone)


@pytest.mark.parametrize(
    "begin", [0, *(pytest.param(it, marks=pytest.mark.slow) for it in range(300, 1_500, 300))]
)
def test_nor_is_a_claim_untrue_in_histories_drawn_at_random(begin: int) -> None:
    """Hypothesis shrinks what it finds, but draws a tenth as many in the same time."""
    for seed in range(begin, begin + 300):
        dice = Random(seed)
        actions = [_drawn(dice) for _ in range(dice.randint(5, 60))]
        play(actions, alone=dice.random() < 0.5)


def play(actions: Iterable[Action], *, alone: bool) -> None:
    """Play a history; the world judges each claim. In the end all is well, and is claimed."""
    world = CompleteWorld(alone=alone)
    for act, args, named, passed in actions:
        world.now += passed
        getattr(world, act)(*args, **named)
        world.claim()
    assert world.settle().up_to_ms == world.now - LATENESS_MS - 1


def _drawn(dice: Random) -> Action:
    topic, number = dice.choice(TOPICS), dice.randrange(4)
    args: dict[str, tuple[Any, ...]] = {
        "append": (topic, number, dice.choice((0, 1, *[LATENESS_MS] * 2, LATENESS_MS + 1))),
        "copy": (topic, number, dice.randint(1, 5)),
        "retain": (topic, number, dice.randint(1, 3)),
        "pause": (topic, number),
        **dict.fromkeys(("grow", "recreate", "end_transactions"), (topic,)),
    }
    named = {
        "append": {"opens": dice.random() < 0.3},
        "end_transactions": {"abort": dice.random() < 0.5},
    }
    often = ("append",) * 5 + ("go_round", "ask", "answer", "arrive") * 3
    now_and_then = ("copy_all", "look", "claim") * 2
    seldom = ("create", "commit", "restart", "write", *args)
    act = dice.choice((*often, *now_and_then, *seldom))
    passed = dice.choice((0, 1, LATENESS_MS, 3 * LATENESS_MS))
    return act, args.get(act, ()), named.get(act, {}), passed
