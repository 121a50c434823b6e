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

NOT_TAKEN, GAP = "not_taken", "gap"


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

    Without a `topic` it is about every hub topic that the source may feed and does not: none of the
    topics that it listed flows there. Then `topics` says, in one word, what the source selects.
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
    more_ms: Mapping[str, int] = field(default_factory=dict)
    """A source with very many partitions is probed more seldom: its may be so much older."""


def standing(claims: Iterable[Claim]) -> list[Claim]:
    """The claims that count, of the last ones in the table.

    Of a hub topic that a source does not feed any more the claim without a topic is the newer one.
    """
    found = list(claims)
    listings = {it.source: it for it in found if it.source is not None and not it.topic}
    return [it for it in found if not _is_outdated(it, listings.get(it.source or ""))]


def _is_bare(claim: Claim) -> bool:
    """Whether nothing of its source is known to belong into its hub topic."""
    if claim.source is None or not claim.topic or claim.topics:
        return False
    return claim.laggard is None or claim.laggard.why not in (NOT_TAKEN, GAP)


def _is_outdated(claim: Claim, listing: Claim | None) -> bool:
    if listing is None or listing.up_to_ms is None or not _is_bare(claim):
        return False
    same = claim.covers((), listing.cluster_id, listing.hub_id)
    return not same or (claim.up_to_ms or 0) <= listing.up_to_ms


@dataclass(slots=True)
class _Part:
    """What a source has of a hub topic, and what was claimed of it last.

    `gone` are topics that flowed once. `claim` is the last one, of when all was there at `reached`,
    and `shown` the same with who held it up.
    """

    key: Key
    topics: tuple[str, ...]
    partitions: tuple[SourcePartition, ...]
    may_get: bool
    is_blocked: bool
    gone: tuple[str, ...]
    cluster_id: str
    lost: Lost
    floor: int | None
    reached: int | None = None
    claim: Claim | None = None
    shown: Claim | None = None


@dataclass(slots=True)
class _HubTopic:
    """A hub topic: of what it has parts, what else may feed it, and what was claimed last of all.

    `whole` was made of the least of the claims, and those that are shown.
    """

    name: str
    parts: list[_Part]
    feeding: frozenset[str]
    may_feed: frozenset[str]
    least: Claim | None = None
    shown: list[Claim] = field(default_factory=list)
    whole: Claim | None = None


