"""Plans what the hub accepts: validates, and plans again without what it refuses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from aggregator.config.schema import Config
from aggregator.plan.actions import Action, Applied
from aggregator.plan.plan import Plan, replanned
from aggregator.plan.refusals import Refusals
from aggregator.plan.topics.hub_topics import Flowing

Attempt = Callable[[Sequence[Action]], Sequence[Applied]]


@dataclass(frozen=True, slots=True)
class Settled:
    """The plan that is left, what the hub has refused by now, and what was done."""

    plan: Plan
    refusals: Refusals
    done: tuple[Applied, ...] = ()


def settle(
    plan: Plan,
    config: Config,
    refusals: Refusals,
    attempt: Attempt,
    flowing: Collection[Flowing] = (),
) -> Settled:
    """Attempt the plan's actions, and those of the plans that follow from what is refused.

    Each refusal leaves a config out, or a topic, so this ends. Raises what `attempt` raises.
    """
    done: list[Applied] = []
    todo = plan.actions
    while todo:
        answers = attempt(todo)
        done += [it for it in answers if it.ok]
        refused = [it for it in answers if not it.ok]
        if not refused:
            break
        refusals = refusals.after(refused, config.topics, time.monotonic())
        plan = replanned(plan, config, refusals, cores=os.cpu_count(), flowing=flowing)
        had = [it.action for it in done]
        todo = tuple(it for it in plan.actions if it not in had)
    return Settled(plan, refusals, tuple(done))
