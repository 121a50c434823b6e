"""Where a consumer group of the sources continues at the hub, so that it misses nothing. Pure.

Let c be the offset that the group has committed at a source partition p, and H the hub topic that
p is copied into; a partition of a topic in which the group has commits, but with none of its own,
has c = 0: nothing of it was read. Then for each partition h of H

- first(h, p) is the hub offset of the first record in h that comes from p with an offset of c or
  higher. If there is none, it is the end of h, read before anything was looked for;
- place(h) is the lowest first(h, p) of all these p. There the group continues;
- what it reads again are the records of h at place(h) or behind, from any such p and below its c.
  One offset for each hub partition cannot separate them from the others. They are counted one by
  one, and there are none where h takes from one source partition only.

What comes later than the end that was read lies behind it, so nothing that the group has not read
lies before place(h). Only clusters in which the group has commits are asked for anything.

Nothing is searched in the topic as a whole. The history of the checkpoint has, for each p, hub ends
before which no record of p from c on lies (`lower`), and mostly hub ends behind all of its records
below c (`upper`). In between, records of one p keep their order in h. So reading begins at the
lowest `lower`, and ends as soon as place(h) is found and no record below its c can follow of any p.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from aggregator.model.values import (
    UNKNOWN_LOG,
    LogId,
    OffsetRange,
    Route,
    SourcePartition,
    TopicPartition,
)
from aggregator.plan.positions.start import Gap
from aggregator.plan.topics.selection import first_match

Commits = Mapping[str, Mapping[TopicPartition, int]]
"""Source (alias) -> what the group has committed there; a partition without a commit is absent."""

FAR = 2**63
"""Higher than every offset."""


@dataclass(frozen=True, slots=True)
class OriginFeed:
    """What one source partition says about one hub partition.

    `commit` is the next record that the group reads of it. Nothing of it from there on lies before
    `lower` in the hub partition, and nothing before `commit` lies at `upper` or behind; None when
    that is not proven. `in_order` is False when its records may have been written in another order,
    as by positions that were set back.
    """

    commit: int
    lower: int = 0
    upper: int | None = None
    in_order: bool = True


class HubScan:
    """Finds the place in one hub partition, while its records from `start` on are handed in.

    `log` is what the hub partition held when its end was read. `done` says that no more records are
    needed; without that all up to the end are. Behind `most` records it is done as well, and what
    is read again may then not be `counted`; nothing is missed at its place all the same.

    With `pin` the group may have been there already, at that place: what was written there itself
    counts from there on, too.
    """

    def __init__(
        self,
        feeds: Mapping[SourcePartition, OriginFeed],
        log: OffsetRange,
        most: int | None = None,
        pin: int | None = None,
    ) -> None:
        lowest = min((feed.lower for feed in feeds.values()), default=log.latest)
        self._pin = FAR if pin is None else pin
        lowest = min(lowest, self._pin)
        self.start = min(max(lowest, log.earliest), log.latest)
        self.end = log.latest
        self.done = self.start >= self.end
        self.counted = True
        self.read = 0
        """The number of records taken."""
        self.again = 0
        """How many of the taken records are read again."""
        self._feeds = feeds
        self._most = FAR if most is None else most
        self._passed = self.end
        self._found: int | None = None
        self._open = set(feeds)
        self._by_bound = sorted((_behind(feed), sp) for sp, feed in feeds.items())
        self._until = self._bound()

    @property
    def place(self) -> int:
        """Where the group continues."""
        return self._passed if self._found is None else self._found

    @property
    def found(self) -> bool:
        """Whether a record was found there; else it is the end."""
        return self._found is not None

    def take(self, offset: int, origin: SourcePartition | None, at: int, records: int = 1) -> None:
        """The next records, which follow each other here and where they come from.

        `offset` is the hub offset of the first, which comes from offset `at` of `origin`. Those
        after it that would only be counted are counted at once: a batch costs as much as a record.
        """
        over = offset + records
        while offset < over and not self.done:
            self._take_one(offset, origin, at)
            offset, at = offset + 1, at + 1
            if offset < over and not self.done:
                alike = min(over - offset, self._alike(offset, origin, at))
                self.read += alike
                if self._is_again(origin, at):
                    self.again += alike
                offset, at = offset + alike, at + alike

    def _is_again(self, origin: SourcePartition | None, at: int) -> bool:
        """Whether a record, and those before the commit after it, are read again."""
        feed = self._feeds.get(origin) if origin is not None else None
        return feed is not None and at < feed.commit and self._found is not None

    def _alike(self, offset: int, origin: SourcePartition | None, at: int) -> int:
        """How many records from this one on change nothing but counts."""
        # The one that reaches the limit ends the scan, and so does the one before `_until`.
        limits = [self.end - offset, self._most - self.read - 1]
        if self._found is not None:
            limits.append(self._until - 1 - offset)
        feed = self._feeds.get(origin) if origin is not None else None
        if origin is None and self._found is None:
            limits.append(self._pin - offset)
        elif feed is not None and at < feed.commit:
            limits.append(feed.commit - at)
        elif feed is not None and offset < feed.lower:
            limits.append(feed.lower - offset)
        elif feed is not None and (self._found is None or (feed.in_order and origin in self._open)):
            return 0
        return max(0, min(limits))

    def _take_one(self, offset: int, origin: SourcePartition | None, at: int) -> None:
        if offset >= self.end:
            self.done = True
            return
        self.read += 1
        feed = self._feeds.get(origin) if origin is not None else None
        if origin is None and offset >= self._pin and self._found is None:
            self._found = offset
        if feed is not None and origin is not None:
            if at < feed.commit:
                self.again += self._found is not None
            # Before its bound may lie records of an earlier topic of that name.
            elif offset >= feed.lower:
                if self._found is None:
                    self._found = offset
                if feed.in_order and origin in self._open:
                    self._open.remove(origin)
                    self._until = self._bound()
        if self._found is not None and offset + 1 >= self._until:
            self.done = True
        elif self.read >= self._most:
            self.done, self.counted, self._passed = True, False, offset + 1

    def _bound(self) -> int:
        """Where no record below its commit can follow of any partition that is open."""
        while self._by_bound and self._by_bound[-1][1] not in self._open:
            self._by_bound.pop()
        return self._by_bound[-1][0] if self._by_bound else 0


def _behind(feed: OriginFeed) -> int:
    """Where no record of it below its commit can follow, whatever was read of it before."""
    return FAR if feed.upper is None or not feed.in_order else feed.upper


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """A source partition in the checkpoint: its position, and the log that it counts in."""

    position: int
    log: LogId = UNKNOWN_LOG


@dataclass(frozen=True, slots=True)
class Wanted:
    """One hub topic to be translated into, for one group.

    `commits` has each source partition that counts. `waiting` are those of which the group has read
    more than is copied, with how many offsets. With `refusals` nothing is translated.
    """

    hub_topic: str
    commits: Mapping[SourcePartition, int]
    waiting: Mapping[SourcePartition, int] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()


def plan_topics(
    commits: Commits,
    routes: Iterable[Route],
    known: Mapping[SourcePartition, KnownPosition],
    now: Mapping[tuple[str, str], LogId],
    hub_ids: tuple[str, str],
    hub_topics: Collection[str],
) -> tuple[Wanted, ...]:
    """The hub topics into which a group is translated, and why some cannot be.

    `known` is the checkpoint's, `now` has the ids of the source topics (alias, topic) as they are
    now, `hub_ids` are the hub's cluster id in the checkpoint and now, `hub_topics` are there.
    """
    by_topic: dict[str, dict[SourcePartition, int]] = {}
    for route in routes:
        # Of a hundred sources the group may be at one.
        if not (own := commits.get(route.cluster)):
            continue
        partitions = route.source_partitions()
        if any(sp.topic_partition in own for sp in partitions):
            found = {sp: own.get(sp.topic_partition, 0) for sp in partitions}
            by_topic.setdefault(route.hub_topic, {}).update(found)
    return tuple(
        Wanted(
            topic,
            found,
            {
                sp: at - known[sp].position
                for sp, at in found.items()
                if sp in known and at > known[sp].position
            },
            tuple(_refusals(topic, found, known, now, hub_ids, hub_topics)),
        )
        for topic, found in sorted(by_topic.items())
    )


def _refusals(
    topic: str,
    commits: Iterable[SourcePartition],
    known: Mapping[SourcePartition, KnownPosition],
    now: Mapping[tuple[str, str], LogId],
    hub_ids: tuple[str, str],
    hub_topics: Collection[str],
) -> Iterable[str]:
    then, hub = hub_ids
    if then != hub or not hub:
        yield f"the hub is cluster {hub or '?'} now, and what was copied is in {then or '?'}"
        return
    if topic not in hub_topics:
        yield f"hub topic {topic} is not there: run it first"
        return
    # One sentence for each source topic.
    reported: set[str] = set()
    for sp in commits:
        why = _unproven(sp, known.get(sp), now.get((sp.cluster, sp.topic), UNKNOWN_LOG))
        if why and why not in reported:
            reported.add(why)
            yield why


def _unproven(sp: SourcePartition, known: KnownPosition | None, now: LogId) -> str:
    name = f"{sp.cluster}/{sp.topic}"
    if known is None:
        return f"{sp} has no position in the checkpoint: it is not copied yet"
    if not all((*known.log, *now)):
        return f"{name}: the ids of its cluster or topic are not known, so offsets prove nothing"
    if known.log.is_other_cluster(now):
        return (
            f"{name}: {sp.cluster} is cluster {now.cluster} now, and what was copied is of "
            f"{known.log.cluster}"
        )
    if known.log.is_other_topic(now):
        return f"{name}: the topic was created again, and what was copied is of the one before"
    return ""


@dataclass(frozen=True, slots=True)
class HubPlace:
    """Where a group continues in one hub partition, and how many records it reads again there.

    `again` None was not counted. `found` is False where it continues at the end of the log.
    """

    partition: TopicPartition
    offset: int
    again: int | None
    found: bool = True


def unread_losses(commits: Mapping[SourcePartition, int], gaps: Iterable[Gap]) -> int:
    """How many gaps have offsets that the group has not read: these records are lost for it."""
    return sum(
        gap.lost != 0 and (gap.end is None or gap.end > commits[gap.partition])
        for gap in gaps
        if gap.partition in commits
    )


class Marked(NamedTuple):
    """An offset that the hub has of a group, and the text that its writer has put beside it."""

    offset: int
    mark: str = ""


def mark_of(name: str, commits: Commits) -> str:
    """The text beside offsets that aggregation `name` writes, by these commits at the sources."""
    rows = sorted((alias, *tp, at) for alias, own in commits.items() for tp, at in own.items())
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    return f"aggregator {name} {digest[:16]}"


class PlaceVerdict(StrEnum):
    """The decision about a place."""

    WRITE = "write"
    SAME = "same"
    KEPT = "kept"
    BACKWARDS = "backwards"
    ACTIVE = "active"
    OTHERS = "others"
    FAILED = "failed"


GOOD = (PlaceVerdict.WRITE, PlaceVerdict.SAME, PlaceVerdict.KEPT)
"""The hub has, or will have, what is right."""


@dataclass(frozen=True, slots=True)
class ApplyRules:
    """How a translation is carried out; `dry_run` writes nothing.

    `keeping`: it was not requested, so only what was written by the same aggregation is moved,
    and only when the group made progress at a source. Without that its place at the hub would leap
    over what was written there itself, which its consumers may be about to read. With `refine` it
    moves all the same, up to that: what the group had read already was copied since.
    """

    dry_run: bool = True
    allow_backwards: bool = False
    keeping: bool = False
    refine: bool = False


def judge(
    place: HubPlace, committed: Marked | None, mark: str, rules: ApplyRules, *, active: bool
) -> PlaceVerdict:
    """Whether a place must be written, where the hub has `committed` for the group so far.

    `mark` is what would be written beside it.
    """
    if committed is None:
        return PlaceVerdict.ACTIVE if active else PlaceVerdict.WRITE
    same = committed.offset == place.offset
    if same and (active or committed.mark == mark):
        return PlaceVerdict.SAME
    if active:
        return PlaceVerdict.ACTIVE
    if rules.keeping and committed.mark.rpartition(" ")[0] != mark.rpartition(" ")[0]:
        return PlaceVerdict.SAME if same else PlaceVerdict.OTHERS
    if rules.keeping and committed.mark == mark and not rules.refine:
        return PlaceVerdict.KEPT
    if committed.offset > place.offset and not rules.allow_backwards:
        return PlaceVerdict.BACKWARDS
    return PlaceVerdict.WRITE


REASONS: Mapping[PlaceVerdict, str] = {
    PlaceVerdict.WRITE: "",
    PlaceVerdict.SAME: "",
    PlaceVerdict.KEPT: "",
    PlaceVerdict.OTHERS: "its offset at the hub is a consumer's or another writer's: left alone "
    "until `aggregator groups apply` takes it over",
    PlaceVerdict.BACKWARDS: "the group is further at the hub: --allow-backwards sets it back",
    PlaceVerdict.ACTIVE: "the group has active members at the hub: stop them",
    PlaceVerdict.FAILED: "",
}

IDLE = ("EMPTY", "DEAD", "")
"""States of a group without active members; "" is one that does not exist."""


def is_active(state: str) -> bool:
    """Whether a group in this state has members. An unknown state counts as having some."""
    return state.upper() not in IDLE


OWN_PREFIX = "aggregator-"
"""The prefix of the groups by which `publish_group` publishes positions."""


def matching(groups: Iterable[str], include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """The groups that the patterns select: whole names, and exclude wins, as with topics.

    Those that aggregations publish belong to no consumer, so a pattern does not match them.
    """
    return [
        name
        for name in sorted(set(groups))
        if not name.startswith(OWN_PREFIX)
        and first_match(tuple(include), name)
        and not first_match(tuple(exclude), name)
    ]