class Claims:
    """What has been claimed so far; `earlier` are the last claims of runs before this one.

    Any of a hundred sources may feed any of thousands of hub topics. So where nothing of a source
    flows, one claim of it is made for all hub topics, and any other only where something changed.
    """

    def __init__(self, earlier: Iterable[Claim] = ()) -> None:
        self._last: dict[Key, Claim] = {}
        self._ever: dict[Key, set[str]] = {}
        """All that ever flowed, also what has gone since."""
        self._listings: dict[str, Claim] = {}
        for claim in standing(earlier):
            if claim.source is not None and claim.topic:
                self._last[claim.source, claim.topic] = claim
                self._ever[claim.source, claim.topic] = set(claim.topics)
            elif claim.source is not None:
                self._listings[claim.source] = claim
        self._bare = {it for it, claim in self._last.items() if _is_bare(claim)}
        self._hub_topics: list[_HubTopic] = []
        self._may_come: list[str] = []
        self._made_of: tuple[object, ...] = ()

    def make(self, ledger: MarkLedger, sight: ClaimSight) -> tuple[Claim, ...]:
        """The current claims: for each hub topic all sources together, then each that feeds it.

        Behind them, of each source, what is claimed where it may feed a hub topic and does not.
        """
        made_of = (sight.scope, sight.came, sight.lost, sight.lateness_ms)
        if not self._made_of or sight.scope is not self._made_of[0] or made_of != self._made_of:
            self._made_of = made_of
            self._follow(sight)
        found: list[Claim] = []
        listings = {alias: self._of_listing(sight, alias) for alias in self._may_come}
        slowest = _Slowest(listings)
        for it in self._hub_topics:
            own = [self._of_part(ledger, sight, part) for part in it.parts]
            found += _of_topic(it, own, slowest)
        self._listings |= listings
        return (*found, *listings.values())

    def _follow(self, sight: ClaimSight) -> None:
        """Take over another scope, or anything else that changes seldom."""
        scope = sight.scope
        self._bare -= scope.feeds.keys() | scope.untaken.keys()
        for key in [*self._bare]:
            if _is_outdated(self._last[key], self._listings.get(key[0])):
                self._bare.discard(key)
                del self._last[key], self._ever[key]
        sources = {topic: set(aliases) for topic, aliases in scope.by_topic.items()}
        for alias, topic in self._last:
            if topic in sources and scope.may((alias, topic)):
                sources[topic].add(alias)
        self._hub_topics, come = [], set[str]()
        for topic, aliases in sources.items():
            parts = [self._part(sight, (alias, topic)) for alias in sorted(aliases)]
            may_feed = scope.may_feed.get(topic, frozenset())
            self._hub_topics.append(_HubTopic(topic, parts, frozenset(aliases), may_feed))
            come |= may_feed - {it for it in aliases if (it, topic) not in self._bare}
        self._may_come = sorted(come)

    def _part(self, sight: ClaimSight, key: Key) -> _Part:
        scope, (alias, _) = sight.scope, key
        topics, cluster_id = scope.topics(key), scope.cluster_ids.get(alias, "")
        # A topic that a source did not have before cannot make an earlier claim untrue.
        old = {topic for topic in topics if (alias, topic) not in sight.came}
        last, floor = self._last.get(key), None
        if last is not None and last.covers(old, cluster_id, scope.hub_id):
            floor = last.up_to_ms
        elif last is None and not old and scope.may(key):
            floor = self._floor_of_listing(scope, alias)
        if last is not None and alias in scope.unseen:
            # Nothing is known of it but what was: when it answers, that still counts.
            topics, cluster_id = topics | set(last.topics), cluster_id or last.cluster_id
        ever = self._ever.setdefault(key, set())
        ever |= topics
        lost = [sight.lost.get((alias, topic), Lost()) for topic in ever]
        return _Part(
            key=key,
            topics=tuple(sorted(topics)),
            partitions=scope.partitions.get(key, ()),
            may_get=scope.may_get(key),
            is_blocked=key in scope.untaken or (alias in scope.unseen and scope.may(key)),
            gone=tuple(sorted(ever - topics)),
            cluster_id=cluster_id,
            lost=Lost(sum(it.offsets for it in lost), sum(it.gaps for it in lost)),
            floor=floor,
        )

    def _floor_of_listing(self, scope: Feeding, alias: str) -> int | None:
        """What was claimed of a source where nothing of it flowed, if it still selects the same."""
        last, cluster_id = self._listings.get(alias), scope.cluster_ids.get(alias, "")
        selects = (scope.selects.get(alias, ""),)
        if last is None or not last.covers(selects, cluster_id, scope.hub_id):
            return None
        return last.up_to_ms

    def _of_listing(self, sight: ClaimSight, alias: str) -> Claim:
        """Of a source where nothing of it flows: it is known up to the listing of its topics."""
        scope, floor = sight.scope, self._floor_of_listing(sight.scope, alias)
        reached = None if alias in scope.unseen else sight.listed_ms.get(alias)
        last, laggard = self._listings.get(alias), None
        if not _is_fresh(sight, alias, reached):
            laggard = _listing_laggard(sight, alias)
        cluster_id = scope.cluster_ids.get(alias, "")
        if last is not None and alias in scope.unseen:
            cluster_id = last.cluster_id
        claim = Claim(
            alias,
            "",
            _up_to(sight, reached, floor),
            laggard,
            Lost(),
            (scope.selects.get(alias, ""),),
            cluster_id,
            scope.hub_id,
        )
        return last if last is not None and last == claim else claim

    def _of_part(self, ledger: MarkLedger, sight: ClaimSight, part: _Part) -> Claim:
        alias, hub_topic = part.key
        listed = sight.listed_ms.get(alias) if part.may_get else sight.now_ms
        slowest: SourcePartition | None = None
        reached = listed
        if part.partitions:
            at_ms, slowest = ledger.least(part.partitions)
            if at_ms is None or (listed is not None and at_ms <= listed):
                reached = at_ms
        gone = [it for it in part.gone if (alias, it) in sight.unsettled]
        if gone or part.is_blocked:
            reached = None
        claim = part.claim
        if claim is None or reached != part.reached:
            up_to = _up_to(sight, reached, part.floor)
            part.reached, part.floor, part.shown = reached, up_to, None
            claim = part.claim = self._last[part.key] = Claim(
                alias,
                hub_topic,
                up_to,
                None,
                part.lost,
                part.topics,
                part.cluster_id,
                sight.scope.hub_id,
            )
        if _is_fresh(sight, alias, reached):
            return claim
        if gone:
            reason = f"topic {gone[0]} is gone, and what was not copied of it is undecided"
            laggard = Laggard(alias, GAP, reason, gone[0])
        else:
            laggard = _laggard(sight, part, slowest, reached)
        if part.shown is None or part.shown.laggard != laggard:
            part.shown = replace(claim, laggard=laggard)
        return part.shown


