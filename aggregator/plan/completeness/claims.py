"""Claims that a source or hub topic is complete up to a moment, which never goes back. Pure.

A record that is not in the hub by then was appended later than the last moment that was reached. So
its timestamp is later than that less the lateness that is allowed, unless it was late.

How many were late has a lower bound. The tasks count records by their age when the hub acknowledged
them, in buckets, for each source. A record counts as late when even the youngest of its bucket was
below all that was claimed of its source a moment before. So there is no cost for each record.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from aggregator.model.values import SourcePartition
from aggregator.plan.completeness.marks import MarkLedger
from aggregator.plan.completeness.scope import Feeding, Key


@dataclass(frozen=True, slots=True)
class Laggard:
    """Who holds a claim up, and why: a word, and the reason in words."""

    source: str
    why: str
    reason: str = ""
    topic: str = ""
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets lost of a source's topics in gaps that were decided; `gaps` of which any were."""

    offsets: int = 0
    gaps: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """Every record with a timestamp up to `up_to_ms` that the source acknowledged is in the hub.

    Of the hub topic; of all sources together where `source` is None. None claims nothing. What was
    lost at the source is not among them. `topics` are the source's, in its cluster.
    """

    source: str | None
    topic: str
    up_to_ms: int | None
    laggard: Laggard | None = None
    lost: Lost = Lost()
    topics: tuple[str, ...] = ()
    cluster_id: str = ""
    hub_id: str = ""

    def covers(self, topics: Collection[str], cluster_id: str, hub_id: str) -> bool:
        """Whether it is about these topics too; an id that is not known proves nothing."""
        same_source = not (self.cluster_id and cluster_id) or self.cluster_id == cluster_id
        same_hub = not (self.hub_id and hub_id) or self.hub_id == hub_id
        return same_source and same_hub and set(topics) <= set(self.topics)


@dataclass(frozen=True, slots=True)
class ClaimSight:
    """The inputs of claims: routes, when topics were last listed, what was lost.

    `listed_ms` is when each source last listed its topics. `came` are the topics that a source did
    not have before. Of those in `unsettled` something is still to be copied, or to be decided.
    `blame` says why a partition, or a source (None), holds a claim up that is not fresh.
    """

    scope: Feeding
    listed_ms: Mapping[str, int]
    came: Collection[tuple[str, str]]
    unsettled: Collection[tuple[str, str]]
    lost: Mapping[tuple[str, str], Lost]
    lateness_ms: int
    now_ms: int
    blame: Callable[[str, SourcePartition | None], Laggard]
    fresh_ms: int = 8_000
    """A claim that is no older than that, and what is allowed, has no laggard."""


class Claims:
    """What has been claimed so far; `earlier` are the last claims of runs before this one."""

    def __init__(self, earlier: Iterable[Claim] = ()) -> None:
        self._last: dict[Key, Claim] = {}
        self._topics: dict[Key, set[str]] = {}
        """All that ever flowed, also what has gone since."""
        for claim in earlier:
            if claim.source is not None:
                self._last[claim.source, claim.topic] = claim
                self._topics[claim.source, claim.topic] = set(claim.topics)

    def make(self, ledger: MarkLedger, sight: ClaimSight) -> tuple[Claim, ...]:
        """The current claims: for each hub topic all sources together, then each of them."""
        found: list[Claim] = []
        for hub_topic, aliases in sight.scope.by_topic().items():
            own = [self._of_source(ledger, sight, (alias, hub_topic)) for alias in aliases]
            shown = [it for it in own if it.topics or it.laggard is not None]
            found += [_together(hub_topic, own, shown), *shown]
        return tuple(found)

    def _of_source(self, ledger: MarkLedger, sight: ClaimSight, key: Key) -> Claim:
        scope, (alias, hub_topic) = sight.scope, key
        topics = scope.topics(key)
        cluster_id = scope.cluster_ids.get(alias, "")
        last, floor = self._last.get(key), None
        # A topic that a source did not have before cannot make an earlier claim untrue.
        old = {topic for topic in topics if (alias, topic) not in sight.came}
        if last is not None and last.covers(old, cluster_id, scope.hub_id):
            floor = last.up_to_ms
        listed = sight.listed_ms.get(alias) if key in scope.listed else sight.now_ms
        slowest: SourcePartition | None = None
        reached = listed
        if topics:
            at_ms, slowest = ledger.least(scope.partitions[key])
            if at_ms is None or (listed is not None and at_ms <= listed):
                reached = at_ms
        ever = self._topics.setdefault(key, set())
        ever |= topics
        gone = sorted(it for it in ever - topics if (alias, it) in sight.unsettled)
        if gone or key in scope.untaken or key in scope.unseen:
            reached = None
        up_to = floor
        if reached is not None:
            # What came in the same millisecond, but after that moment, may not be there.
            up_to = max(reached - sight.lateness_ms - 1, floor if floor is not None else 0)
        lost = [sight.lost.get((alias, topic), Lost()) for topic in ever]
        claim = self._last[key] = Claim(
            alias,
            hub_topic,
            up_to,
            None,
            Lost(sum(it.offsets for it in lost), sum(it.gaps for it in lost)),
            tuple(sorted(topics)),
            cluster_id,
            scope.hub_id,
        )
        if reached is not None and reached >= sight.now_ms - sight.fresh_ms:
            return claim
        if gone:
            reason = f"topic {gone[0]} is gone, and what was not copied of it is undecided"
            return replace(claim, laggard=Laggard(alias, "gap", reason, gone[0]))
        return replace(claim, laggard=_laggard(sight, key, slowest, reached))


