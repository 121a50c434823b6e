"""Remembers of which topics the hub has refused a record: from then on all of theirs are checked.

Kept until the run ends. The next run begins without, as what is refused may be taken by then.
"""

from __future__ import annotations

from collections.abc import Iterable

from aggregator.engine.events import Event
from aggregator.model import Route, SourcePartition
from aggregator.plan.poison import Topic, carefully, is_refusal


class Careful:
    """The topics whose records are checked by all limits of their hub topic.

    May be used from any thread: the set is replaced as a whole.
    """

    def __init__(self) -> None:
        self._topics: frozenset[Topic] = frozenset()

    def routes(self, routes: Iterable[Route]) -> tuple[Route, ...]:
        """The routes, with their careful limits where they apply."""
        return carefully(routes, self._topics)

    def suspect(self, partitions: Iterable[SourcePartition], failure: str) -> Event | None:
        """Note that writing records of these partitions failed.

        An event when that was a refusal and is news: then the next try gets further than this one.
        """
        found = {(sp.cluster, sp.topic) for sp in partitions} - self._topics
        if not found or not is_refusal(failure):
            return None
        self._topics |= found
        names = ", ".join(f"{cluster}/{topic}" for cluster, topic in sorted(found))
        return Event(
            "careful",
            f"the hub has refused a record of {names} ({failure}): from now on each one is checked "
            "before it is sent, and goes where topics.on_poison says",
            {"topics": names},
        )
