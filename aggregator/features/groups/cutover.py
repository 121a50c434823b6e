"""Cuts groups over from their sources to the hub: wait until all is copied, translate, commit."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from aggregator.config.schema import Config
from aggregator.features.groups.commit_offsets import applied
from aggregator.features.groups.group_admin import group_states
from aggregator.features.groups.group_report import GroupReport
from aggregator.features.groups.hub_offsets import ApplyRules, is_active, unread_losses
from aggregator.features.groups.hub_scan import ReadProgress
from aggregator.features.groups.translate import (
    TOGETHER,
    GroupSight,
    HubReading,
    SourceGroup,
    TopicPlaces,
    all_translated,
    at_sources,
    backfilled_of,
    look,
    past_of,
    states_at,
)
from aggregator.features.quarantine.ledger import Filter, Ledger
from aggregator.features.quarantine.reader import opened
from aggregator.features.quarantine.records import RecordState
from aggregator.kafka.admin import ClusterAdmin, by_partition, each_cluster
from aggregator.kafka.admin.parallel import seconds_for
from aggregator.model.errors import AggregatorError, ClusterError, RefusedError
from aggregator.model.values import SourcePartition, TopicPartition
from aggregator.plan.positions.start import Gap
from aggregator.store.checkpoint.checkpoint_table import stored_state
from aggregator.store.checkpoint.start_state import CheckpointState
from aggregator.store.gaps import GapTable
from aggregator.store.moved_groups import MovedGroups
from aggregator.store.state_store import StateStore

POLL_SECONDS = 1.0
LISTED_SECONDS = 3.0
"""A group whose coordinator moves is in no list for a moment. Some kinds are in none ever."""
STILL_SECONDS = 30.0
"""Positions move with each commit: where none has moved by then, something may be wrong."""
AT_ONCE = 4
"""How many groups are translated at the same time: each reads the history."""

TextSink = Callable[[str], None]
Found = tuple[SourceGroup, ...] | ClusterError
"""A group at its sources, or why one of these does not answer."""
Outcome = GroupReport | AggregatorError
"""The outcome for a group."""


class CutoverError(AggregatorError):
    """The groups were not cut over in time; nothing was written."""


def translate_groups(
    config: Config,
    groups: Sequence[str],
    source: str | None,
    rules: ApplyRules,
    seconds: float,
    report: TextSink,
    *,
    cut_over: bool = False,
) -> dict[str, Outcome]:
    """Translate groups as they are now, and write them unless the rules say not to.

    To `cut_over`, it waits before that until they are at rest at their sources, and all is copied
    below the log ends of that moment. A dry run waits for nothing, and shows what it would wait
    for. A group's outcome is RefusedError when it has committed nothing that is copied. Raises
    ClusterError and CheckpointError when something that all need does not answer, CutoverError
    when it is not done after `seconds`.
    """
    until = time.monotonic() + seconds
    moving = Moving(config, rules, until, report, rest=cut_over, copied=cut_over)
    return moving.all_of(dict.fromkeys(groups, config.chosen(source)))


@dataclass(frozen=True, slots=True)
class Moving:
    """Cuts groups over, all of them by one discovery and one wait.

    `rest` waits until those that have committed something are at rest, `copied` until all is copied
    that the logs held then; by the deadline (monotonic) nothing is written else. With
    `leave_moved` groups are left alone that were cut over before, and have made no progress since.
    """

    config: Config
    rules: ApplyRules
    deadline: float
    report: TextSink
    rest: bool = False
    copied: bool = False
    leave_moved: bool = False

    def all_of(self, groups: Mapping[str, Sequence[str]]) -> dict[str, Outcome]:
        """The outcome of each group, given with its sources; a failure affects that group alone.

        Groups left alone by `leave_moved` are absent. Raises CutoverError when the waiting takes
        too long, ClusterError and CheckpointError when something that all need does not answer.
        """
        if not groups:
            return {}
        aliases = [it for it in self.config.sources if any(it in own for own in groups.values())]
        sight = look(self.config, aliases)
        found = at_sources(sight, groups, states_at(self.config, aliases))
        if self.leave_moved:
            moved = self._table.read()
            found = {it: own for it, own in found.items() if not moved.has(it, _commits(own))}
            groups = {it: groups[it] for it in found}
        if self.rest:
            found = self._at_rest(sight, groups, found)
        if self.copied:
            ends = _log_ends(sight, found.values())
            state = _copied(self.config, ends, self.rules, self.deadline, self.report)
            sight = replace(sight, state=state)
            if self.rest and not self.rules.dry_run:
                # They may have made progress meanwhile.
                found = self._at_rest(sight, groups, found)
        outcomes = self._translated(sight, found) if found else {}
        if (self.rest or self.leave_moved) and not self.rules.dry_run:
            # After `groups apply` alone a group may stay at the source.
            done = [it for it, outcome in outcomes.items() if _is_done(outcome)]
            self._table.put({it: _commits(found[it]) for it in done})
        return outcomes

    @property
    def _table(self) -> MovedGroups:
        return MovedGroups(StateStore.of(self.config.checkpoint))

    def _at_rest(
        self, sight: GroupSight, groups: Mapping[str, Sequence[str]], found: Mapping[str, Found]
    ) -> dict[str, Found]:
        """Wait until no group with commits has active members; returns the groups."""
        listed_by = time.monotonic() + LISTED_SECONDS
        while True:
            states = states_at(self.config, sight.aliases)
            active = [
                f"{group} at {alias}"
                for group, aliases in groups.items()
                for alias in aliases
                if is_active(states[alias].get(group, "")) and _commits(found[group])
            ]
            hidden = any(
                group not in states[alias]
                for group, own in found.items()
                for alias in _commits(own)
            )
            if hidden and not active and time.monotonic() < listed_by:
                time.sleep(POLL_SECONDS)
                continue
            if not active:
                return at_sources(sight, groups, states)
            words = f"these groups have active members: {', '.join(active)}: stop them"
            if self.rules.dry_run:
                self.report(f"would wait: {words}")
                return at_sources(sight, groups, states)
            _wait(self.deadline, words, self.report)

    def _translated(self, sight: GroupSight, found: Mapping[str, Found]) -> dict[str, Outcome]:
        gaps = GapTable(StateStore.of(self.config.checkpoint)).load()
        losses = [it.gap for it in gaps.values()]
        outcomes: dict[str, Outcome] = {}
        with (
            opened(self.config) as (hub, _, ledger),
            ThreadPoolExecutor(AT_ONCE, thread_name_prefix="translate-groups") as pool,
        ):
            late, past = _written_late(ledger) | backfilled_of(sight), past_of(sight)
            # Once: the hub lists all groups, however many are asked for.
            states = group_states(hub, self.config.supervision.connect_timeout)

            def translate(part: Sequence[str]) -> Iterable[Outcome]:
                sources = {group: self._to_translate(group, found[group]) for group in part}
                # Long enough that the wait before was not in vain.
                until = max(self.deadline, time.monotonic() + POLL_SECONDS)
                reading = HubReading(until, late, report=self._progress)
                wanted = {
                    group: (_commits(own), reading)
                    for group, own in sources.items()
                    if not isinstance(own, AggregatorError)
                }
                places = all_translated(sight, hub, wanted, past, pool.map)

                def write(group: str) -> Outcome:
                    own, topics = sources[group], places.get(group, ())
                    if isinstance(own, AggregatorError):
                        return own
                    try:
                        if isinstance(topics, Exception):
                            raise topics
                        return self._written(hub, group, own, topics, states, losses)
                    except AggregatorError as error:
                        return error

                return pool.map(write, part)

            for at in range(0, len(found), TOGETHER):
                part = [*found][at : at + TOGETHER]
                for group, outcome in zip(part, translate(part), strict=True):
                    outcomes[group] = outcome
                    if len(found) > 1:
                        self.report(f"{len(outcomes)} of {len(found)} groups are looked at")
        return outcomes

    def _written(
        self,
        hub: ClusterAdmin,
        group: str,
        sources: Sequence[SourceGroup],
        topics: tuple[TopicPlaces, ...],
        states: Mapping[str, str],
        losses: Collection[Gap],
    ) -> GroupReport:
        state = states.get(group, "")
        report = applied(self.config, hub, group, sources, topics, rules=self.rules, state=state)
        limits = _limits(self.config, sources, topics, losses)
        return report.model_copy(update={"notes": (*limits, *report.notes)})

    def _to_translate(self, group: str, found: Found) -> Found | AggregatorError:
        if isinstance(found, ClusterError):
            return found
        if not _commits(found):
            asked = ", ".join(it.alias for it in found)
            return RefusedError(
                [f"group {group} has committed nothing in what is copied of {asked}"]
            )
        if self.rest and not self.rules.dry_run and any(is_active(it.state) for it in found):
            return CutoverError(f"group {group} has active members: stop them")
        return found

    def _progress(self, now: ReadProgress) -> None:
        self.report(f"reading the hub: {now.read:,} records, {now.left:,} offsets left at most")


def _is_done(outcome: Outcome) -> bool:
    return isinstance(outcome, GroupReport) and outcome.done


def _commits(found: Found) -> dict[str, Mapping[TopicPartition, int]]:
    """Source (alias) -> what the group has committed there, where it has and says so."""
    sources = () if isinstance(found, ClusterError) else found
    return {it.alias: it.commits for it in sources if it.commits}


def _limits(
    config: Config,
    sources: Sequence[SourceGroup],
    topics: Sequence[TopicPlaces],
    losses: Collection[Gap],
) -> list[str]:
    """Notes for people about a translation, beside its own."""
    notes = []
    if len(sources) < len(config.sources):
        asked = ", ".join(it.alias for it in sources)
        notes.append(f"only {asked} was asked: what the group has read elsewhere is left out")
    if hidden := ", ".join(it.alias for it in sources if it.commits and not it.state):
        notes.append(
            f"{hidden} does not list the group, as if of another kind (such as of Kafka Streams), "
            "so whether it has active members there is not known"
        )
    for topic in topics:
        gaps = unread_losses(topic.wanted.commits, losses)
        if topic.places and gaps:
            notes.append(
                f"{topic.wanted.hub_topic}: records that the group has not read were lost at the "
                f"source before they were copied, in {gaps} gaps (aggregator gaps)"
            )
    return notes


def _written_late(ledger: Ledger) -> frozenset[SourcePartition]:
    """Partitions of which a quarantined record was, or may have been, retried."""
    late = (RecordState.RETRIED, RecordState.TRYING)
    entries = ledger.select(Filter(), retried=True)
    return frozenset(it.record.origin.partition for it in entries if it.state in late)


def _log_ends(sight: GroupSight, groups: Iterable[Found]) -> dict[SourcePartition, int]:
    """Where the logs end now, of the topics in which any of the groups has commits."""
    timeout = sight.config.supervision.connect_timeout
    topics: dict[str, set[str]] = {}
    for found in groups:
        for alias, own in _commits(found).items():
            topics.setdefault(alias, set()).update(tp.topic for tp in own)
    wanted = {
        alias: [tp for tp in sight.topics_of(alias) if tp.topic in names]
        for alias, names in topics.items()
    }

    replies = each_cluster(
        sight.config,
        wanted,
        lambda admin: admin.log_ends(wanted[admin.alias], timeout),
        seconds=seconds_for(timeout, partitions=max(map(len, wanted.values()), default=0)),
    )
    for alias, error in replies.failed.items():
        raise ClusterError(f"{alias}: its log ends are not known: {error}") from error
    for alias, answer in replies.ok.items():
        if missing := sorted(set(wanted[alias]) - answer.keys()):
            raise ClusterError(f"{alias}: the log end of {missing[0]} is not known")
    return by_partition(replies.ok)


def _copied(
    config: Config,
    ends: Mapping[SourcePartition, int],
    rules: ApplyRules,
    deadline: float,
    report: TextSink,
) -> CheckpointState:
    """The checkpoint, once its positions have reached these ends."""
    before, moved_at = -1, 0.0
    while True:
        state = stored_state(config.checkpoint)
        behind = {sp: end - state.positions.get(sp, 0) for sp, end in ends.items()}
        left = {sp: offsets for sp, offsets in behind.items() if offsets > 0}
        if not left:
            return state
        if (now := sum(left.values())) != before:
            before, moved_at = now, time.monotonic()
        first, *others = left
        words = f"{now:,} offsets are not copied yet, of {first} and {len(others)} other partitions"
        if rules.dry_run:
            report(f"would wait: {words}")
            return state
        if time.monotonic() >= min(deadline, moved_at + STILL_SECONDS):
            words += "; does it run, and is nothing paused?"
        _wait(deadline, words, report)


def _wait(deadline: float, words: str, report: TextSink) -> None:
    if time.monotonic() >= deadline:
        raise CutoverError(f"not in time, and nothing was written: {words}")
    report(words)
    time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
