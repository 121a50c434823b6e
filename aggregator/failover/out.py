"""A source fails over: what it still has is waited for, its groups go to the hub, it is paused.

Each step is done once: done again, the sequence finds what was done. A source that gives no answer
is not waited for, and what is known of it is what the checkpoint has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from aggregator.checkpoint.controls import Controls
from aggregator.checkpoint.failovers import Failovers
from aggregator.checkpoint.state import CheckpointState
from aggregator.checkpoint.table import CheckpointTable
from aggregator.clusters.hub import read_logs
from aggregator.config.schema import Config
from aggregator.discover import HUB, discover, hub_facts, open_admin
from aggregator.errors import AggregatorError, RefusedError
from aggregator.failover.core import behind_of
from aggregator.failover.document import (
    FailoverReport,
    HubGroup,
    StepRow,
    StepState,
    row_of,
)
from aggregator.groups.apply import ApplyRules
from aggregator.groups.ask import ask_states, committed, group_states
from aggregator.groups.core import OWN_PREFIX, matching
from aggregator.groups.cutover import cut_over, translate_group
from aggregator.groups.document import GroupReport
from aggregator.model import Pause, SourcePartition, TopicPartition
from aggregator.plan.naming import naming_of

POLL_SECONDS = 1.0

Tell = Callable[[str], None]
SetPaused = Callable[[str, bool], object]
"""Pauses a source, or resumes it: by the running instance, else for the next one."""


class FailoverError(AggregatorError):
    """It was not done in time; what was done by then is done."""


@dataclass(frozen=True, slots=True)
class FailoverRules:
    """How a failover is done; `dry_run` changes nothing, without `wait` nothing is waited for."""

    dry_run: bool = True
    wait: bool = True
    seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class Sighted:
    """What was found of the source and the hub. `ends` of a dead source are the last known ones."""

    alive: bool
    reason: str
    hub_id: str
    hub_topics: Mapping[str, int]
    state: CheckpointState
    ends: Mapping[SourcePartition, int | None]

    @property
    def left(self) -> int:
        """How many offsets are not at the hub, as far as that is known."""
        positions = self.state.positions
        return sum(
            max(0, end - positions.get(sp, 0)) for sp, end in self.ends.items() if end is not None
        )


def fail_over(
    config: Config, alias: str, rules: FailoverRules, set_paused: SetPaused, tell: Tell
) -> FailoverReport:
    """Move what uses a source to the hub, or with a dry run say what that comes to.

    Raises ClusterError when the hub gives no answer, FailoverError and CutoverError when it takes
    too long, and whatever `set_paused` raises.
    """
    config.chosen(alias)
    deadline = time.monotonic() + rules.seconds
    place = config.checkpoint
    before = Controls(place.path, place.storage_options).read().sources.get(alias)
    found = sighted(config, alias)
    if not found.state.positions:
        raise RefusedError([f"nothing of {alias} is copied yet: let it run first"])
    failovers = Failovers(place.path, place.storage_options)
    noted = failovers.newest(alias)
    over = noted is not None and before is not None and noted.at >= before.since
    steps = []
    found, step = _copied(config, alias, found, rules, deadline, tell, paused=before is not None)
    steps.append(step)
    groups: tuple[GroupReport, ...] = ()
    notes: list[str] = []
    if over:
        steps.append(StepRow(step="groups", state=StepState.WAS_DONE))
    elif found.alive:
        groups, notes = _groups(config, alias, rules, deadline, tell, paused=before is not None)
        steps.append(_step("groups", rules, f"{len(groups)} groups go on at the hub"))
    else:
        steps.append(StepRow(step="groups", state=StepState.LEFT_OUT, detail="no answer of it"))
    steps.append(_pause(alias, before, rules, set_paused))
    if found.alive and not rules.dry_run:
        # What came meanwhile is told as well.
        found = sighted(config, alias)
    if over:
        steps.append(StepRow(step="note the hub's ends", state=StepState.WAS_DONE))
    else:
        if not rules.dry_run:
            ends = hub_ends(config, found.hub_topics)
            failovers.put(alias, found.hub_id, ends)
        steps.append(_step("note the hub's ends", rules, "there the way back begins"))
    return FailoverReport(
        name=config.name,
        source=alias,
        dry_run=rules.dry_run,
        alive=found.alive,
        reason=found.reason,
        bootstrap_servers=config.hub.bootstrap_servers,
        behind=tuple(row_of(it) for it in behind_of(found.state.positions, found.ends)),
        groups=groups,
        hub_groups=() if found.alive else _at_hub(config, alias, found),
        topics=tuple(sorted(found.hub_topics)),
        steps=tuple(steps),
        notes=(*notes, *_notes(config, alias, found)),
    )


def sighted(config: Config, alias: str) -> Sighted:
    """Ask the hub, which has to answer, and the source, which need not."""
    discovery = discover(config, aliases=[HUB, alias])
    hub = hub_facts(discovery)
    failure = discovery.failed.get(alias)
    table = CheckpointTable.open(config.checkpoint.path, config.checkpoint.storage_options)
    whole = table.load() if table is not None else CheckpointState()
    state = replace(
        whole, entries={sp: it for sp, it in whole.entries.items() if sp.cluster == alias}
    )
    names = {naming_of(config, alias).of(sp.topic).name for sp in state.entries}
    topics = {it: hub.topics[it].partitions for it in sorted(names) if it in hub.topics}
    ends: dict[SourcePartition, int | None] = {
        sp: entry.log_end for sp, entry in state.entries.items()
    }
    reason = "" if failure is None else str(failure)
    if failure is None:
        timeout = config.supervision.connect_timeout
        there = discovery.ok[alias].topics
        wanted = [sp.topic_partition for sp in ends if sp.topic in there]
        with open_admin(config, alias) as admin:
            told = admin.log_ends(wanted, timeout) if wanted else {}
        ends = {sp: told.get(sp.topic_partition) for sp in ends}
    return Sighted(failure is None, reason, hub.cluster_id, topics, state, ends)


def hub_ends(config: Config, topics: Collection[str]) -> Mapping[TopicPartition, int]:
    """Where hub topics end now; ClusterError when one is not told."""
    with open_admin(config, HUB) as admin:
        logs = read_logs(admin, topics, config.supervision.connect_timeout)
    return {tp: log.latest for tp, log in logs.items()}


def _copied(
    config: Config,
    alias: str,
    found: Sighted,
    rules: FailoverRules,
    deadline: float,
    tell: Tell,
    *,
    paused: bool,
) -> tuple[Sighted, StepRow]:
    """Wait until all is copied that the source held at first."""
    step = "copy what it has"
    words = f"{found.left:,} offsets are not copied"
    if not found.alive or paused or not rules.wait:
        why = "no answer of it" if not found.alive else "it is paused" if paused else "--no-wait"
        return found, StepRow(step=step, state=StepState.LEFT_OUT, detail=f"{why}; {words}")
    if rules.dry_run:
        return found, StepRow(step=step, state=StepState.PLANNED, detail=words)
    return wait_copied(config, alias, found, deadline, tell), StepRow(
        step=step, state=StepState.DONE, detail="all that it held"
    )


def wait_copied(config: Config, alias: str, found: Sighted, deadline: float, tell: Tell) -> Sighted:
    """Wait until the checkpoint has reached the ends of this sight; FailoverError when it is late.

    The sight with the state of then.
    """
    place = config.checkpoint
    while found.left:
        words = f"{found.left:,} offsets of {alias} are not copied yet"
        if time.monotonic() >= deadline:
            raise FailoverError(f"not in time: {words}; does it run, and is nothing paused?")
        tell(words)
        time.sleep(POLL_SECONDS)
        table = CheckpointTable.open(place.path, place.storage_options)
        whole = table.load() if table is not None else CheckpointState()
        own = {sp: it for sp, it in whole.entries.items() if sp.cluster == alias}
        found = replace(found, state=replace(whole, entries=own))
    return found


def _groups(
    config: Config, alias: str, rules: FailoverRules, deadline: float, tell: Tell, *, paused: bool
) -> tuple[tuple[GroupReport, ...], list[str]]:
    """Take each group of the source over, as `groups cutover` does; of several sources if it is."""
    others = [it for it in config.sources if it != alias]
    answers = ask_states(config, (alias, *others))
    own = answers[alias]
    if isinstance(own, Exception):
        raise own
    reports, notes = [], []
    for group in sorted(it for it in own if not it.startswith(OWN_PREFIX)):
        elsewhere = [it for it in others if _has(answers[it], group)]
        source = None if elsewhere else alias
        apply = ApplyRules(dry_run=rules.dry_run)
        left = max(POLL_SECONDS, deadline - time.monotonic())
        do = translate_group if paused or not rules.wait else cut_over
        try:
            reports.append(do(config, group, source, apply, left, tell))
        except RefusedError as error:
            notes.append(f"group {group} stays: {error}")
    return tuple(reports), notes


def _has(answer: Mapping[str, str] | Exception, group: str) -> bool:
    return not isinstance(answer, Exception) and group in answer


def _pause(
    alias: str, before: Pause | None, rules: FailoverRules, set_paused: SetPaused
) -> StepRow:
    step = f"pause {alias}"
    if before is not None:
        return StepRow(step=step, state=StepState.WAS_DONE)
    if not rules.dry_run:
        set_paused(alias, True)
    return _step(step, rules, "when it wakes up, nothing is copied unnoticed")


def _step(step: str, rules: FailoverRules, detail: str) -> StepRow:
    state = StepState.PLANNED if rules.dry_run else StepState.DONE
    return StepRow(step=step, state=state, detail=detail)


def _at_hub(config: Config, alias: str, found: Sighted) -> tuple[HubGroup, ...]:
    """The groups that the hub has offsets of, in the topics that the source feeds."""
    timeout, groups = config.supervision.connect_timeout, config.sources[alias].groups
    partitions = [
        TopicPartition(topic, number)
        for topic, count in found.hub_topics.items()
        for number in range(count)
    ]
    with open_admin(config, HUB) as admin:
        states = group_states(admin, timeout)
    synced = set(matching(states, groups.wanted, groups.unwanted))
    rows = []
    for group, state in sorted(states.items()):
        if group.startswith(OWN_PREFIX):
            continue
        if offsets := committed(HUB, config.hub, group, partitions, timeout):
            rows.append(
                HubGroup(group=group, state=state, partitions=len(offsets), synced=group in synced)
            )
    return tuple(rows)


def _notes(config: Config, alias: str, found: Sighted) -> list[str]:
    notes = []
    if not found.alive:
        unknown = sum(end is None for end in found.ends.values())
        known = f"{found.left:,} offsets that were seen there are not at the hub"
        more = f", and of {unknown} partitions nobody knows the end" if unknown else ""
        notes.append(
            f"{alias} gives no answer: {known}{more}; what came after the last look is not known. "
            "If it comes back, they are copied after `aggregator resume`; else they are lost"
        )
        if not config.sources[alias].groups.wanted:
            notes.append(
                f"sources.{alias}.groups.sync is not set, so the hub has no offsets of its groups: "
                "their consumers begin where auto.offset.reset says"
            )
    return notes