def _laggard(
    sight: ClaimSight, key: Key, slowest: SourcePartition | None, reached: int | None
) -> Laggard:
    alias, _ = key
    if (why := sight.scope.untaken.get(key)) is not None:
        return Laggard(alias, "not_taken", why)
    if key in sight.scope.unseen:
        laggard = sight.blame(alias, None)
        return (
            laggard if laggard.reason else Laggard(alias, "away", "its topics are not yet listed")
        )
    listed = sight.listed_ms.get(alias)
    if key in sight.scope.listed and (slowest is None or reached == listed):
        laggard = sight.blame(alias, None)
        words = "a topic of it that is not listed yet may flow into this one"
        return laggard if laggard.reason else Laggard(alias, "not_listed", words)
    return sight.blame(alias, slowest)


def _together(hub_topic: str, own: Sequence[Claim], shown: Sequence[Claim]) -> Claim:
    """The least of the claims, and the laggard of it."""
    least = min(own, key=lambda it: -1 if it.up_to_ms is None else it.up_to_ms)
    lost = Lost(sum(it.lost.offsets for it in shown), sum(it.lost.gaps for it in shown))
    return Claim(None, hub_topic, least.up_to_ms, least.laggard, lost, hub_id=least.hub_id)


REPORTED_MS = 5_000
"""What was acknowledged is reported sooner than that: only claims that are older count."""


class LateCounts:
    """`bounds` are the upper bounds of the buckets, in ms. Used by one thread."""

    def __init__(self, bounds: Sequence[int]) -> None:
        self._least = (0, *bounds)
        self._sources: dict[str, _Counted] = {}

    def follow(
        self,
        ages: Mapping[str, Sequence[int]],
        claimed: Mapping[str, int | None],
        now_ms: int,
    ) -> dict[str, int]:
        """The late records of each source (alias) since the start, after one more report.

        `ages` are its counts since the start, `claimed` is the least that is claimed of it.
        """
        for alias, counts in ages.items():
            known = self._sources.setdefault(alias, _Counted())
            known.claims.append((now_ms, claimed.get(alias)))
            while len(known.claims) > 1 and known.claims[1][0] <= now_ms - REPORTED_MS:
                known.claims.popleft()
            at_ms, claim = known.claims[0]
            if claim is not None and at_ms <= now_ms - REPORTED_MS:
                known.late += sum(
                    max(0, new - old)
                    for least, new, old in zip_longest(self._least, counts, known.ages, fillvalue=0)
                    if least >= now_ms - claim
                )
            known.ages = tuple(counts)
        return {alias: known.late for alias, known in self._sources.items()}


@dataclass(slots=True)
class _Counted:
    late: int = 0
    ages: tuple[int, ...] = ()
    claims: deque[tuple[int, int | None]] = field(default_factory=deque)
