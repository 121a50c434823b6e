"""Thousands of histories of a source: no claim is ever untrue, and none goes back."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.model.values import Route, SourcePartition
from aggregator.plan.completeness.claims import Claims, ClaimSight, Laggard, Lost
from aggregator.plan.completeness.marks import MarkLedger
from aggregator.plan.completeness.marks import Reached as Least
from aggregator.plan.completeness.scope import Feeding, Key
from support.complete_world import LATENESS_MS, TOPICS, CompleteWorld
from support.examples import examples
from support.plain_claims import PlainClaims

TOPIC = st.sampled_from(TOPICS)
NUMBER = st.integers(0, 3)
Action = tuple[str, tuple[Any, ...], dict[str, Any], int]


def _action(name: str, *args: st.SearchStrategy[Any], **named: st.SearchStrategy[Any]) -> Any:
    passed = st.sampled_from((0, 1, LATENESS_MS, 3 * LATENESS_MS))
    return st.tuples(st.just(name), st.tuples(*args), st.fixed_dictionaries(named), passed)


DELAY = st.sampled_from((0, 1, LATENESS_MS, LATENESS_MS, LATENESS_MS + 1))
# What happens most often is listed several times.
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
    _action("restart", away=st.booleans()),
    _action("write"),
)


@examples(300)
@given(st.lists(ACTIONS, min_size=15, max_size=50), st.booleans(), st.booleans())
def test_what_is_claimed_to_be_in_the_hub_is_there_whatever_happens(
    actions: list[Action], alone: bool, late: bool
) -> None:
    play(actions, alone=alone, late=late)


@pytest.mark.parametrize(
    "begin", [0, *(pytest.param(it, marks=pytest.mark.slow) for it in range(300, 1_500, 300))]
)
def test_nor_is_a_claim_untrue_in_histories_drawn_at_random(begin: int) -> None:
    """Hypothesis shrinks what it finds, but draws a tenth as many in the same time."""
    for seed in range(begin, begin + 300):
        dice = Random(seed)
        actions = [_drawn(dice) for _ in range(dice.randint(5, 60))]
        play(actions, alone=dice.random() < 0.5, late=dice.random() < 0.3)


def play(actions: Iterable[Action], *, alone: bool, late: bool) -> None:
    """Play a history; the world judges each claim. In the end all is well, and is claimed."""
    world = CompleteWorld(alone=alone, late=late)
    for act, args, named, passed in actions:
        world.now += passed
        getattr(world, act)(*args, **named)
        world.claim()
    assert world.settle().up_to_ms == world.now - LATENESS_MS - 1


ALIASES, HUB_TOPICS = ("eu", "us", "asia"), ("all", "more")
KEYS = tuple((alias, topic) for alias in ALIASES for topic in HUB_TOPICS)


class Reached(MarkLedger):
    """A ledger that is given how far each partition has come."""

    def __init__(self, at_ms: dict[SourcePartition, int | None]) -> None:
        super().__init__()
        self.at_ms = at_ms

    def least(self, partitions: Iterable[SourcePartition]) -> Least:
        found = [Least(self.at_ms.get(sp), sp) for sp in partitions]
        return min(found, key=lambda it: -1 if it.at_ms is None else it.at_ms)


def _scope(dice: Random) -> Feeding:
    """Another plan: what flows where, what does not, and what may come."""
    unseen = frozenset(it for it in ALIASES if dice.random() < 0.1)
    feeds: dict[Key, tuple[Route, ...]] = {
        ("base", it): (Route("base", "base", it, 1, 1),) for it in HUB_TOPICS
    }
    untaken, listed = {}, set()
    for alias, hub_topic in KEYS:
        names = [it for it in ("a", "b") if dice.random() < 0.3]
        if alias in unseen:
            continue
        if names:
            feeds[alias, hub_topic] = tuple(
                Route(alias, f"{hub_topic}-{it}", hub_topic, 1, 1) for it in names
            )
        if dice.random() < 0.1:
            untaken[alias, hub_topic] = "left out"
        if dice.random() < 0.5:
            listed.add((alias, hub_topic))
    # Those into which the same sources may flow, and one that fewer may feed.
    may_feed = dict.fromkeys(HUB_TOPICS, frozenset(ALIASES)) | {"more": frozenset(ALIASES[:2])}
    cluster_ids = {it: dice.choice((it, it, it, f"{it}-2")) for it in ALIASES if it not in unseen}
    return Feeding(
        feeds, untaken, may_feed, unseen, frozenset(listed), cluster_ids, {}, hub_id="HUB"
    )


@pytest.mark.parametrize("begin", range(0, 400, 200))
def test_claims_are_as_if_each_source_were_claimed_for_each_hub_topic_that_it_may_feed(
    begin: int,
) -> None:
    for seed in range(begin, begin + 200):
        dice = Random(seed)
        claims, plain = Claims(), PlainClaims()
        # Once all sources have a say, as when nothing of them flows yet.
        scope = Feeding(
            {("base", it): (Route("base", "base", it, 1, 1),) for it in HUB_TOPICS},
            may_feed=_scope(dice).may_feed,
            cluster_ids={it: it for it in ALIASES},
            hub_id="HUB",
        )
        listed: dict[str, int] = dict.fromkeys(ALIASES, 1_000)
        at_ms: dict[SourcePartition, int | None] = {}
        came = frozenset((alias, f"{topic}-{it}") for alias, topic in KEYS for it in ("a", "b"))
        lost: dict[tuple[str, str], Lost] = {}
        for step in range(40):
            now = 1_000 + 3_000 * step
            if dice.random() < 0.3:
                scope = _scope(dice)
                listed |= {it: now for it in ALIASES if it in scope.cluster_ids}
            if dice.random() < 0.1:
                lost = lost | {("eu", "all-a"): Lost(step, 1)}
            for sp in {sp for own in scope.partitions.values() for sp in own}:
                if dice.random() < 0.5:
                    at_ms[sp] = dice.choice((None, now, now - 5_000, now - 20_000))
            sight = ClaimSight(
                scope,
                dict(listed),
                came,
                {("eu", "all-a")} if dice.random() < 0.1 else set(),
                lost,
                dice.choice((1_000, 1_000, 2_000)),
                now,
                lambda alias, sp: Laggard(alias, "behind" if sp else "not_listed", topic=str(sp)),
            )
            made = claims.make(Reached(at_ms), sight)
            claimed = [it for it in made if it.topic and (it.topics or it.source is None)]
            assert claimed == plain.make(Reached(at_ms), sight), f"seed {seed}, step {step}"


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
        "restart": {"away": dice.random() < 0.5},
    }
    often = ("append",) * 5 + ("go_round", "ask", "answer", "arrive") * 3
    now_and_then = ("copy_all", "look", "claim") * 2
    seldom = ("create", "commit", "restart", "write", *args)
    act = dice.choice((*often, *now_and_then, *seldom))
    passed = dice.choice((0, 1, LATENESS_MS, 3 * LATENESS_MS))
    return act, args.get(act, ()), named.get(act, {}), passed
