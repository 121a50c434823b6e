"""Claims by their plain definition: one for each source and each hub topic that it may feed."""

from __future__ import annotations

from dataclasses import replace

from aggregator.model.values import SourcePartition
from aggregator.plan.completeness.claims import Claim, ClaimSight, Laggard, Lost
from aggregator.plan.completeness.marks import MarkLedger
from aggregator.plan.completeness.scope import Key


class PlainClaims:
    """Makes all of them again each time."""

    def __init__(self) -> None:
        self._last: dict[Key, Claim] = {}
        self._ever: dict[Key, set[str]] = {}

    def make(self, ledger: MarkLedger, sight: ClaimSight) -> list[Claim]:
        """For each hub topic all sources together, then each source that feeds it, or has."""
        found: list[Claim] = []
        for hub_topic, aliases in sight.scope.by_topic.items():
            may_feed = sight.scope.may_feed.get(hub_topic, frozenset())
            own = [
                self._of(ledger, sight, (alias, hub_topic))
                for alias in sorted({*aliases, *may_feed})
            ]
            least = min(own, key=lambda it: -1 if it.up_to_ms is None else it.up_to_ms)
            shown = [it for it in own if it.topics or it.laggard is not None]
            lost = Lost(sum(it.lost.offsets for it in shown), sum(it.lost.gaps for it in shown))
            found.append(
                Claim(None, hub_topic, least.up_to_ms, least.laggard, lost, hub_id=least.hub_id)
            )
            found += [it for it in own if it.topics]
        return found

    def _of(self, ledger: MarkLedger, sight: ClaimSight, key: Key) -> Claim:
        scope, (alias, hub_topic) = sight.scope, key
        topics, cluster_id = scope.topics(key), scope.cluster_ids.get(alias, "")
        old = {topic for topic in topics if (alias, topic) not in sight.came}
        last, floor = self._last.get(key), None
        if last is not None and last.covers(old, cluster_id, scope.hub_id):
            floor = last.up_to_ms
        if last is not None and alias in scope.unseen:
            topics, cluster_id = topics | set(last.topics), cluster_id or last.cluster_id
        ever = self._ever.setdefault(key, set())
        ever |= topics
        gone = sorted(it for it in ever - topics if (alias, it) in sight.unsettled)
        is_unseen = alias in scope.unseen and scope.may(key)
        listed = sight.listed_ms.get(alias) if scope.may_get(key) else sight.now_ms
        reached, slowest = listed, None
        if partitions := scope.partitions.get(key):
            at_ms, slowest = ledger.least(partitions)
            reached = None if at_ms is None or listed is None else min(at_ms, listed)
        if gone or key in scope.untaken or is_unseen:
            reached = None
        up_to = floor
        if reached is not None:
            up_to = max(reached - sight.lateness_ms - 1, floor or 0)
        lost = [sight.lost.get((alias, it), Lost()) for it in ever]
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
    scope, (alias, _) = sight.scope, key
    of_source = sight.blame(alias, None)
    if (why := scope.untaken.get(key)) is not None:
        return Laggard(alias, "not_taken", why)
    if alias in scope.unseen and scope.may(key):
        words = "its topics are not yet listed"
        return of_source if of_source.reason else Laggard(alias, "away", words)
    if scope.may_get(key) and (slowest is None or reached == sight.listed_ms.get(alias)):
        words = "a topic of it that is not listed yet may flow into this one"
        return of_source if of_source.reason else Laggard(alias, "not_listed", words)
    return sight.blame(alias, slowest)
