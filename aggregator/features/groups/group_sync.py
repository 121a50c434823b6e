"""Translates consumer groups during a run, so that the hub has their offsets at any time.

A thread of its own with clients of its own: a cluster that hangs, or a right that is missing, is a
state and an event, and delays nothing else. What has not changed is not translated again.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from aggregator.config.schema import Config, SourceConfig
from aggregator.datapath.connector.hub_origins import OpenOrigins
from aggregator.features.groups.commit_offsets import applied
from aggregator.features.groups.group_admin import committed_by_all, group_states, unlisted
from aggregator.features.groups.group_report import GroupReport
from aggregator.features.groups.hub_offsets import GOOD, ApplyRules, PlaceVerdict, matching
from aggregator.features.groups.translate import (
    TOGETHER,
    GroupSight,
    HubReading,
    SourceGroup,
    TopicPlaces,
    Translation,
    all_translated,
    backfilled_of,
    past_of,
    sight_of,
)
from aggregator.features.service import LoopService, Now
from aggregator.kafka.admin import HUB, ClusterAdmin, open_admin
from aggregator.kafka.admin.parallel import LATE_SECONDS, ask_all
from aggregator.kafka.discovery.prepare import partitions_by_cluster
from aggregator.model.errors import ClusterError
from aggregator.model.events import Event, EventSink
from aggregator.model.loop import Loop
from aggregator.model.values import SourcePartition, TopicPartition
from aggregator.plan.plan import Plan
from aggregator.plan.reload import same_connection
from aggregator.status.schema import GroupSyncStatus, SyncedGroup
from aggregator.store.checkpoint.past_commits import Past
from aggregator.store.checkpoint.start_state import CheckpointState
from aggregator.store.controls import Controls
from aggregator.store.failovers import Failovers
from aggregator.store.moved_groups import MovedGroups
from aggregator.store.state_store import StateStore

MOST_RECORDS = 20_000
"""How many records of a hub partition are read for one group: the stream goes first. A place found
by then is the exact one; otherwise the group is left a little further back."""
READ_SECONDS = 300.0
"""How long the hub may be read for groups that are translated together."""
RETRY_SECONDS = 60.0
"""How often a failed write is retried while nothing changes."""

AT_THE_HUB = "it was taken over to the hub, and is left alone there"

Offsets = Mapping[TopicPartition, int]
Answer = tuple[Mapping[str, Offsets], Mapping[str, ClusterError]]
"""What groups have committed at a source, and for the others why it is unknown."""


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The last inputs from the engine's thread."""

    config: Config
    plan: Plan
    state: CheckpointState

    @property
    def aliases(self) -> tuple[str, ...]:
        """The sources whose groups are translated, also those that have not answered yet."""
        return tuple(alias for alias, it in self.config.sources.items() if it.groups.wanted)

    @property
    def every(self) -> float:
        return min((self.config.sources[it].groups.every for it in self.aliases), default=10.0)


@dataclass(frozen=True, slots=True)
class _Done:
    """What a group was translated from, and to; `waiting` are positions that must move first."""

    commits: Mapping[str, Offsets]
    sight: GroupSight
    places: Offsets = field(default_factory=dict)
    waiting: Mapping[SourcePartition, int | None] = field(default_factory=dict)
    complete: bool = True
    at: float = 0.0

    def is_of(self, commits: Mapping[str, Offsets], sight: GroupSight) -> bool:
        """Whether it is what would be translated now."""
        return self.commits == commits and self.sight.is_like(sight)

    def floors(self, commits: Mapping[str, Offsets], sight: GroupSight) -> Offsets:
        """Hub offsets below which nothing can be found if the group has only moved forward."""
        forward = self.commits.keys() == commits.keys() and all(
            own.keys() == commits[alias].keys()
            and all(commits[alias][tp] >= at for tp, at in own.items())
            for alias, own in self.commits.items()
        )
        return self.places if forward and self.sight.is_like(sight) else {}


