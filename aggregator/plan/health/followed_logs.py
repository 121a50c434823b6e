"""What is known of the sources' logs, kept from one look to the next. Pure.

Of thousands of partitions few change in a second. So only those are looked at of which a position,
a log end or an answer is new, and those that are behind, whose delay grows with time. What follows
of a look is decided by `fetched_ends`, `delays` and `stuck`, as if it were of all partitions.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from typing import TypeVar

from aggregator.model.values import SourcePartition
from aggregator.plan.health.delays import AT_END, Delay, Delays
from aggregator.plan.health.fetched_ends import Fetches, LogEnd
from aggregator.plan.health.stuck import Movement, follow
from aggregator.plan.health.suspects import Seen

Value = TypeVar("Value")


class SourceLogs:
    """The logs of one source, and how far its positions are behind them. Used by one thread.

    `partitions` are those that are watched. `ends` are the known log ends (NEXT offsets), `total`
    their sum, and `lag` the sum of what the positions are behind them, None where both are known of
    no partition. `moving` are partitions whose log has moved on since their position did. `fetches`
    has the answers of the watched ones, `late` of those whose broker owes one; `is_covered`: they
    report all ends.
    """

    def __init__(self, alias: str) -> None:
        self.partitions: frozenset[SourcePartition] = frozenset()
        self.ends: dict[SourcePartition, int] = {}
        self.behind: dict[SourcePartition, Delay] = {}
        self.moving: dict[SourcePartition, Movement] = {}
        self.total = 0
        self.lag: int | None = None
        self.fetches = self.late = Fetches()
        self.doubts = 0
        self.is_covered = False
        self._alias = alias
        self._positions: dict[SourcePartition, int] = {}
        self._fetched: dict[SourcePartition, LogEnd] = {}
        self._fetched_at = 0.0
        self._seen = Seen()
        self._is_silent = False
        self._movements: dict[SourcePartition, Movement] = {}
        self._delays = Delays()
        self._lags: dict[SourcePartition, int] = {}
        self._grows: set[SourcePartition] = set()
        self._changed: set[SourcePartition] = set()
        self._is_fetch_new = True

    def watch(self, partitions: frozenset[SourcePartition]) -> None:
        """These are watched from now on."""
        if partitions is not self.partitions:
            self._changed |= partitions ^ self.partitions
            self.partitions, self._is_fetch_new = partitions, True

    def move(self, sp: SourcePartition, position: int | None) -> None:
        """A position is another one; None when it is not known any more."""
        self._changed.add(sp)
        _put(self._positions, sp, position)

    def fetch(self, sp: SourcePartition, end: LogEnd | None) -> None:
        """Fetches say something else of a log; None when they say nothing any more."""
        self._changed.add(sp)
        self._is_fetch_new = True
        _put(self._fetched, sp, end)

    def begin_again(self) -> None:
        """Forget what `move` and `fetch` have said: all of it comes once more."""
        self._changed |= self._positions.keys() | self._fetched.keys()
        self._positions, self._fetched, self._is_fetch_new = {}, {}, True

    def sum_up(self) -> None:
        """Bring what the fetches say up to date. Before anything of it is read."""
        if not self._is_fetch_new:
            return
        self._is_fetch_new = False
        own = {sp: it for sp, it in self._fetched.items() if sp in self.partitions}
        late = {sp: it for sp, it in own.items() if it.late_since is not None}
        self.fetches, self.late = Fetches(ends=own), Fetches(ends=late)
        self.doubts = self.fetches.doubts(own)
        self.is_covered = self.fetches.cover(self.partitions)
        self._fetched_at = max((it.at for it in own.values()), default=0.0)

    def follow(self, seen: Seen, answered_at: float, silent: Collection[str], now: float) -> bool:
        """Take the last answer of a probe, and look at what is new; whether anything was.

        `answered_at` is when it came, `silent` the sources that no longer report ends.
        """
        changed, self._changed = self._changed, set()
        if (self._alias in silent) != self._is_silent:
            self._is_silent = not self._is_silent
            changed |= self.partitions
        of_probe: set[SourcePartition] = set()
        if seen is not self._seen:
            of_probe = {*self._seen.ends, *seen.ends, *self.fetches.ends}
            self._seen = seen
        ends = self._joined(changed | of_probe)
        changed |= {sp for sp in of_probe if ends.get(sp) != self.ends.get(sp)}
        if changed:
            _replace(self.ends, changed, ends)
            self.total = sum(self.ends.values())
            lags = {
                sp: max(0, end - at)
                for sp, end in ends.items()
                if (at := self._positions.get(sp)) is not None
            }
            _replace(self._lags, changed, lags)
            self.lag = sum(self._lags.values()) if self._lags else None
        looked = changed | self._grows
        self._look(looked, max(answered_at, self._fetched_at), silent, now)
        return bool(looked)

    def _joined(self, some: Iterable[SourcePartition]) -> dict[SourcePartition, int]:
        """The ends of some partitions, as far as they are known."""
        probed, fetched = self._seen.ends, self.fetches.ends
        some_probed = {sp: end for sp in some if (end := probed.get(sp)) is not None}
        some_fetched = {sp: it for sp in some if (it := fetched.get(sp)) is not None}
        asked_at = {self._alias: self._seen.asked_at}
        return Fetches(ends=some_fetched).joined(some_probed, asked_at)

    def _look(
        self,
        looked: Set[SourcePartition],
        reported_at: float,
        silent: Collection[str],
        now: float,
    ) -> None:
        """See how far some partitions are behind, and which of them move."""
        own = {
            sp: at
            for sp in looked
            if sp in self.partitions and (at := self._positions.get(sp)) is not None
        }
        moved = follow(self._movements, own, self.ends, now)
        delays = self._delays.follow(own, self.ends, {self._alias: reported_at}, silent, now)
        for sp in looked - own.keys():
            self._delays.forget(sp)
        _replace(self._movements, looked, moved)
        _replace(
            self.moving, looked, {sp: it for sp, it in moved.items() if it.moved_at is not None}
        )
        _replace(self.behind, looked, delays)
        self._grows -= looked
        self._grows |= {sp for sp, it in delays.items() if it is not AT_END}


class AllLogs:
    """The logs of all sources, by their aliases. Used by one thread."""

    def __init__(self) -> None:
        self.sources: dict[str, SourceLogs] = {}
        self.ends: Mapping[SourcePartition, int] = {}
        self.behind: Mapping[SourcePartition, Delay] = {}
        self._positions: Mapping[SourcePartition, int] = {}
        self._fetched: Mapping[SourcePartition, LogEnd] = {}
        self._is_other = False

    def take(
        self,
        positions: Mapping[SourcePartition, int],
        fetched: Mapping[SourcePartition, LogEnd],
        watched: Mapping[str, frozenset[SourcePartition]],
    ) -> None:
        """Note what is watched of each source (alias), and which positions and ends are new.

        The caller changes none of these values later.
        """
        if watched.keys() != self.sources.keys():
            self.sources = {it: self.sources.get(it) or SourceLogs(it) for it in watched}
            self._positions, self._fetched, self._is_other = {}, {}, True
            for logs in self.sources.values():
                logs.begin_again()
        for alias, own in watched.items():
            self.sources[alias].watch(own)
        for sp, at in _changes(self._positions, positions):
            if sp.cluster in self.sources:
                self.sources[sp.cluster].move(sp, at)
        for sp, end in _changes(self._fetched, fetched):
            if sp.cluster in self.sources:
                self.sources[sp.cluster].fetch(sp, end)
        self._positions, self._fetched = positions, fetched
        for logs in self.sources.values():
            logs.sum_up()

    def follow(
        self,
        probed: Mapping[str, tuple[Seen, float]],
        silent: Collection[str],
        now: float,
    ) -> None:
        """Take the last answer of each source's probe, and when it came.

        After that `ends` and `behind` are those of now. Sources in `silent` report no ends any
        more.
        """
        # All of them: each keeps what it has taken.
        news = [it.follow(*probed[alias], silent, now) for alias, it in self.sources.items()]
        if any(news) or self._is_other:
            self._is_other = False
            self.ends = _merged(it.ends for it in self.sources.values())
            self.behind = _merged(it.behind for it in self.sources.values())


def _changes(
    before: Mapping[SourcePartition, Value], after: Mapping[SourcePartition, Value]
) -> list[tuple[SourcePartition, Value | None]]:
    """What is not as before; None where nothing is known any more."""
    if after is before:
        return []
    found: list[tuple[SourcePartition, Value | None]]
    found = [(sp, value) for sp, value in after.items() if before.get(sp) != value]
    added = sum(sp not in before for sp, _ in found)
    if len(before) + added > len(after):
        found += [(sp, None) for sp in before if sp not in after]
    return found


def _merged(
    parts: Iterable[Mapping[SourcePartition, Value]],
) -> dict[SourcePartition, Value]:
    found: dict[SourcePartition, Value] = {}
    for each in parts:
        found.update(each)
    return found


def _replace(
    found: dict[SourcePartition, Value],
    some: Set[SourcePartition],
    newer: Mapping[SourcePartition, Value],
) -> None:
    """Have what is newer, and nothing else of these partitions."""
    for sp in some - newer.keys():
        found.pop(sp, None)
    found.update(newer)


def _put(found: dict[SourcePartition, Value], sp: SourcePartition, value: Value | None) -> None:
    if value is None:
        found.pop(sp, None)
    else:
        found[sp] = value
