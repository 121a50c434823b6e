"""Fails a source over: waits for its last records, moves its groups to the hub, pauses it.

Each step is done once: done again, the sequence finds what was done. A source that gives no answer
is not waited for, and what is known of it is what the checkpoint has.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from aggregator.config.schema import Config
from aggregator.features.failover.failover_report import (
    FailoverReport,
    HubGroup,
    StepRow,
    StepState,
    row_of,
)
from aggregator.features.groups.cutover import Moving
from aggregator.features.groups.group_admin import (
    ask_states,
    ask_unlisted,
    committed_by_all,
    group_states,
)
from aggregator.features.groups.group_report import GroupReport
from aggregator.features.groups.hub_offsets import ApplyRules, matching
from aggregator.kafka.admin import HUB, discover, hub_facts, open_admin
from aggregator.kafka.discovery.hub_logs import read_logs
from aggregator.model.errors import AggregatorError, RefusedError
from aggregator.model.values import Pause, SourcePartition, TopicPartition
from aggregator.plan.failover import behind_of, ends_of
from aggregator.plan.topics.naming import naming_of
from aggregator.store.checkpoint.checkpoint_table import stored_state
from aggregator.store.checkpoint.past_commits import Past, ProvenBound, fitting
from aggregator.store.checkpoint.start_state import CheckpointState
from aggregator.store.controls import Controls
from aggregator.store.failovers import Failovers
from aggregator.store.state_store import StateStore

POLL_SECONDS = 1.0

TextSink = Callable[[str], None]
SetPaused = Callable[[str, bool], object]
"""Pauses a source, or resumes it: by the running instance, else for the next one."""


class FailoverError(AggregatorError):
    """It was not done in time; the steps done by then stay done."""


@dataclass(frozen=True, slots=True)
class FailoverRules:
    """How a failover is done; `dry_run` changes nothing, without `wait` nothing is waited for.

    `groups` and `exclude` are patterns of whole names: which groups of the source come along.
    """

    dry_run: bool = True
    wait: bool = True
    seconds: float = 600.0
    groups: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Groups:
    """The outcome for the groups of a source; `failed` says why one was not cut over.

    `unlisted` says why others may be there, "" where none is.
    """

    reports: tuple[GroupReport, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unlisted: str = ""


@dataclass(frozen=True, slots=True)
class FailoverFacts:
    """The state of the source and the hub. `ends` of a dead source are the last known ones."""

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
    config: Config, alias: str, rules: FailoverRules, set_paused: SetPaused, report: TextSink
) -> FailoverReport:
    """Move what uses a source to the hub, or with a dry run show what that would do.

    Raises ClusterError when the hub gives no answer, FailoverError and CutoverError when it takes
    too long, and whatever `set_paused` raises: before anything has moved, where it would refuse.
    """
    config.chosen(alias)
    deadline = time.monotonic() + rules.seconds
    place = config.checkpoint
    controls = Controls(StateStore.of(place))
    before = controls.read().sources.get(alias)
    found = sighted(config, alias)
    if not found.state.positions:
        raise RefusedError([f"nothing of {alias} is copied yet: let it run first"])
    failovers = Failovers(StateStore.of(place))
    over = next((it for it in failovers.read().get(alias, ()) if it.is_of(before)), None)
    if before is None and not rules.dry_run:
        # It runs as it is. An instance that cannot be asked to pause it is found now.
        set_paused(alias, False)
    steps = []
    found, step = _copied(config, alias, found, rules, deadline, report, paused=before is not None)
    steps.append(step)
    groups = _Groups()
    # Of one that was dead the hub had the groups, and by now they may have been set there by hand.
    if found.alive and (over is None or over.alive):
        groups = _groups(config, alias, rules, deadline, report, paused=before is not None)
    steps.append(_groups_step(groups, found, rules, over=over is not None))
    steps.append(_pause(alias, before, rules, set_paused))
    if found.alive and not rules.dry_run:
        # What came meanwhile is reported as well.
        found = sighted(config, alias)
    if over is not None:
        steps.append(StepRow(step="note the hub's ends", state=StepState.WAS_DONE))
    else:
        if not rules.dry_run:
            pause = controls.read().sources.get(alias)
            ends = ends_back(config, found)
            since = None if pause is None else pause.since
            failovers.put(alias, found.hub_id, ends, since, alive=found.alive)
        steps.append(_step("note the hub's ends", rules, "there the way back begins"))
    at_hub, untold = ((), ()) if found.alive else _at_hub(config, alias, found)
    return FailoverReport(
        name=config.name,
        source=alias,
        dry_run=rules.dry_run,
        alive=found.alive,
        reason=found.reason,
        bootstrap_servers=config.hub.bootstrap_servers,
        behind=tuple(row_of(it) for it in behind_of(found.state.positions, found.ends)),
        groups=groups.reports,
        failed=dict(groups.failed),
        unlisted=groups.unlisted,
        hub_groups=at_hub,
        topics=tuple(sorted(found.hub_topics)),
        steps=tuple(steps),
        notes=(*groups.notes, *untold, *_notes(config, alias, found)),
    )


def sighted(config: Config, alias: str) -> FailoverFacts:
    """Ask the hub, which has to answer, and the source, which need not."""
    discovery = discover(config, aliases=[HUB, alias])
    hub = hub_facts(discovery)
    failure = discovery.failed.get(alias)
    state = _state_of(config, alias)
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
            log_ends = admin.log_ends(wanted, timeout) if wanted else {}
        ends = {sp: log_ends.get(sp.topic_partition) for sp in ends}
    return FailoverFacts(failure is None, reason, hub.cluster_id, topics, state, ends)


def ends_back(config: Config, found: FailoverFacts) -> Mapping[TopicPartition, int]:
    """Where a failback of a failover of now begins; ClusterError when the hub does not answer.

    From the history of the checkpoint, not the hub's ends of now: producers may write there as soon
    as the source is gone, long before that is noticed.
    """
    place = config.checkpoint
    with open_admin(config, HUB) as admin:
        logs = read_logs(admin, found.hub_topics, config.supervision.connect_timeout)
    copied = {sp: it for sp, it in found.state.entries.items() if it.position > 0}
    past = Past(place.path, place.storage_options, {sp: it.log for sp, it in copied.items()})
    proven = past.bounds({sp: it.position - 1 for sp, it in copied.items()})
    bounds = []
    for sp, entry in copied.items():
        bound = fitting(proven[sp], found.hub_id, logs)
        if not bound.hub_ends:
            # The last record came before the history begins, or was never copied by us.
            own = entry.snapshot
            bound = fitting(ProvenBound(own.hub_ends, hub_id=own.cluster_id), found.hub_id, logs)
        bounds.append(bound.hub_ends)
    return ends_of(logs, bounds)


def _copied(
    config: Config,
    alias: str,
    found: FailoverFacts,
    rules: FailoverRules,
    deadline: float,
    report: TextSink,
    *,
    paused: bool,
) -> tuple[FailoverFacts, StepRow]:
    """Wait until all is copied that the source held at first."""
    step = "copy what it has"
    words = f"{found.left:,} offsets are not copied"
    if not found.alive or paused or not rules.wait:
        why = "no answer of it" if not found.alive else "it is paused" if paused else "--no-wait"
        return found, StepRow(step=step, state=StepState.LEFT_OUT, detail=f"{why}; {words}")
    if rules.dry_run:
        return found, StepRow(step=step, state=StepState.PLANNED, detail=words)
    return wait_copied(config, alias, found, deadline, report), StepRow(
        step=step, state=StepState.DONE, detail="all that it held"
    )


def wait_copied(
    config: Config, alias: str, found: FailoverFacts, deadline: float, report: TextSink
) -> FailoverFacts:
    """Wait until the checkpoint has reached the ends of this sight; FailoverError when it is late.

    The sight with the state of then.
    """
    while found.left:
        words = f"{found.left:,} offsets of {alias} are not copied yet"
        if time.monotonic() >= deadline:
            raise FailoverError(f"not in time: {words}; does it run, and is nothing paused?")
        report(words)
        time.sleep(POLL_SECONDS)
        found = replace(found, state=_state_of(config, alias))
    return found


def _state_of(config: Config, alias: str) -> CheckpointState:
    """What is stored now, with the partitions of one source alone."""
    whole = stored_state(config.checkpoint)
    own = {sp: it for sp, it in whole.entries.items() if sp.cluster == alias}
    return replace(whole, entries=own)


def _groups(
    config: Config,
    alias: str,
    rules: FailoverRules,
    deadline: float,
    report: TextSink,
    *,
    paused: bool,
) -> _Groups:
    """Take the groups of the source over, as `groups cutover` does; of several sources if they are.

    Those that were taken over before, and have made no progress at the source since, are left
    alone.
    """
    others = [it for it in config.sources if it != alias]
    replies = ask_states(config, (alias, *others))
    own = replies.of(alias)
    hidden = ask_unlisted(config, replies.ok)
    notes = [
        f"{it} gives no answer: what groups of the same name have read there does not count"
        for it in replies.failed
    ]
    notes += [
        f"{it}: {why}: what they have read there does not count"
        for it, why in hidden.items()
        if it != alias
    ]
    wanted = matching(own, rules.groups, rules.exclude)
    if left := [it for it in matching(own, (".*",), ()) if it not in wanted]:
        notes.append(f"left where they are, as --groups and --exclude say: {', '.join(left)}")
    moving = Moving(
        config,
        ApplyRules(dry_run=rules.dry_run),
        deadline,
        report,
        rest=rules.wait,
        copied=rules.wait and not paused,
        leave_moved=True,
    )
    sources = {it: (alias, *(o for o in others if it in replies.ok.get(o, ()))) for it in wanted}
    reports, failed = [], {}
    for group, outcome in moving.all_of(sources).items():
        if isinstance(outcome, GroupReport):
            reports.append(outcome)
        elif isinstance(outcome, RefusedError):
            notes.append(f"group {group} stays: {outcome}")
        else:
            failed[group] = str(outcome)
    return _Groups(tuple(reports), failed, tuple(notes), hidden.get(alias, ""))


def _groups_step(
    groups: _Groups, found: FailoverFacts, rules: FailoverRules, *, over: bool
) -> StepRow:
    if over and not groups.reports and not groups.failed:
        return StepRow(step="groups", state=StepState.WAS_DONE)
    if not found.alive:
        return StepRow(step="groups", state=StepState.LEFT_OUT, detail="no answer of it")
    failed = f", {len(groups.failed)} do not" if groups.failed else ""
    return _step("groups", rules, f"{len(groups.reports)} groups continue at the hub{failed}")


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


def _at_hub(
    config: Config, alias: str, found: FailoverFacts
) -> tuple[tuple[HubGroup, ...], tuple[str, ...]]:
    """The groups that the hub has offsets of, in the topics that the source feeds.

    And the groups that it does not report, in words.
    """
    timeout, groups = config.supervision.connect_timeout, config.sources[alias].groups
    partitions = [
        TopicPartition(topic, number)
        for topic, count in found.hub_topics.items()
        for number in range(count)
    ]
    with open_admin(config, HUB) as admin:
        states = group_states(admin, timeout)
    synced = set(matching(states, groups.wanted, groups.unwanted))
    names = matching(states, (".*",), ())
    committed, failed = committed_by_all(HUB, config.hub, names, partitions, timeout)
    rows = tuple(
        HubGroup(group=it, state=states[it], partitions=len(committed[it]), synced=it in synced)
        for it in names
        if committed.get(it)
    )
    return rows, tuple(f"the hub does not report a group: {failed[it]}" for it in sorted(failed))


def _notes(config: Config, alias: str, found: FailoverFacts) -> list[str]:
    notes = []
    if not found.alive:
        unknown = sum(end is None for end in found.ends.values())
        known = f"{found.left:,} offsets that were seen there are not at the hub"
        more = f", and the end of {unknown} partitions is unknown" if unknown else ""
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