class GroupSync(LoopService):
    """Keeps groups in sync at the hub, for the sources whose config enables it."""

    name = "group_sync"

    def __init__(self, emit: EventSink, open_origins: OpenOrigins) -> None:
        self._emit = emit
        self._open_origins = open_origins
        self._inputs: _Inputs | None = None
        self._status = GroupSyncStatus()
        self._admins: dict[str, tuple[SourceConfig, ClusterAdmin]] = {}
        self._commits: dict[str, Mapping[str, Offsets]] = {}
        self._refused: dict[str, Mapping[str, ClusterError]] = {}
        self._done: dict[str, _Done] = {}
        self._groups: dict[str, SyncedGroup] = {}
        self._past: Past | None = None
        self._sight: tuple[tuple[Config, Plan], GroupSight] | None = None
        self._late: frozenset[SourcePartition] = frozenset()
        self._loop = Loop(
            "sync-groups",
            self._turn,
            every=self._every,
            on_error=lambda error: self._report(str(error)),
            finish=self._close,
        )

    def follow(self, now: Now) -> None:
        """Translate by what is planned and committed now."""
        if now.plan is None:
            return
        self._inputs = _Inputs(now.config, now.plan, now.committed)
        if self._inputs.aliases:
            self._loop.start()

    def status(self) -> GroupSyncStatus | None:
        """Its status; None where no source asks for it."""
        return self._status if self._inputs is not None and self._inputs.aliases else None

    def _every(self) -> float:
        return self._inputs.every if self._inputs is not None else RETRY_SECONDS

    def _close(self) -> None:
        for _, admin in self._admins.values():
            admin.close()

    def _turn(self) -> None:
        inputs = self._inputs
        if inputs is None or not inputs.aliases:
            self._groups.clear()
            return
        failures = self._ask(inputs)
        answered = inputs.plan.sources.keys() & self._commits.keys()
        away = {
            it: failures.get(it, f"{it} has not answered yet")
            for it in inputs.aliases
            if it not in answered
        }
        sight = self._sight_of(inputs)
        found = {group for alias in inputs.aliases for group in self._commits.get(alias, {})}
        hidden = self._hidden(inputs.aliases) | self._awaited(inputs.config, away, found)
        self._groups = {name: it for name, it in self._groups.items() if name in found}
        self._groups |= {name: SyncedGroup(group=name, error=why) for name, why in hidden.items()}
        due = [it for it in sorted(found - hidden.keys()) if self._is_due(it, sight)]
        refused = next((f"group {group}: {why}" for group, why in hidden.items()), "")
        if due:
            refused = self._translated(sight, due) or refused
        self._report(next(iter({**away, **failures}.values()), refused))

    def _sight_of(self, inputs: _Inputs) -> GroupSight:
        """What groups are translated by, of which only the positions differ while a plan stays."""
        made_of, last = (inputs.config, inputs.plan), self._sight
        if last is not None and all(new is old for new, old in zip(made_of, last[0], strict=True)):
            sight = replace(last[1], state=inputs.state)
        else:
            sight = sight_of(*made_of, inputs.aliases, inputs.state)
        self._sight = made_of, sight
        return sight

    def _hidden(self, aliases: Collection[str]) -> dict[str, str]:
        """Groups whose commits a source has never reported, and why.

        They may be further back there than elsewhere, so they are left out. The others are not.
        """
        return {
            group: str(error)
            for alias in aliases
            for group, error in self._refused.get(alias, {}).items()
            if group not in self._commits[alias]
        }

    def _awaited(
        self, config: Config, away: Mapping[str, str], found: Collection[str]
    ) -> dict[str, str]:
        """Groups that may also be at a source that has not answered yet, and why it has not.

        They may be further back there. What its patterns do not match it is never asked for.
        """
        held: dict[str, str] = {}
        for alias, why in away.items():
            own = config.sources[alias].groups
            held |= dict.fromkeys(matching(found, own.wanted, own.unwanted), why)
            # What it answered before, by other patterns or another connection, would still count.
            held |= dict.fromkeys(self._commits.get(alias, {}), why)
        return held

    def _translated(self, sight: GroupSight, due: Sequence[str]) -> str:
        """Translate and write these groups; returns what an operator must fix, or ""."""
        place = sight.config.checkpoint
        pauses = Controls(StateStore.of(place)).read().sources
        failovers = Failovers(StateStore.of(place)).read()
        over = {
            alias
            for alias, own in failovers.items()
            if any(it.is_of(pauses.get(alias)) for it in own)
        }
        moved = MovedGroups(StateStore.of(place)).read()
        self._past, self._late = past_of(sight, self._past), backfilled_of(sight)
        refused = ""
        with open_admin(sight.config, HUB) as hub:
            # Once: the hub lists all groups, however many are due.
            states = group_states(hub, sight.config.supervision.connect_timeout)
            reading = HubReading(
                0.0,
                self._late,
                most=MOST_RECORDS,
                stop=self._loop.over,
                open_origins=self._open_origins,
            )
            for at in range(0, len(due), TOGETHER):
                if self._loop.over.is_set():
                    break
                left = {group: self._of(group, sight) for group in due[at : at + TOGETHER]}
                for group, commits in [*left.items()]:
                    if over & commits.keys() or moved.has(group, commits):
                        # It is at the hub, and its offsets may be set there by hand.
                        del left[group]
                        done = _Done(commits, sight, complete=False, at=time.monotonic())
                        self._done[group] = done
                        self._groups[group] = SyncedGroup(group=group, error=AT_THE_HUB)
                why = self._together(sight, hub, left, states, reading)
                refused = refused or why
        return refused

    def _report(self, error: str) -> None:
        if self._loop.over.is_set():
            return
        if error and not self._status.error:
            self._emit(Event("group_sync_failed", f"not all groups are translated: {error}"))
        groups = tuple(it for _, it in sorted(self._groups.items()))
        self._status = GroupSyncStatus(groups=groups, at=datetime.now(UTC), error=error)

    def _ask(self, inputs: _Inputs) -> dict[str, str]:
        """Ask the sources for their groups; a failure keeps the last answer. Returns failures."""
        timeout = inputs.config.supervision.connect_timeout
        # There may be hundreds of groups, and one that is refused takes a moment.
        seconds = RETRY_SECONDS + timeout + LATE_SECONDS
        partitions = partitions_by_cluster(inputs.plan.routes)
        asked = [it for it in inputs.aliases if it in inputs.plan.sources]
        jobs = {it: self._asking(inputs, it, partitions.get(it, [])) for it in asked}
        replies = ask_all(jobs, seconds)
        for alias, (listed, refused) in replies.ok.items():
            known = self._commits.get(alias, {})
            # What it answered before counts, as when the source is away.
            kept = {it: known[it] for it in refused if it in known}
            self._commits[alias] = {**kept, **listed}
            self._refused[alias] = refused
        # What is copied of a source is not known before it has answered once since the start.
        away = inputs.plan.failed
        failures = {it: str(away[it]) for it in inputs.aliases if it in away}
        for alias, error in replies.failed.items():
            failures[alias] = f"{alias}: {str(error).removeprefix(f'{alias}: ')}"
        return failures

    def _asking(
        self, inputs: _Inputs, alias: str, partitions: Sequence[TopicPartition]
    ) -> Callable[[], Answer]:
        config, source = inputs.config, inputs.config.sources[alias]
        known = self._admins.get(alias)
        if known is None or not same_connection(known[0], source):
            if known is not None:
                known[1].close()
            self._admins[alias] = known = (source, open_admin(config, alias))
        admin = known[1]
        last = self._commits.get(alias)

        def ask() -> Answer:
            timeout = config.supervision.connect_timeout
            if last is None and (why := unlisted(admin, timeout)):
                raise ClusterError(why)
            # One that no broker lists while its coordinator moves is there all the same. Without
            # its offsets here it would leap over what it has not read.
            there = {*group_states(admin, timeout), *(last or ())}
            names = matching(there, source.groups.wanted, source.groups.unwanted)
            found, failed = committed_by_all(alias, source, names, partitions, timeout)
            return {group: offsets for group, offsets in found.items() if offsets}, failed

        return ask

    def _is_due(self, group: str, sight: GroupSight) -> bool:
        done = self._done.get(group)
        if done is None or not done.is_of(self._of(group, sight), sight):
            return True
        if any(sight.state.position(sp) != at for sp, at in done.waiting.items()):
            return True
        return not done.complete and time.monotonic() - done.at >= RETRY_SECONDS

    def _of(self, group: str, sight: GroupSight) -> dict[str, Offsets]:
        return {
            alias: self._commits[alias][group]
            for alias in sight.aliases
            if group in self._commits.get(alias, {})
        }

    def _together(
        self,
        sight: GroupSight,
        hub: ClusterAdmin,
        groups: Mapping[str, Mapping[str, Offsets]],
        states: Mapping[str, str],
        reading: HubReading,
    ) -> str:
        """Translate some groups and write them; returns what an operator must fix, or ""."""
        now = time.monotonic()
        wanted, rules = dict[str, Translation](), dict[str, ApplyRules]()
        for group, commits in groups.items():
            before = self._done.get(group)
            floors = before.floors(commits, sight) if before is not None else {}
            # Before it is tried: what fails is not tried at each turn.
            self._done[group] = _Done(commits, sight, floors, complete=False, at=now)
            refine = before is not None and bool(before.waiting) and before.commits == commits
            rules[group] = ApplyRules(dry_run=False, keeping=True, refine=refine)
            own = replace(reading, deadline=now + READ_SECONDS, floors=floors, pinned=refine)
            wanted[group] = commits, own
        assert self._past is not None
        found, refused = all_translated(sight, hub, wanted, self._past), ""
        for group, topics in found.items():
            try:
                if isinstance(topics, Exception):
                    raise topics
                why = self._write(sight, hub, group, topics, rules[group], states.get(group, ""))
            except Exception as error:
                self._groups[group] = SyncedGroup(group=group, error=str(error))
                why = f"group {group}: {error}"
            refused = refused or why
        return refused

    def _write(
        self,
        sight: GroupSight,
        hub: ClusterAdmin,
        group: str,
        topics: tuple[TopicPlaces, ...],
        rules: ApplyRules,
        state: str,
    ) -> str:
        commits = self._done[group].commits
        sources = [SourceGroup(alias, "", own) for alias, own in commits.items()]
        report = applied(sight.config, hub, group, sources, topics, rules=rules, state=state)
        # Of what is not copied yet, the positions by which it was translated.
        waiting = {sp: sight.state.position(sp) for topic in topics for sp in topic.wanted.waiting}
        places = {place.partition: place.offset for topic in topics for place in topic.places}
        complete = not _why_not(report)
        self._done[group] = _Done(commits, sight, places, waiting, complete, self._done[group].at)
        self._groups[group] = SyncedGroup(
            group=group,
            partitions=sum(it.verdict in GOOD for it in report.partitions),
            at=datetime.now(UTC),
            error=_why_not(report),
        )
        failed = (it.reason for it in report.partitions if it.verdict is PlaceVerdict.FAILED)
        return next((f"group {group}: {why}" for why in failed), "")


def _why_not(report: GroupReport) -> str:
    """Why not all of a group is at the hub; a place that is only a little further back is."""
    reasons = [f"{it.topic}: {it.reason}" for it in report.refused]
    for it in report.partitions:
        short = it.verdict is PlaceVerdict.BACKWARDS and it.again is None
        if it.verdict not in GOOD and not short:
            reasons.append(f"{it.topic}-{it.partition}: {it.reason}")
    return reasons[0] if reasons else ""
