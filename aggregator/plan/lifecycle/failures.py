"""Handles failed lanes, and records that cannot be written. Pure.

The others keep running, and what failed is retried with growing delays.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from aggregator.model.errors import AggregatorError
from aggregator.model.values import SourcePartition
from aggregator.plan.lifecycle.commands import Abort, Recovered
from aggregator.plan.lifecycle.stage import Stage, Trigger
from aggregator.plan.lifecycle.state import Failures, LaneLife, LaneOver
from aggregator.plan.lifecycle.step_context import StepContext
from aggregator.plan.topics.refused_records import is_of_the_hub, is_refusal, without_stuck

DELAYS_SECONDS = (2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
HUB_DELAY_SECONDS = 4.0
"""The longest delay after the hub was in doubt: a retry reads the hub first, so by then it is
well."""
FORGOTTEN_AFTER_SECONDS = 300.0
"""After this time without a failure, the delay starts again at its shortest."""
TRIES_ALLOWED = 3
"""The failures that a run with an end allows a lane; an endless run allows any number."""
RECOVERY = "recovery"
NAMED = 5
"""An event names up to this number of partitions."""
WAIT_SECONDS = 120.0
"""How long a run with an end waits for a hub topic: longer than a dead replica takes to leave."""


def fail_lane(ctx: StepContext, name: str, life: LaneLife, reason: str) -> None:
    """A lane has failed, or could not be started: retry its partitions later.

    Those for which a hub partition ended it get a lane beside that of the others.
    """
    reason, names = without_stuck(reason)
    stuck = [sp for sp in life.lane.partitions if str(sp) in names]
    if len(stuck) == len(life.lane.partitions):
        # There are no others: the whole hub may be away.
        stuck = []
    hub = is_of_the_hub(reason)
    explained = hub or _is_explained(ctx, life.lane.partitions, reason)
    if len(life.lane.clusters) > 1 and not explained:
        # Alone, only the culprit fails again.
        ctx.update(alone=ctx.state.alone | set(life.lane.clusters))
    delay, count = _count(ctx, name)
    if hub:
        delay = min(delay, HUB_DELAY_SECONDS)
    given_up = ctx.state.until_done and count >= TRIES_ALLOWED and not hub
    stage = Stage.DONE if given_up else Stage.LOST if life.key else Stage.RESTING
    changes = {"lane": "", "key": life.key, "until": ctx.now + delay, "left_at": ctx.now}
    for sp in life.lane.partitions:
        ctx.transition(Trigger.FAILED, sp, stage, why=reason, **changes)
    for sp in stuck:
        ctx.keep(sp, replace(ctx.at(sp), stuck=True))
    restarts = life.restarts + 1
    ctx.lane(name, None, LaneOver(life.lane, life.generation, restarts, reason))
    words = f"lane {name} failed, next try in {delay:.0f} s: {reason}"
    ctx.emit("lane_failed", words, {"lane": name})
    if stuck:
        gets = "gets" if len(stuck) == 1 else "get"
        words = f"lane {name} continues without {_some(stuck)}, which {gets} a lane beside it: "
        fields: dict[str, str | int] = {"lane": name, "partitions": len(stuck)}
        ctx.emit("partitions_stuck", words + reason, fields)
    if not explained:
        _check_abort(ctx, f"lane {name} failed", reason)
    ctx.dirty = True


def fail_recovery(ctx: StepContext, partitions: Iterable[SourcePartition], reason: str) -> None:
    """Schedule another recovery of these partitions."""
    delay, _ = _count(ctx, RECOVERY)
    for sp in partitions:
        ctx.transition(Trigger.NOT_RECOVERED, sp, Stage.RESTING, until=ctx.now + delay, why=reason)
    ctx.emit("recovery_failed", reason)
    ctx.dirty = True


def put_back(ctx: StepContext, silent: Mapping[SourcePartition, str]) -> None:
    """Recover these again later: their sources did not answer what recovery has to know.

    A run with an end tries this three times.
    """
    for alias in sorted({sp.cluster for sp in silent}):
        own = {sp: why for sp, why in silent.items() if sp.cluster == alias}
        delay, count = _count(ctx, f"{RECOVERY} {alias}")
        given_up = ctx.state.until_done and count >= TRIES_ALLOWED
        stage = Stage.DONE if given_up else Stage.RESTING
        why = (
            "the hub holds records of it, and the source does not show whether they are its own: "
            f"{next(iter(own.values()))}"
        )
        for sp in own:
            ctx.transition(Trigger.NOT_RECOVERED, sp, stage, until=ctx.now + delay, why=why)
        ctx.emit("recovery_failed", f"{alias}: {len(own)} partitions: {why}")
        ctx.dirty = True


def wait_for_hub(ctx: StepContext, found: Recovered) -> None:
    """Recover again soon what waits for a hub topic: each time the hub reports its state of then.

    The event is emitted once. A run with an end gives them up after a while.
    """
    for topic in sorted(set(found.waiting.values())):
        name, own = _of_topic(topic), [sp for sp, it in found.waiting.items() if it == topic]
        delay, count = _count(ctx, name)
        given_up = ctx.state.until_done and ctx.now - ctx.state.failures[name].since > WAIT_SECONDS
        stage = Stage.DONE if given_up else Stage.RESTING
        why = f"it waits for hub topic {topic}: {found.waits[topic]}"
        until = ctx.now + min(delay, HUB_DELAY_SECONDS)
        for sp in sorted(own):
            ctx.transition(Trigger.NOT_RECOVERED, sp, stage, until=until, why=why)
        if count == 1 or given_up:
            words = f"hub topic {topic}: {found.waits[topic]} {len(own)} partitions wait for it"
            ctx.emit("recovery_waits", words, {"hub_topic": topic, "partitions": len(own)})
        ctx.dirty = True


def forget_waits(ctx: StepContext, topics: Collection[str]) -> None:
    """These hub topics show all their records; if one stops doing so, that is reported again."""
    names = {_of_topic(topic) for topic in topics} & ctx.state.failures.keys()
    if names:
        ctx.update(failures={it: at for it, at in ctx.state.failures.items() if it not in names})


def _of_topic(topic: str) -> str:
    return f"{RECOVERY}, hub topic {topic}"


def stop_partition(ctx: StepContext, sp: SourcePartition, reason: str) -> None:
    """The next record of a partition cannot be read or written: its lane must release it."""
    delay, _ = _count(ctx, str(sp))
    ctx.keep(sp, replace(ctx.at(sp), stopped=reason, until=ctx.now + delay))
    when = "" if ctx.state.until_done else f", next try in {delay:.0f} s"
    words = f"{sp} is stopped{when}: {reason}"
    ctx.emit("partition_stopped", words, {"partition": str(sp)})
    _check_abort(ctx, f"{sp} is stopped", reason)
    ctx.dirty = True


def leave_stuck(
    ctx: StepContext, lane: str, partitions: Sequence[SourcePartition], reason: str
) -> None:
    """A lane continues without the partitions whose records a hub partition does not take.

    The hub may hold more of them than their positions say: it is looked for before the next try.
    """
    delay, _ = _count(ctx, f"{lane}, stuck")
    delay = min(delay, HUB_DELAY_SECONDS)
    for sp in partitions:
        ctx.keep(sp, replace(ctx.at(sp), stopped=reason, stuck=True, until=ctx.now + delay))
    words = f"lane {lane} continues without {_some(partitions)}, next try in {delay:.0f} s: "
    words += reason
    ctx.emit("partitions_stuck", words, {"lane": lane, "partitions": len(partitions)})
    ctx.dirty = True


def _some(partitions: Sequence[SourcePartition]) -> str:
    more = len(partitions) - NAMED
    return ", ".join(map(str, partitions[:NAMED])) + (f" and {more} more" if more > 0 else "")


def may_try(ctx: StepContext, sp: SourcePartition) -> bool:
    """Whether a run with an end tries a stopped partition once more."""
    known = ctx.state.failures.get(str(sp))
    return known is None or known.count < TRIES_ALLOWED


def notice_rests(ctx: StepContext) -> None:
    """Release partitions of failed lanes once their tasks are gone and their retry is due.

    The hub shows what was sent of them, and a snapshot what became of their logs: so a snapshot
    that begins after that is awaited.
    """
    snapshot = ctx.state.snapshot
    resting = ctx.state.of(Stage.LOST, Stage.RESTING)
    ask = False
    for sp in sorted(resting):
        if ctx.at(sp).stage is Stage.LOST and ctx.at(sp).key not in ctx.inputs.open:
            # They may have kept reading until now.
            ctx.transition(
                Trigger.GONE, sp, Stage.RESTING, key="", left_at=ctx.now, why=ctx.at(sp).why
            )
        partition = ctx.at(sp)
        if partition.stage is Stage.RESTING and partition.until <= ctx.now:
            if snapshot is not None and snapshot.began > max(partition.until, partition.left_at):
                ctx.transition(Trigger.DUE, sp, Stage.HELD, stopped="")
                ctx.dirty = True
            else:
                ask = True
    if ask:
        ctx.request_discovery()


def _count(ctx: StepContext, name: str) -> tuple[float, int]:
    """Count a failure; returns the seconds until the retry, and the number of recent failures."""
    before = ctx.state.failures.get(name)
    fresh = before is None or ctx.now - before.at > FORGOTTEN_AFTER_SECONDS
    count = 1 if before is None or fresh else before.count + 1
    since = ctx.now if before is None or fresh else before.since
    ctx.update(failures={**ctx.state.failures, name: Failures(count, ctx.now, since)})
    return DELAYS_SECONDS[min(count, len(DELAYS_SECONDS)) - 1], count


def _is_explained(ctx: StepContext, partitions: Collection[SourcePartition], reason: str) -> bool:
    """Whether the hub refused a record that the next try will recognise, and so gets further."""
    topics = {(sp.cluster, sp.topic) for sp in partitions} - ctx.state.refused
    if not topics or not is_refusal(reason):
        return False
    ctx.update(refused=ctx.state.refused | topics)
    names = ", ".join(f"{cluster}/{topic}" for cluster, topic in sorted(topics))
    words = (
        f"the hub has refused a record of {names} ({reason}): from now on each one is checked "
        "before it is sent, and goes where topics.on_poison says"
    )
    ctx.emit("records_checked", words, {"topics": names})
    return True


def _check_abort(ctx: StepContext, what: str, reason: str) -> None:
    if ctx.inputs.config.supervision.failure == "abort":
        words = f"{what}, and supervision.failure is abort: {reason}"
        ctx.command(Abort(AggregatorError(words)))
