"""The small world with dedup: records of both sources are of one event, which arrives once.

A task claims the event of a record that it sends, and drops a record whose event the hub holds.
What became of the claims of tasks that are gone shows when the hub was read after that, as in
`Claims.java`. A hub partition that takes nothing of a source partition ends its lane.
"""

from __future__ import annotations

from random import Random
from typing import Any

from aggregator.model.values import SourcePartition
from support.flow_world import PARTITIONS, Record, Tasks, World

Event = tuple[int, int]
"""The partition and offset that both sources have it at."""


class EventsWorld(World):
    """A dropped record is in the hub as well, in the topic of the duplicates."""

    def __init__(self, rng: Random, **settings: Any) -> None:
        self.dropped: set[Record] = set()
        self.refusing: set[SourcePartition] = set()
        super().__init__(rng, **settings)
        self.ends_whole = True

    def restart(self) -> None:
        """Claims die with the process; the hub is read for its events before anything is sent."""
        super().restart()
        self.claims: dict[Event, tuple[Record, Tasks]] = {}
        self.held = {_event(it) for it in self.hub if it not in self.dropped}

    def turn(self) -> None:
        """Now and then the hub is read for the claims of tasks that are gone."""
        super().turn()
        if not self.unshown and self.rng.random() < 0.2:
            gone = {event: it for event, it in self.claims.items() if self._is_gone(it[1])}
            self.claims = {event: it for event, it in self.claims.items() if event not in gone}
            self.held |= {event for event, (record, _) in gone.items() if record in self.hub}

    def happen(self) -> None:
        """Also: a hub partition takes nothing of a source partition, or takes it again."""
        if self.rng.random() < 0.1:
            self.refusing ^= {self.rng.choice(PARTITIONS)}
        for record, tasks in list(self.claims.values()):
            # A claim stays when its task is gone, until the hub is read.
            is_refused = record[0] in self.refusing and not self._is_gone(tasks)
            if is_refused and self.rng.random() < 0.3:
                self.stick(tasks, record[0])
        super().happen()

    def until_quiet(self, turns: int = 2000) -> None:
        """No more faults, at any hub partition."""
        self.refusing = set()
        super().until_quiet(turns)

    def deliver(self, record: Record, tasks: Tasks, *, wild: bool) -> bool:
        """It is sent, or dropped; False while it waits, or has no answer yet."""
        event = _event(record)
        if event in self.held:
            self.dropped.add(record)
            return super().deliver(record, tasks, wild=wild)
        claimed, by = self.claims.get(event, (record, tasks))
        if by is not tasks and not (claimed == record and self._is_gone(by)):
            return False
        if claimed != record:
            return False
        self.claims[event] = (record, tasks)
        if record[0] in self.refusing or self.rng.random() < 0.1:
            return False
        twice = [it for it in self.hub if _event(it) == event and it not in self.dropped]
        assert not twice, f"{record} is of the event of {twice[0]}"
        super().deliver(record, tasks, wild=wild)
        if tasks.active and not wild:
            # Of a task that has failed no answer counts.
            self.held.add(event)
            del self.claims[event]
        return True

    def _is_gone(self, tasks: Tasks) -> bool:
        return not any(it is tasks for it in [*self.lanes.values(), *self.ghosts])


def _event(record: Record) -> Event:
    sp, _, offset = record
    return sp.partition, offset
