"""A group goes over from its sources to the hub: wait until all is copied, translate, commit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from aggregator.checkpoint.state import CheckpointState
from aggregator.checkpoint.table import CheckpointTable
from aggregator.config.schema import Config
from aggregator.discover import open_admin
from aggregator.discover.discover import LATE_SECONDS
from aggregator.discover.parallel import ask_all
from aggregator.errors import AggregatorError, ClusterError, RefusedError
from aggregator.gaps.table import GapTable
from aggregator.groups.apply import ApplyRules, applied
from aggregator.groups.core import is_active, unread_losses
from aggregator.groups.document import GroupReport
from aggregator.groups.read import ReadProgress
from aggregator.groups.translate import (
    GroupSight,
    HubReading,
    SourceGroup,
    TopicPlaces,
    at_sources,
    look,
    past_of,
    states_at,
    translated,
)
from aggregator.model import SourcePartition, TopicPartition
from aggregator.quarantine.ledger import Filter, Ledger
from aggregator.quarantine.records import RecordState
from aggregator.quarantine.shelf import opened

POLL_SECONDS = 1.0

Tell = Callable[[str], None]


class CutoverError(AggregatorError):
    """The group did not come over in time; nothing was written."""


def translate_group(
    config: Config,
    group: str,
    source: str | None,
    rules: ApplyRules,
    seconds: float,
    tell: Tell,
) -> GroupReport:
    """Translate a group as it is now, and write it unless the rules say not to.

    Raises RefusedError when it has committed nothing that is copied, ClusterError and
    CheckpointError when somebody does not answer.
    """
    deadline = time.monotonic() + seconds
    sight = look(config, source)
    sources = at_sources(sight, group, states_at(config, sight.aliases))
    return _translated(sight, group, sources, rules, deadline, tell)


def cut_over(
    config: Config,
    group: str,
    source: str | None,
    rules: ApplyRules,
    seconds: float,
    tell: Tell,
) -> GroupReport:
    """Wait until the group is at rest at its sources and copied, then translate and write it.

    Copied is all below the log ends of the moment at which it was at rest. A dry run waits for
    nothing, and tells what it would wait for. Raises as `translate_group` does, and CutoverError
    when it is not done after so many seconds.
    """
    deadline = time.monotonic() + seconds
    sight = look(config, source)
    sources = _at_rest(sight, group, rules, deadline, tell)
    ends = _log_ends(sight, sources)
    state = _copied(config, ends, rules, deadline, tell)
    if not rules.dry_run:
        # It may have gone on meanwhile.
        sources = _at_rest(sight, group, rules, deadline, tell)
    return _translated(replace(sight, state=state), group, sources, rules, deadline, tell)


def _translated(
    sight: GroupSight,
    group: str,
    sources: Sequence[SourceGroup],
    rules: ApplyRules,
    deadline: float,
    tell: Tell,
) -> GroupReport:
    commits = {it.alias: it.commits for it in sources if it.commits}
    if not commits:
        raise RefusedError(
            [f"group {group} has committed nothing in what is copied of {', '.join(sight.aliases)}"]
        )

    def progress(now: ReadProgress) -> None:
        tell(f"reading the hub: {now.read:,} records, {now.left:,} offsets left at most")

    with opened(sight.config) as (hub, _, ledger):
        reading = HubReading(deadline, _written_late(ledger), tell=progress)
        topics = translated(sight, hub, commits, reading, past_of(sight))
        report = applied(sight.config, hub, group, sources, topics, rules)
    notes = (*_limits(sight, topics), *report.notes)
    return report.model_copy(update={"notes": notes})


def _limits(sight: GroupSight, topics: Sequence[TopicPlaces]) -> list[str]:
    """What people have to know of a translation beside what it says itself."""
    notes = []
    if len(sight.aliases) < len(sight.config.sources):
        asked = ", ".join(sight.aliases)
        notes.append(f"only {asked} was asked: what the group has read elsewhere is left out")
    place = sight.config.checkpoint
    records = GapTable(place.path, place.storage_options).load().values()
    for topic in topics:
        gaps = unread_losses(topic.wanted.commits, (it.gap for it in records))
        if topic.places and gaps:
            notes.append(
                f"{topic.wanted.hub_topic}: records that the group has not read were lost at the "
                f"source before they were copied, in {gaps} gaps (aggregator gaps)"
            )
    return notes


def _written_late(ledger: Ledger) -> frozenset[SourcePartition]:
    """Partitions of which a record that the hub had refused was, or may have been, tried again."""
    late = (RecordState.RETRIED, RecordState.TRYING)
    entries = ledger.select(Filter(), retried=True)
    return frozenset(it.record.origin.partition for it in entries if it.state in late)


def _at_rest(
    sight: GroupSight, group: str, rules: ApplyRules, deadline: float, tell: Tell
) -> tuple[SourceGroup, ...]:
    """The group at its sources, once it has no active member at any of them."""
    while True:
        states = states_at(sight.config, sight.aliases)
        active = [it for it in sight.aliases if is_active(states[it].get(group, ""))]
        if not active:
            return at_sources(sight, group, states)
        words = f"group {group} has active members at {', '.join(active)}: stop them"
        if rules.dry_run:
            tell(f"would wait: {words}")
            return at_sources(sight, group, states)
        _wait(deadline, words, tell)


def _log_ends(sight: GroupSight, sources: Sequence[SourceGroup]) -> dict[SourcePartition, int]:
    """Where the logs end now, of the topics in which the group has commits."""
    timeout = sight.config.supervision.connect_timeout
    wanted = {
        it.alias: [
            tp
            for tp in sight.topics_of(it.alias)
            if tp.topic in {committed.topic for committed in it.commits}
        ]
        for it in sources
        if it.commits
    }

    def ask(alias: str) -> Callable[[], Mapping[TopicPartition, int]]:
        def call() -> Mapping[TopicPartition, int]:
            with open_admin(sight.config, alias) as admin:
                return admin.log_ends(wanted[alias], timeout)

        return call

    ends: dict[SourcePartition, int] = {}
    for alias, told in ask_all({it: ask(it) for it in wanted}, timeout + LATE_SECONDS).items():
        if isinstance(told, Exception):
            raise ClusterError(f"{alias}: its log ends are not told: {told}") from told
        if missing := sorted(set(wanted[alias]) - told.keys()):
            raise ClusterError(f"{alias}: the log end of {missing[0]} is not told")
        ends |= {SourcePartition(alias, *tp): end for tp, end in told.items()}
    return ends


def _copied(
    config: Config,
    ends: Mapping[SourcePartition, int],
    rules: ApplyRules,
    deadline: float,
    tell: Tell,
) -> CheckpointState:
    """The checkpoint, once its positions have reached these ends."""
    place = config.checkpoint
    while True:
        table = CheckpointTable.open(place.path, place.storage_options)
        state = table.load() if table is not None else CheckpointState()
        left = _left(ends, state)
        if not left:
            return state
        first, *others = left
        words = (
            f"{sum(left.values()):,} offsets are not copied yet, of {first} and {len(others)} "
            "other partitions"
        )
        if rules.dry_run:
            tell(f"would wait: {words}")
            return state
        _wait(deadline, f"{words}; does it run, and is nothing paused?", tell)


def _left(
    ends: Mapping[SourcePartition, int], state: CheckpointState
) -> dict[SourcePartition, int]:
    behind = {sp: end - state.positions.get(sp, 0) for sp, end in ends.items()}
    return {sp: offsets for sp, offsets in behind.items() if offsets > 0}


def _wait(deadline: float, words: str, tell: Tell) -> None:
    if time.monotonic() >= deadline:
        raise CutoverError(f"not in time, and nothing was written: {words}")
    tell(words)
    time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
