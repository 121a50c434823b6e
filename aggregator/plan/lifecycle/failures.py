"""Handles failed lanes, and records that cannot be written. Pure.

The others keep running, and what failed is retried with growing delays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from aggregator.model.errors import AggregatorError
from aggregator.model.values import SourcePartition
from aggregator.plan.lifecycle.commands import Abort, Recovered
from aggregator.plan.lifecycle.stage import Stage, Way
from aggregator.plan.lifecycle.state import Failures, LaneLife, LaneOver
from aggregator.plan.lifecycle.step_context import Draft
from aggregator.plan.topics.refused_records import is_of_the_hub, is_refusal

DELAYS_SECONDS = (2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
HUB_DELAY_SECONDS = 4.0
"""No longer when the hub was in doubt: to begin again it has to be read, so by then it is well."""
FORGOTTEN_AFTER_SECONDS = 300.0
"""After this time without a failure, the delay starts again at its shortest."""
TRIES_ALLOWED = 3
"""The failures that a run with an end allows a lane; an endless run allows any number."""
RECOVERY = "recovery"
WAIT_SECONDS = 120.0
"""How long a run with an end waits for a hub topic: longer than a dead replica takes to leave."""


def fail_lane(d: Draft, name: str, life: LaneLife, reason: str) -> None:
    """A lane has failed, or could not be started: its partitions are tried again later."""
    hub = is_of_the_hub(reason)
    explained = hub or _is_explained(d, life.lane.partitions, reason)
    if len(life.lane.clusters) > 1 and not explained:
        # Alone, only the culprit fails again.
        d.note(alone=d.state.alone | set(life.lane.clusters))
    delay, count = _count(d, name)
    if hub:
        delay = min(delay, HUB_DELAY_SECONDS)
    given_up = d.state.until_done and count >= TRIES_ALLOWED and not hub
    stage = Stage.DONE if given_up else Stage.LOST if life.key else Stage.RESTING
    changes = {"lane": "", "key": life.key, "until": d.now + delay, "left_at": d.now}
    for sp in life.lane.partitions:
        d.go(Way.FAILED, sp, stage, why=reason, **changes)
    restarts = life.restarts + 1
    d.lane(name, None, LaneOver(life.lane, life.generation, restarts, reason))
    words = f"lane {name} failed, next try in {delay:.0f} s: {reason}"
    d.emit("lane_failed", words, {"lane": name})
    if not explained:
        _check_abort(d, f"lane {name} failed", reason)
    d.dirty = True


def fail_recovery(d: Draft, partitions: Iterable[SourcePartition], reason: str) -> None:
    """Schedule another recovery of these partitions."""
    delay, _ = _count(d, RECOVERY)
    for sp in partitions:
        d.go(Way.NOT_RECOVERED, sp, Stage.RESTING, until=d.now + delay, why=reason)
    d.emit("recovery_failed", reason)
    d.dirty = True


def put_back(d: Draft, silent: Mapping[SourcePartition, str]) -> None:
    """Recover these again later: their sources did not answer what recovery has to know.

    A run with an end tries this three times.
    """
    for alias in sorted({sp.cluster for sp in silent}):
        own = {sp: why for sp, why in silent.items() if sp.cluster == alias}
        delay, count = _count(d, f"{RECOVERY} {alias}")
        given_up = d.state.until_done and count >= TRIES_ALLOWED
        stage = Stage.DONE if given_up else Stage.RESTING
        why = (
            "the hub holds records of it, and the source does not show whether they are its own: "
            f"{next(iter(own.values()))}"
        )
        for sp in own:
            d.go(Way.NOT_RECOVERED, sp, stage, until=d.now + delay, why=why)
        d.emit("recovery_failed", f"{alias}: {len(own)} partitions: {why}")
        d.dirty = True


def wait_for_hub(d: Draft, found: Recovered) -> None:
    """Recover again soon what waits for a hub topic: each time the hub reports its state of then.

    The event is emitted once. A run with an end gives them up after a while.
    """
    for topic in sorted(set(found.waiting.values())):
        name, own = _of_topic(topic), [sp for sp, it in found.waiting.items() if it == topic]
        delay, count = _count(d, name)
        given_up = d.state.until_done and d.now - d.state.failures[name].since > WAIT_SECONDS
        stage = Stage.DONE if given_up else Stage.RESTING
        why = f"it waits for hub topic {topic}: {found.waits[topic]}"
        until = d.now + min(delay, HUB_DELAY_SECONDS)
        for sp in sorted(own):
            d.go(Way.NOT_RECOVERED, sp, stage, until=until, why=why)
        if count == 1 or given_up:
            words = f"hub topic {topic}: {found.waits[topic]} {len(own)} partitions wait for it"
            d.emit("recovery_waits", words, {"hub_topic": topic, "partitions": len(own)})
        d.dirty = True


def forget_waits(d: Draft, topics: Collection[str]) -> None:
    """These hub topics show all their records; if one stops doing so, that is reported again."""
    names = {_of_topic(topic) for topic in topics} & d.state.failures.keys()
    if names:
        d.note(failures={it: at for it, at in d.state.failures.items() if it not in names})


def _of_topic(topic: str) -> str:
    return f"{RECOVERY}, hub topic {topic}"


def stop_partition(d: Draft, sp: SourcePartition, reason: str) -> None:
    """The next record of a partition cannot be read or written: its lane must release it."""
    delay, _ = _count(d, str(sp))
    d.keep(sp, replace(d.at(sp), stopped=reason, until=d.now + delay))
    when = "" if d.state.until_done else f", next try in {delay:.0f} s"
    words = f"{sp} is stopped{when}: {reason}"
    d.emit("partition_stopped", words, {"partition": str(sp)})
    _check_abort(d, f"{sp} is stopped", reason)
    d.dirty = True


def may_try(d: Draft, sp: SourcePartition) -> bool:
    """Whether a run with an end tries a stopped partition once more."""
    known = d.state.failures.get(str(sp))
    return known is None or known.count < TRIES_ALLOWED


def notice_rests(d: Draft) -> None:
    """Partitions of lanes that failed, as the tasks of these go and their time comes.

    What was sent of them shows in the hub, and what became of their logs in a snapshot: so one that
    begins after that is awaited.
    """
    look = d.state.look
    resting = d.state.of(Stage.LOST, Stage.RESTING)
    ask = False
    for sp in sorted(resting):
        if d.at(sp).stage is Stage.LOST and d.at(sp).key not in d.news.open:
            # Until now they may have read on.
            d.go(Way.GONE, sp, Stage.RESTING, key="", left_at=d.now, why=d.at(sp).why)
        partition = d.at(sp)
        if partition.stage is Stage.RESTING and partition.until <= d.now:
            if look is not None and look.began > max(partition.until, partition.left_at):
                d.go(Way.DUE, sp, Stage.HELD, stopped="")
                d.dirty = True
            else:
                ask = True
    if ask:
        d.look_again()


def _count(d: Draft, name: str) -> tuple[float, int]:
    """Count a failure; the seconds until the next try, and how many there have been lately."""
    before = d.state.failures.get(name)
    fresh = before is None or d.now - before.at > FORGOTTEN_AFTER_SECONDS
    count = 1 if before is None or fresh else before.count + 1
    since = d.now if before is None or fresh else before.since
    d.note(failures={**d.state.failures, name: Failures(count, d.now, since)})
    return DELAYS_SECONDS[min(count, len(DELAYS_SECONDS)) - 1], count


def _is_explained(d: Draft, partitions: Collection[SourcePartition], reason: str) -> bool:
    """Whether a record was refused that the next try will know: then that gets further."""
    topics = {(sp.cluster, sp.topic) for sp in partitions} - d.state.refused
    if not topics or not is_refusal(reason):
        return False
    d.note(refused=d.state.refused | topics)
    names = ", ".join(f"{cluster}/{topic}" for cluster, topic in sorted(topics))
    words = (
        f"the hub has refused a record of {names} ({reason}): from now on each one is checked "
        "before it is sent, and goes where topics.on_poison says"
    )
    d.emit("records_checked", words, {"topics": names})
    return True


def _check_abort(d: Draft, what: str, reason: str) -> None:
    if d.news.config.supervision.failure == "abort":
        words = f"{what}, and supervision.failure is abort: {reason}"
        d.do(Abort(AggregatorError(words)))
