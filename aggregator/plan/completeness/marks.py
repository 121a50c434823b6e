"""Up to which moment each source partition is in the hub, from probes and positions. Pure.

Before a probe is sent, its moment is noted. The end that it then reports is at or beyond all that
the source had acknowledged at that moment. So when the position has reached that end, all of it is
in the hub. Between two probes nothing is claimed. Moments are those of our own clock.

The ends are high watermarks, also of a source that is read committed: behind the last stable offset
lies what others have acknowledged while a transaction is open.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.model.values import UNKNOWN_LOG, LogId, Positions, SourcePartition

MOST_MARKS = 64
"""The most ends that a partition still has to reach; beyond that every other one is dropped, which
is safe."""
PAST_TICKS = 20
CUT = "its log ends below what was read of it"
OTHER_LOG = "its log is another one than what is read"
NEW_PARTITIONS = "its topic has partitions that are not read yet"


@dataclass(frozen=True, slots=True)
class Mark:
    """The answer to one probe: when it was sent, nothing was acknowledged beyond `ends`.

    `asked_at` and `asked_ms` are that moment, by the monotonic clock and by that of the day, both
    taken before the probe was sent. `partitions` is how many each topic had after that, and the ids
    prove what the ends belong to. `stable` are the ends for a reader of committed records, where
    they are lower: there a transaction is open.
    """

    asked_at: float
    asked_ms: int
    cluster_id: str = ""
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[SourcePartition, int] = field(default_factory=dict)
    stable: Mapping[SourcePartition, int] = field(default_factory=dict)
    more_seconds: float = 0.0

    def log(self, topic: str) -> LogId:
        """What the offsets of a topic counted in."""
        return LogId(self.cluster_id, self.topic_ids.get(topic, ""))


class Reached(NamedTuple):
    """All that a partition's source had acknowledged at `at_ms` is in the hub; None: not known."""

    at_ms: int | None
    partition: SourcePartition | None = None


class MarkLedger:
    """The reported ends that positions have not reached yet. Used by one thread."""

    def __init__(self) -> None:
        self._logs: dict[SourcePartition, _Log] = {}
        self._past: deque[tuple[float, Positions]] = deque(maxlen=PAST_TICKS)

    def follow(self, positions: Positions, now: float) -> None:
        """Note where the positions are; everything below each is acknowledged by the hub."""
        if not self._past or positions is not self._past[-1][1]:
            for sp, log in self._logs.items():
                if (position := positions.get(sp)) is not None:
                    log.reach(position)
        self._past.append((now, positions))

    def take(
        self,
        mark: Mark,
        counts: Mapping[str, int],
        reading: Iterable[SourcePartition],
        logs: Mapping[SourcePartition, LogId],
    ) -> None:
        """Take a probe's answer about the partitions of its source that are read.

        `counts` is how many partitions of each topic are known to flow; `logs` is what their
        positions count in. To be called after `follow`, with positions that are not older than
        `logs`.
        """
        before, now = self._before(mark.asked_at), self._past[-1][1]
        for sp in reading:
            end, position = mark.ends.get(sp), now.get(sp)
            if end is None or position is None:
                continue
            log = self._logs.setdefault(sp, _Log())
            log_id, read = mark.log(sp.topic), logs.get(sp, UNKNOWN_LOG)
            if mark.partitions.get(sp.topic) != counts.get(sp.topic):
                log.doubt = NEW_PARTITIONS
            elif read.is_other(log_id):
                log.doubt = OTHER_LOG
            else:
                log.is_of(log_id)
                log.reach(position)
                log.take(mark, sp, before.get(sp, 0))

    def forget_others(self, kept: Collection[SourcePartition]) -> None:
        """Forget all partitions but these."""
        self._logs = {sp: log for sp, log in self._logs.items() if sp in kept}

    def least(self, partitions: Iterable[SourcePartition]) -> Reached:
        """The partition that is furthest behind of these, and how far it is."""
        found = Reached(None)
        for sp in partitions:
            at_ms = log.reached if (log := self._logs.get(sp)) is not None else None
            if at_ms is None:
                return Reached(None, sp)
            if found.at_ms is None or at_ms < found.at_ms:
                found = Reached(at_ms, sp)
        return found

    def reached(self, sp: SourcePartition) -> int | None:
        """How far one partition is."""
        return log.reached if (log := self._logs.get(sp)) is not None else None

    def doubt(self, sp: SourcePartition) -> str:
        """Why the last answer about a partition cannot be used; "" when it can."""
        return log.doubt if (log := self._logs.get(sp)) is not None else ""

    def waits_for(self, sp: SourcePartition) -> tuple[int, int] | None:
        """The position, and the end that it must reach next; None when it has reached all."""
        log = self._logs.get(sp)
        return (log.position, log.marks[0][1]) if log is not None and log.marks else None

    def open_from(self, sp: SourcePartition) -> int | None:
        """Where a transaction is open that holds a partition up; None when none does."""
        log = self._logs.get(sp)
        if log is None or log.stable is None or not log.marks:
            return None
        return log.stable if log.position >= log.stable else None

    def _before(self, moment: float) -> Positions:
        """Positions that were known before a moment: no log that is whole ends below them then."""
        found = Positions()
        for at, positions in self._past:
            if at > moment:
                break
            found = positions
        return found


