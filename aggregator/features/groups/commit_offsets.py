"""Commits a translation: a group's offsets at the hub; says why others are not written."""

from collections.abc import Mapping, Sequence

from aggregator.config.schema import Config
from aggregator.features.groups.group_admin import commit, committed
from aggregator.features.groups.group_report import (
    GroupAtHub,
    GroupAtSource,
    GroupReport,
    UntranslatedTopic,
)
from aggregator.features.groups.hub_offsets import (
    REASONS,
    ApplyRules,
    HubPlace,
    Marked,
    PlaceVerdict,
    is_active,
    judge,
    mark_of,
)
from aggregator.features.groups.translate import SourceGroup, TopicPlaces
from aggregator.kafka.admin import HUB, ClusterAdmin
from aggregator.kafka.admin.parallel import MOST_PARTITIONS, in_parts
from aggregator.model.alike import made_of
from aggregator.model.values import TopicPartition


def applied(
    config: Config,
    hub: ClusterAdmin,
    group: str,
    sources: Sequence[SourceGroup],
    topics: Sequence[TopicPlaces],
    rules: ApplyRules,
    state: str,
) -> GroupReport:
    """Commit the offsets of a group at the hub, as far as the rules allow; `hub` is its client.

    `state` is that of the group at the hub, "" where it is not; one that has members by now is
    refused by the hub itself. Does nothing the second time. Raises ClusterError when the hub does
    not report the group's offsets; what it refuses to write is in the report.
    """
    timeout = config.supervision.connect_timeout
    places = [place for topic in topics for place in topic.places]
    before = committed(HUB, config.hub, group, [it.partition for it in places], timeout)
    mark = mark_of(config.name, {it.alias: it.commits for it in sources if it.commits})
    rows = [_row(it, before.get(it.partition), mark, state, rules) for it in places]
    if not rules.dry_run:
        rows = _written(hub, group, rows, mark, timeout)
    waiting: dict[str, int] = {}
    for topic in topics:
        for sp, offsets in topic.wanted.waiting.items():
            waiting[sp.cluster] = waiting.get(sp.cluster, 0) + offsets
    return GroupReport(
        name=config.name,
        group=group,
        dry_run=rules.dry_run,
        bootstrap_servers=config.hub.bootstrap_servers,
        sources=tuple(
            GroupAtSource(
                source=it.alias,
                state=it.state,
                partitions=len(it.commits),
                waiting=waiting.get(it.alias, 0),
            )
            for it in sources
        ),
        partitions=tuple(rows),
        refused=tuple(
            UntranslatedTopic(topic=topic.wanted.hub_topic, reason=reason)
            for topic in topics
            for reason in topic.wanted.refusals
        ),
        notes=(*_several(topics), *(note for topic in topics for note in topic.notes)),
        records_read=sum(topic.read for topic in topics),
    )


def _row(
    place: HubPlace, before: Marked | None, mark: str, state: str, rules: ApplyRules
) -> GroupAtHub:
    verdict = judge(place, before, mark, rules, active=is_active(state))
    return made_of(
        GroupAtHub,
        place.partition,
        place,
        at_end=not place.found,
        before=None if before is None else before.offset,
        verdict=verdict,
        reason=REASONS[verdict],
    )


def _written(
    hub: ClusterAdmin, group: str, rows: Sequence[GroupAtHub], mark: str, timeout: float
) -> list[GroupAtHub]:
    """The rows with their outcome; a topic that is refused does not hold up others."""
    wanted: dict[str, dict[TopicPartition, int]] = {}
    for row in rows:
        if row.verdict is PlaceVerdict.WRITE:
            own = wanted.setdefault(row.topic, {})
            own[TopicPartition(row.topic, row.partition)] = row.offset
    failed = _commit_all(hub, group, wanted, mark, timeout)
    return [
        row.model_copy(update={"verdict": PlaceVerdict.FAILED, "reason": failed[row.topic]})
        if row.verdict is PlaceVerdict.WRITE and row.topic in failed
        else row
        for row in rows
    ]


def _commit_all(
    hub: ClusterAdmin,
    group: str,
    wanted: Mapping[str, Mapping[TopicPartition, int]],
    mark: str,
    timeout: float,
) -> dict[str, str]:
    """Commit the offsets of a group in these topics; those that are refused, and why.

    As few requests as can be, as there may be thousands of topics. Not one alone: the hub keeps it
    as one batch of records. Topics of a request that is refused are committed one by one.
    """
    failed: dict[str, str] = {}
    offsets = [pair for own in wanted.values() for pair in own.items()]
    for part in in_parts(offsets, MOST_PARTITIONS):
        why = commit(hub, group, dict(part), timeout, mark)
        topics = {tp.topic for tp, _ in part} if why else set()
        if len(topics) == 1:
            failed |= dict.fromkeys(topics, why)
            continue
        for topic in sorted(topics):
            if why := commit(hub, group, wanted[topic], timeout, mark):
                failed[topic] = why
    return failed


def _several(topics: Sequence[TopicPlaces]) -> list[str]:
    """That one group of several sources has one place."""
    notes = []
    for topic in topics:
        aliases = sorted({sp.cluster for sp in topic.wanted.commits})
        if len(aliases) > 1 and topic.places:
            notes.append(
                f"{topic.wanted.hub_topic}: the group is at {', '.join(aliases)}; it continues at "
                "the earliest of their places"
            )
    return notes