def _is_fresh(sight: ClaimSight, alias: str, reached: int | None) -> bool:
    fresh_ms = sight.fresh_ms + sight.more_ms.get(alias, 0)
    return reached is not None and reached >= sight.now_ms - fresh_ms


def _up_to(sight: ClaimSight, reached: int | None, floor: int | None) -> int | None:
    if reached is None:
        return floor
    # What came in the same millisecond, but after that moment, may not be there.
    return max(reached - sight.lateness_ms - 1, floor if floor is not None else 0)


def _laggard(
    sight: ClaimSight, part: _Part, slowest: SourcePartition | None, reached: int | None
) -> Laggard:
    alias, _ = part.key
    if (why := sight.scope.untaken.get(part.key)) is not None:
        return Laggard(alias, NOT_TAKEN, why)
    at_listing = part.may_get and (slowest is None or reached == sight.listed_ms.get(alias))
    return (
        _listing_laggard(sight, alias)
        if part.is_blocked or at_listing
        else sight.blame(alias, slowest)
    )


def _listing_laggard(sight: ClaimSight, alias: str) -> Laggard:
    """Why no topic of a source is known that was created since its topics were listed last."""
    laggard = sight.blame(alias, None)
    if laggard.reason:
        return laggard
    if alias in sight.scope.unseen:
        return Laggard(alias, "away", "its topics are not yet listed")
    words = "a topic of it that is not listed yet may flow into this one"
    return Laggard(alias, "not_listed", words)


class _Slowest:
    """The claims of sources where nothing of them flows, of which each hub topic has the least."""

    def __init__(self, listings: Mapping[str, Claim]) -> None:
        self._listings = listings
        self._orders: dict[frozenset[str], list[Claim]] = {}

    def of(self, may_feed: frozenset[str], feeding: frozenset[str]) -> Claim | None:
        """The least of those that may feed a hub topic, without those of which something does."""
        order = self._orders.get(may_feed)
        if order is None:
            known = [self._listings[it] for it in may_feed if it in self._listings]
            order = self._orders[may_feed] = sorted(known, key=_how_far)
        return next((it for it in order if it.source not in feeding), None)


def _how_far(claim: Claim) -> tuple[int, str]:
    return -1 if claim.up_to_ms is None else claim.up_to_ms, claim.source or ""


def _of_topic(topic: _HubTopic, own: Sequence[Claim], slowest: _Slowest) -> list[Claim]:
    """The claims of a hub topic: the least of all, with the laggard of it, then those shown."""
    least, other = min(own, key=_how_far), slowest.of(topic.may_feed, topic.feeding)
    if other is not None:
        least = min(least, other, key=_how_far)
    shown = [it for it in own if it.topics or it.laggard is not None]
    if topic.whole is None or least is not topic.least or shown != topic.shown:
        lost = Lost(sum(it.lost.offsets for it in shown), sum(it.lost.gaps for it in shown))
        topic.least, topic.shown = least, shown
        topic.whole = Claim(
            None, topic.name, least.up_to_ms, least.laggard, lost, hub_id=least.hub_id
        )
    return [topic.whole, *shown]


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