@dataclass(slots=True)
class _Log:
    """`marks` are (moment, end), both growing, of which none is reached.

    `end` is the last reported. `stable` is where a transaction is open: two marks in a row reported
    the same. One alone may be of a moment before its end.
    """

    id: LogId = UNKNOWN_LOG
    reached: int | None = None
    position: int = 0
    end: int = 0
    stable: int | None = None
    last_stable: int | None = None
    doubt: str = ""
    step: int = 0
    was_lower: bool = False
    marks: list[tuple[int, int]] = field(default_factory=list)

    def is_of(self, log_id: LogId) -> None:
        """Start over where this is another log; one whose id is not known proves nothing."""
        if self.id.is_other(log_id):
            self.reached, self.position, self.end, self.marks = None, 0, 0, []
        self.id = LogId(log_id.cluster or self.id.cluster, log_id.topic or self.id.topic)

    def reach(self, position: int) -> None:
        if position < self.position:
            # It was set back, or its log was cut: the ends to reach no longer count.
            self.end, self.marks = 0, []
        self.position = position
        passed = 0
        while passed < len(self.marks) and self.marks[passed][1] <= position:
            passed += 1
        if passed:
            self._claim(self.marks[passed - 1][0])
            del self.marks[:passed]
        if not self.marks:
            self.step = 0

    def take(self, mark: Mark, sp: SourcePartition, read: int) -> None:
        """Take an end; `read` is how far it was read before that was asked for."""
        end = mark.ends[sp]
        before, self.last_stable = self.last_stable, mark.stable.get(sp)
        self.stable = self.last_stable if self.last_stable == before else None
        if end < read or (end < self.end and not self.was_lower):
            # A new or former leader may report an old end: once.
            self.was_lower, self.doubt = end < self.end, CUT
            return
        if end < self.end:
            self.marks = []
        self.was_lower, self.doubt, self.end = False, "", end
        if end <= self.position:
            self._claim(mark.asked_ms)
        elif self.marks and self.marks[-1][1] == end:
            # Nothing came since: what was acknowledged by now is no more than that.
            self.marks[-1] = (max(self.marks[-1][0], mark.asked_ms), end)
        elif not self.marks or mark.asked_ms > self.marks[-1][0]:
            self._add(mark.asked_ms, end)

    def _add(self, at_ms: int, end: int) -> None:
        """Add a mark; the more there are, the further they are apart, over all of the time."""
        marks = self.marks
        if len(marks) > 1 and marks[-1][0] - marks[-2][0] < self.step:
            marks[-1] = (at_ms, end)
            return
        marks.append((at_ms, end))
        if len(marks) > MOST_MARKS:
            del marks[1:-1:2]
            self.step = max(2 * self.step, 2 * (marks[-1][0] - marks[0][0]) // MOST_MARKS)

    def _claim(self, at_ms: int) -> None:
        self.reached = at_ms if self.reached is None else max(self.reached, at_ms)
